"""Check a certificate: ``python -m tessella.certify.check certificate.json model.nc``.

This file stands alone, on NumPy and a reader for the model file; it shares no code with what made
the certificate. If V is within e of V*, then |T V - V| <= (1 + c) e, with c = discount * largest
row sum. A larger residual refutes the certificate; a smaller one proves that V is within
(1 + c) e / (1 - c) of V*. So it is for the policy's value and T_pi. What is stated about the loss
must then follow from the two values. ``eta`` allows for rounding, here and in the model file.
"""

import json
import sys

import netCDF4
import numpy as np

GRIDS = ("optimal_value", "policy_value", "start", "occupancy", "optimal")


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


def read_certificate(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        c = json.load(file)
    if (c["format"], c["version"]) != ("tessella certificate", 1):
        raise ValueError(f"its format is {c['format']!r}, version {c['version']}")
    c |= {name: np.array(c[name]).ravel() for name in GRIDS}
    c["loss"] = {part: np.array(list_).ravel() for part, list_ in c["losses"].items()}
    c["table"], c["grid"] = np.array(c["policy"]["table"]).ravel(), c["policy"]["grid"]
    return c


def read_model(path: str) -> dict:
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        m = {name: file.getncattr(name) for name in ("fingerprint", "discount")}
        for name in ("indptr", "indices", "data", "row_of", "reward", "feasible"):
            m[name] = np.asarray(file[name][:])
    m["row"] = np.repeat(np.arange(len(m["indptr"]) - 1), np.diff(m["indptr"]))
    return m


def check(c: dict, m: dict) -> str:
    """Say what was confirmed, or raise Rejected at the first thing that is wrong."""
    n, rows, every = len(m["row_of"]), len(m["indptr"]) - 1, np.arange(len(m["row_of"]))
    table, best, worth, discount = c["table"], c["optimal_value"], c["policy_value"], m["discount"]

    def refuse(bad: np.ndarray, what: str) -> None:
        if bad.any():
            at = np.unravel_index(int(bad.argmax()), [len(v) for v in c["grid"].values()])
            place = ", ".join(
                f"{k}={v[i]}" for (k, v), i in zip(c["grid"].items(), at, strict=True)
            )
            raise Rejected(f"{what}; first at {place} ({bad.sum():,} of {n:,} states)")

    def agree(name: str, derived: float, slack: float) -> None:
        value, lower, upper = c[name]
        inside = lower - slack <= derived <= upper + slack and lower <= value <= upper
        if not (inside and abs(value - derived) <= slack):
            raise Rejected(f"{name} is {derived:.12g}, not {value:.12g} as stated")

    def action_values(value: np.ndarray) -> np.ndarray:
        expected = np.bincount(m["row"], m["data"] * value[m["indices"]], rows)
        return np.where(m["feasible"] > 0, m["reward"] + discount * expected[m["row_of"]], -np.inf)

    if (c["fingerprint"], c["discount"]) != (m["fingerprint"], discount):
        prints = (
            f"fingerprint {m['fingerprint'][:12]}, the certificate's is {c['fingerprint'][:12]}"
        )
        raise Rejected(f"the model file is of another model: it has {prints}")
    if any(c[name].shape != (n,) for name in (*GRIDS, "table")):
        raise Rejected(f"the certificate is not for the {n:,} states of the model")
    refuse((table < 0) | (table >= m["row_of"].shape[1]), "an action does not exist")
    refuse(m["feasible"][every, table] == 0, "the policy takes an infeasible action")

    contraction = discount * float(np.bincount(m["row"], m["data"], rows).max())
    size = np.abs(m["reward"][m["feasible"] > 0]).max() + np.abs([best, worth]).max()
    eta = np.finfo(float).eps * (4 * int(np.diff(m["indptr"]).max()) + 64) * float(size)
    e, e_pi = c["optimal_value_error"], c["policy_value_error"]
    q = action_values(best)
    off = ~(np.abs(q.max(axis=1) - best) <= (1 + contraction) * e + eta)
    refuse(off, "the optimal value does not satisfy the optimality equation of the model")
    off = np.abs(action_values(worth)[every, table] - worth)
    off = ~(off <= (1 + contraction) * e_pi + eta)
    refuse(off, "the value of the policy does not satisfy the equation of the policy")
    loss, slack = best - worth, e + e_pi + eta
    for part, stated in c["loss"].items():
        off = ~(np.abs(stated - loss) <= slack)
        refuse(off, f"the stated loss ({part}) is not the difference of the two values")

    tie, local = 2 * (contraction * e + eta), q.max(axis=1) - q[every, table]
    refuse(~(c["start"] >= 0), "a start probability is negative")
    agree("mean_loss", float(c["start"] @ loss), slack + n * np.finfo(float).eps * float(size))
    agree("worst_loss", float(loss.max()), slack)
    agree("value_gap", float(local.mean()) / (1 - discount), 2 * tie / (1 - discount))
    refuse(q.max(axis=1) - q[every, c["optimal"]] > tie, "the optimal action is not optimal")
    agree("policy_error", float((table != c["optimal"]).mean()), 1e-12)
    weight = np.bincount(m["row_of"][every, table], c["occupancy"], rows)[m["row"]]
    inflow = (1 - discount) * c["start"] + discount * np.bincount(
        m["indices"], weight * m["data"], n
    )
    if not np.abs(inflow - c["occupancy"]).sum() <= 2 * c["occupancy_error"] + 1e-12:
        raise Rejected("the occupancy is not where the policy leads from the start")
    proven = ((1 + contraction) * (e + e_pi) + 2 * eta) / (1 - contraction)
    stated = f"loss {c['mean_loss'][0]:.12g} on average and {c['worst_loss'][0]:.12g} at worst"
    return f"{stated}, re-derived in {n:,} states and proven to within {proven:.2g}"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m tessella.certify.check certificate.json model.nc")
        return 2
    try:
        files = []
        for path, reader in zip(arguments, (read_certificate, read_model), strict=True):
            try:
                files.append(reader(path))
            except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
                raise Rejected(f"{path} cannot be read, it may be cut short: {error}") from error
        print(f"HOLDS: {check(*files)}")
    except Rejected as reason:
        print(f"REJECTED: {reason}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
