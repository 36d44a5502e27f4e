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
EPS = float(np.finfo(float).eps)


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


def read_certificate(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        c = json.load(file)
    if (c["format"], c["version"]) != ("tessella certificate", 1):
        raise ValueError(f"its format is {c['format']!r}, version {c['version']}")
    c |= {name: np.array(c[name]).ravel() for name in GRIDS}
    c["loss"] = {part: np.array(c["losses"][part]).ravel() for part in c["losses"]}
    c["table"], c["grid"] = np.array(c["policy"]["table"]).ravel(), c["policy"]["grid"]
    return c


def read_model(path: str) -> dict:
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        m = {name: file.getncattr(name) for name in ("fingerprint", "discount")}
        m |= {name: json.loads(file.getncattr(name)) for name in ("axes", "actions")}
        for name in ("indptr", "indices", "data", "row_of", "reward", "feasible"):
            m[name] = np.asarray(file[name][:])
    m["row"] = np.repeat(np.arange(len(m["indptr"]) - 1), np.diff(m["indptr"]))
    return m


def refuse(c: dict, bad: np.ndarray, what: str) -> None:
    if bad.any():
        at = np.unravel_index(int(bad.argmax()), [len(values) for values in c["grid"].values()])
        names = zip(c["grid"], c["grid"].values(), at, strict=True)
        place = ", ".join(f"{name}={values[i]}" for name, values, i in names)
        raise Rejected(f"{what}; first at {place} ({bad.sum():,} of {bad.size:,} states)")


def agree(c: dict, name: str, derived: float, slack: float) -> None:
    value, lower, upper = c[name]
    inside = lower - slack <= derived <= upper + slack and lower <= value <= upper
    if not (inside and abs(value - derived) <= slack):
        raise Rejected(f"{name} is {derived:.12g}, not {value:.12g} as stated")


def sums(m: dict, weights: np.ndarray) -> np.ndarray:
    """Sum of ``weights`` (one for each entry) over each row of P."""
    return np.bincount(m["row"], weights, len(m["indptr"]) - 1)


def action_values(m: dict, value: np.ndarray) -> np.ndarray:
    expected = sums(m, m["data"] * value[m["indices"]])[m["row_of"]]
    return np.where(m["feasible"] > 0, m["reward"] + m["discount"] * expected, -np.inf)


def check(c: dict, m: dict) -> str:
    """Say what was confirmed, or raise Rejected at the first thing that is wrong."""
    about = [(x["fingerprint"], x["discount"]) for x in (c, m)]
    if about[0] != about[1] or (list(c["grid"]), c["policy"]["actions"]) != (
        m["axes"],
        m["actions"],
    ):
        prints = [x["fingerprint"][:12] for x in (m, c)]
        raise Rejected("the model file is of another model: {} is not {}".format(*prints))
    n, table, best, worth = len(m["row_of"]), c["table"], c["optimal_value"], c["policy_value"]
    if any(c[name].shape != (n,) for name in (*GRIDS, "table")):
        raise Rejected(f"the certificate is not for the {n:,} states of the model")
    refuse(c, (table < 0) | (table >= m["row_of"].shape[1]), "an action does not exist")
    every = np.arange(n)
    refuse(c, m["feasible"][every, table] == 0, "the policy takes an infeasible action")

    contraction = m["discount"] * float(sums(m, m["data"]).max())
    size = float(np.abs(m["reward"][m["feasible"] > 0]).max() + np.abs([best, worth]).max())
    eta = EPS * (4 * int(np.diff(m["indptr"]).max()) + 64) * size
    e, e_pi = c["optimal_value_error"], c["policy_value_error"]
    q = action_values(m, best)
    off = ~(np.abs(q.max(axis=1) - best) <= (1 + contraction) * e + eta)
    refuse(c, off, "the optimal value does not satisfy the optimality equation of the model")
    q_pi = action_values(m, worth)[every, table]
    off = ~(np.abs(q_pi - worth) <= (1 + contraction) * e_pi + eta)
    refuse(c, off, "the value of the policy does not satisfy the equation of the policy")
    for part, stated in c["loss"].items():
        off = ~(np.abs(stated - (best - worth)) <= e + e_pi + eta)
        refuse(c, off, f"the stated loss ({part}) is not the difference of the two values")
    tie = 2 * (contraction * e + eta)
    figures(c, m, q, tie, e + e_pi + eta + n * EPS * size)
    proven = ((1 + contraction) * (e + e_pi) + 2 * eta) / (1 - contraction)
    mean, worst = c["mean_loss"][0], c["worst_loss"][0]
    return f"loss {mean:.12g} on average and {worst:.12g} at worst, in all of {n:,} states; " + (
        f"proven to be between {max(mean - proven, 0):.12g} and {mean + proven:.12g} on average"
    )


def figures(c: dict, m: dict, q: np.ndarray, tie: float, slack: float) -> None:
    """Derive what is stated about all states together."""
    every, table, discount = np.arange(len(q)), c["table"], m["discount"]
    loss, local = c["optimal_value"] - c["policy_value"], q.max(axis=1) - q[every, table]
    refuse(c, ~(c["start"] >= 0), "a start probability is negative")
    agree(c, "mean_loss", float(c["start"] @ loss), slack)
    agree(c, "worst_loss", float(loss.max()), slack)
    agree(c, "value_gap", float(local.mean()) / (1 - discount), 2 * tie / (1 - discount))
    refuse(c, q.max(axis=1) - q[every, c["optimal"]] > tie, "the optimal action is not optimal")
    agree(c, "policy_error", float((table != c["optimal"]).mean()), 1e-12)
    through = np.bincount(m["row_of"][every, table], c["occupancy"], len(m["indptr"]) - 1)
    inflow = np.bincount(m["indices"], through[m["row"]] * m["data"], len(q))
    balance = (1 - discount) * c["start"] + discount * inflow - c["occupancy"]
    if not np.abs(balance).sum() <= 2 * c["occupancy_error"] + 1e-12:
        raise Rejected("the occupancy is not where the policy leads from the start")


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
