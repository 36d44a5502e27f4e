"""Check a certificate: ``python -m tessella.certify.check certificate.json model.nc``.

This file stands alone, on NumPy, SciPy and a reader for the model file; it shares no code with what
made the certificate. If V is within e of V*, then r = max|T V - V| <= (1 + c) e, with c = discount
* largest row sum. A larger r refutes the certificate, any r proves |V - V*| <= r / (1 - c); so for
the policy's value and T_pi. The action values q at V then give local losses and margins, to
``eta`` of rounding, and with the start, the occupancy and the stated errors every other figure.
Each is derived and compared, its enclosure included; sums of n terms may differ by 4 (n + 16) EPS
of their size. A document with a field that is missing, malformed or unknown is rejected.
"""

import json
import math
import sys
from dataclasses import dataclass
from typing import Any

import netCDF4
import numpy as np
from scipy.ndimage import distance_transform_cdt

EPS = float(np.finfo(float).eps)
HUGE = float(np.finfo(float).max)
PARTS = ("value", "lower", "upper")
NOT_CHECKED = ("policy.name", "policy.size")  # the model does not know them
WIDEST = 600.0  # logarithm of a rate's constant beyond which none is stated
STEEPEST = 8.0  # exponent of a rate

KINDS = {
    "text": "format model fingerprint action_name policy.name",
    "labels": "policy.actions",
    "axes": "policy.grid",
    "number": "discount tolerance optimal_value_error policy_value_error margin_slack "
    "occupancy_error bounds.reward_bound bounds.localisation.eps bounds.rate.constant "
    "bounds.rate.exponent bounds.rate.smallest bounds.rate.largest",
    "count": "version policy.size bounds.localisation.exceptions bounds.second_best.exceptions",
    "count or null": "bounds.localisation.example",
    "flag": "bounds.second_best.holds",
    "flag or null": "bounds.localisation.holds",
    "actions": "policy.table optimal",
    "states": "start optimal_value policy_value occupancy",
    "states with null": "margin",
    "enclosed": "policy_error costly_error value_gap optimal_mean policy_mean mean_loss worst_loss "
    "bounds.error_share bounds.policy_error bounds.localisation.neighbourhood",
    "enclosed or null": "relative_loss bounds.localisation.bound bounds.rate.bound "
    "bounds.rate.second_best_bound bounds.second_best.loss",
    "band of states": "local_losses losses decomposition.state",
    "band of actions": "decomposition.region",
    "band of pairs": "decomposition.pair decomposition.face",
}
TYPES = {"text": str, "labels": list, "axes": dict, "flag": bool}
FIELDS = {path: kind for kind, paths in KINDS.items() for path in paths.split()}
FORMAT = {"format": "tessella certificate", "version": 1}
IDENTITY = ("fingerprint", "discount", "model", "action_name", "policy.actions", "policy.grid")


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


# Reading.


def read_certificate(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict):
        raise ValueError("it holds no fields")
    return content


def read_model(path: str) -> dict:
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        m = {name: file.getncattr(name) for name in ("fingerprint", "action_name")}
        m |= {"model": file.getncattr("name"), "discount": float(file.getncattr("discount"))}
        axes, m["policy.actions"] = (json.loads(file.getncattr(a)) for a in ("axes", "actions"))
        m["policy.grid"] = {name: file["grid"][name][:].tolist() for name in axes}
        for name in ("indptr", "indices", "data", "row_of", "reward", "feasible"):
            m[name] = np.asarray(file[name][:])
    m["shape"] = tuple(len(values) for values in m["policy.grid"].values())
    m["n"], m["A"] = math.prod(m["shape"]), len(m["policy.actions"])
    m["row"] = np.repeat(np.arange(len(m["indptr"]) - 1), np.diff(m["indptr"]))
    m["contraction"] = m["discount"] * float(sums(m, m["data"]).max())
    m["unit"] = (4 * int(np.diff(m["indptr"]).max()) + 64) * EPS
    m["round"] = 4 * (m["n"] + 16) * EPS
    refuse_model(m)
    return m


def refuse_model(m: dict) -> None:
    """Refuse arrays that are not those of a discounted model."""
    whole = [m[name].dtype.kind == "i" for name in ("indptr", "indices", "row_of")]
    tables = [m[name].shape == (m["n"], m["A"]) for name in ("row_of", "reward", "feasible")]
    inside = (m["indices"] >= 0) & (m["indices"] < m["n"])
    rows = (m["row_of"] >= 0) & (m["row_of"] < len(m["indptr"]) - 1)
    entries = len(m["row"]) == len(m["indices"]) == len(m["data"])
    if not (all(whole) and all(tables) and entries and inside.all() and rows.all()):
        raise ValueError("its arrays do not fit one another")
    if not ((m["feasible"] > 0).any(axis=1).all() and np.isfinite(m["reward"]).all()):
        raise ValueError("a state has no feasible action, or a reward is not finite")
    if not ((m["data"] >= 0).all() and m["discount"] >= 0 and m["contraction"] < 1):
        raise ValueError("discount and probabilities are not those of a discounted model")


def look_up(content: object, path: str) -> object:
    for name in path.split("."):
        if not isinstance(content, dict) or name not in content:
            raise Rejected(f"{path} is missing")
        content = content[name]
    return content


def refuse_unknown(content: object, path: str = "") -> None:
    """Refuse fields of which nothing is known: they would pass unchecked."""
    if path in FIELDS or not isinstance(content, dict):
        return
    for name, part in content.items():
        inner = f"{path}.{name}" if path else name
        if "." in name or not any(f"{known}.".startswith(f"{inner}.") for known in FIELDS):
            raise Rejected(f"{inner!r} is not a field of a certificate")
        refuse_unknown(part, inner)


def numbers(path: str, value: object, shape: tuple, kinds: str = "if") -> np.ndarray:
    """``value`` as an array of finite numbers; ``kinds`` are NumPy's, i for whole ones."""
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        array = np.array(None)
    if array.dtype.kind not in kinds or array.shape != shape:
        what = "whole numbers" if kinds == "i" else "numbers"
        raise Rejected(f"{path} must hold {what} in the shape {shape}")
    if not np.isfinite(array).all():
        raise Rejected(f"{path} must be finite")
    return array


def with_infinity(value: object) -> object:
    """Null, which stands for infinity, as the largest number there is."""
    if isinstance(value, list):
        return [with_infinity(part) for part in value]
    return HUGE if value is None else value


def band(content: dict, path: str, shape: tuple) -> np.ndarray:
    """(3, n) value, lower and upper of n numbers."""
    parts = look_up(content, path)
    if not isinstance(parts, dict) or set(parts) - set(PARTS):
        raise Rejected(f"{path} must have the parts {', '.join(PARTS)} and no others")
    paths = [f"{path}.{part}" for part in PARTS]
    return np.array([numbers(p, look_up(content, p), shape).ravel() for p in paths])


def parse(content: dict, m: dict, path: str) -> Any:
    """The field ``path``, or Rejected where it is not what it has to be."""
    if path.startswith("bounds.rate.") and look_up(content, "bounds.rate") is None:
        return None
    value, kind = look_up(content, path), FIELDS[path].removesuffix(" or null")
    if value is None and kind != FIELDS[path]:
        return None
    if kind in TYPES:
        if not isinstance(value, TYPES[kind]):
            raise Rejected(f"{path} must be of type {TYPES[kind].__name__}")
        return value
    if kind.startswith("band of "):
        shapes = {"states": m["shape"], "actions": (m["A"],), "pairs": (m["A"], m["A"])}
        return band(content, path, shapes[kind.removeprefix("band of ")])
    if kind == "states with null":
        array = numbers(path, with_infinity(value), m["shape"]).ravel()
        return np.where(array == HUGE, np.inf, array)
    shape = {"number": (), "count": (), "enclosed": (3,)}.get(kind, m["shape"])
    array = numbers(path, value, shape, "i" if kind in ("count", "actions") else "if")
    if not shape and array < 0:
        raise Rejected(f"{path} must not be negative")
    return array.ravel() if shape else array[()]


# Comparing.


def place(m: dict, state: int) -> str:
    at = np.unravel_index(state, m["shape"])
    named = zip(m["policy.grid"].items(), at, strict=True)
    return ", ".join(f"{name}={values[i]}" for (name, values), i in named)


def refuse(m: dict, bad: np.ndarray, what: str) -> None:
    """Reject at the first of the ``bad`` states."""
    if bad.any():
        count = f"{bad.sum():,} of {bad.size:,} states"
        raise Rejected(f"{what}; first at {place(m, int(bad.argmax()))} ({count})")


def agree(c: dict, m: dict, path: str, derived, tolerance) -> None:
    """Compare the stated (value, lower, upper), of one number or of many, with the derived."""
    stated, derived = c[path], None if derived is None else np.array(derived)
    if stated is None or derived is None:
        if stated is not derived:
            raise Rejected(f"{path} must be {'null' if derived is None else 'stated'}")
        return
    off = ~(np.abs(stated - derived) <= tolerance)
    off |= ~((stated[1] <= stated[0]) & (stated[0] <= stated[2]))
    if off.any():
        part, *at = np.unravel_index(int(off.argmax()), off.shape)
        name = f"{path}.{PARTS[part]}" if part or at else path
        where = f" at {place(m, int(at[0]))}" if FIELDS[path] == "band of states" else ""
        found, said = derived[(part, *at)], stated[(part, *at)]
        raise Rejected(f"{name} is {found:.12g}, not {said:.12g} as stated{where}")


def same(path: str, stated: object, derived: list) -> None:
    """Reject unless the statement is among what rounding allows to derive."""
    if stated not in derived:
        raise Rejected(f"{path} is {derived[0]}, not {stated} as stated")


# The model.


def sums(m: dict, weights: np.ndarray) -> np.ndarray:
    """Sum of ``weights`` (one for each entry) over each row of P."""
    return np.bincount(m["row"], weights, len(m["indptr"]) - 1)


def action_values(m: dict, value: np.ndarray) -> np.ndarray:
    expected = sums(m, m["data"] * value[m["indices"]])[m["row_of"]]
    return np.where(m["feasible"] > 0, m["reward"] + m["discount"] * expected, -np.inf)


@dataclass
class Sweep:
    """One sweep of both equations: (S, A) action values at V, and what their residuals prove."""

    q: np.ndarray
    eta: float
    proven: float  # bound on the error of V - V_pi, and of its mean


def check_identity(c: dict, m: dict) -> None:
    for path in IDENTITY:
        if c[path] != m[path] or (path == "policy.grid" and list(c[path]) != list(m[path])):
            what = f"is {str(m[path])[:12]}, not {str(c[path])[:12]} as stated"
            what = "differs" if path.startswith("policy.") else what
            raise Rejected(f"the model file is of another model: {path} {what}")


def check_actions(c: dict, m: dict, path: str) -> None:
    table = c[path]
    refuse(m, (table < 0) | (table >= m["A"]), f"{path}: an action does not exist")
    infeasible = m["feasible"][np.arange(m["n"]), table] == 0
    refuse(m, infeasible, f"{path}: an action is not feasible")


def check_values(c: dict, m: dict) -> Sweep:
    """V and V_pi satisfy their equations as well as their errors demand."""
    best, worth, b = c["optimal_value"], c["policy_value"], m["contraction"]
    size = np.abs(m["reward"][m["feasible"] > 0]).max() + np.abs([best, worth]).max()
    eta = m["unit"] * float(size)
    q = action_values(m, best)
    r = np.abs(q.max(axis=1) - best)
    off = ~(r <= (1 + b) * c["optimal_value_error"] + eta)
    refuse(m, off, "the optimal value does not satisfy the optimality equation of the model")
    r_pi = np.abs(action_values(m, worth)[np.arange(m["n"]), c["policy.table"]] - worth)
    off = ~(r_pi <= (1 + b) * c["policy_value_error"] + eta)
    refuse(m, off, "the value of the policy does not satisfy the equation of the policy")
    proven = float(r.max() + r_pi.max() + 2 * eta) / (1 - b) + m["round"] * float(size)
    return Sweep(q, eta, proven)


def check_flow(c: dict, m: dict) -> float:
    """d = (1 - discount) start + discount P_pi' d, so sum d = 1 - what ends on the way.

    Returns what the balance proves: a bound on the sum of the errors of d.
    """
    start, d, error, discount = c["start"], c["occupancy"], c["occupancy_error"], m["discount"]
    for path in ("start", "occupancy"):
        refuse(m, ~(c[path] >= 0), f"{path}: a probability is negative")
    if not abs(start.sum() - 1) <= (m["n"] + 64) * EPS:
        raise Rejected(f"start must sum to 1, not to {start.sum():.12g}")
    row = m["row_of"][np.arange(m["n"]), c["policy.table"]]
    through = np.bincount(row, d, len(m["indptr"]) - 1)
    inflow = np.bincount(m["indices"], through[m["row"]] * m["data"], m["n"])
    balance = np.abs((1 - discount) * start + discount * inflow - d).sum()
    if not balance <= (1 + m["contraction"]) * error + m["round"]:
        raise Rejected("the occupancy is not where the policy leads from the start")
    ends = 1 - sums(m, m["data"])[row]
    per_end = discount / (1 - discount)
    total = 1 - per_end * float(d @ ends)
    slack = (error + m["round"]) * (1 + per_end * np.abs(ends).max()) + per_end * m["round"]
    if not abs(d.sum() - total) <= slack:
        raise Rejected(f"occupancy must sum to {total:.12g}, not to {d.sum():.12g}")
    return float(balance + m["round"]) / (1 - m["contraction"])


# The figures. Enclosures are arrays with first axis (value, lower, upper).


@dataclass
class Decisions:
    """Choices of the policy: (3, S) local losses and margins, (S,) sets of states."""

    loss: np.ndarray
    margin: np.ndarray
    differs: np.ndarray
    wrong: np.ndarray
    perhaps_wrong: np.ndarray


def check_decisions(c: dict, m: dict, sweep: Sweep) -> Decisions:
    """l = max_a q - q(., pi) within the tie tolerance, 0 where pi takes the decided action.

    Thresholds are tried on what is stated, once that is known to be right but for rounding.
    """
    q, every, slack = np.sort(sweep.q, axis=1), np.arange(m["n"]), float(c["margin_slack"])
    best, chosen = q[:, -1], sweep.q[every, c["policy.table"]]
    least = 2 * m["contraction"] * c["optimal_value_error"]
    if not least * (1 - m["round"]) <= slack <= least * (1 + m["round"]) + 32 * sweep.eta:
        raise Rejected(f"margin_slack is {least:.6g} and rounding, not {slack:.6g} as stated")
    lost = best - sweep.q[every, c["optimal"]]
    refuse(m, ~(lost <= slack + 2 * sweep.eta), "optimal: the optimal action is not optimal")
    margin = best - q[:, -2] if m["A"] > 1 else np.full(m["n"], np.inf)
    near = (c["margin"] == margin) | (np.abs(c["margin"] - margin) <= 2 * sweep.eta)
    refuse(m, ~near, "margin is not the best minus the second-best action value")

    tie = slack + 2 * EPS * float(np.abs(best).max() + np.abs(chosen).max())
    x = c["local_losses"][0]
    off = ~(np.abs(x - (best - chosen)) <= 2 * sweep.eta)
    refuse(m, off, "local_losses.value is not max_a q - q(., pi)")
    right, wrong = (c["margin"] > slack) & (x == 0), x > tie
    loss = np.array([x, np.maximum(x - tie, 0), np.where(right, 0, x + tie)])
    agree(c, m, "local_losses", loss, 16 * EPS * (np.abs(x) + tie))
    band = np.array([c["margin"], np.maximum(c["margin"] - tie, 0), c["margin"] + tie])
    return Decisions(c["local_losses"], band, c["policy.table"] != c["optimal"], wrong, ~right)


def largest_size(x: np.ndarray | list) -> float:
    return float(np.abs(x).max())


def check_losses(c: dict, m: dict, local: np.ndarray) -> None:
    """l <= L <= max l / (1 - c) and |L - (V - V_pi)| <= e + e_pi, state by state and in mean."""
    best, worth = c["optimal_value"], c["policy_value"]
    x, e, e_pi = best - worth, c["optimal_value_error"], c["policy_value_error"]
    error, most = e + e_pi, local[2].max() / (1 - m["contraction"])
    lower, upper = np.maximum(x - error, local[1]), np.minimum(x + error, most)
    size = largest_size(best) + largest_size(worth) + error
    slack = m["unit"] * (size + most / (1 - m["contraction"]))
    agree(c, m, "losses", [np.clip(x, lower, np.maximum(lower, upper)), lower, upper], slack)
    losses, start, d = c["losses"], c["start"], c["occupancy"]
    agree(c, m, "worst_loss", losses.max(axis=1), 0)
    for path, value, off in (("optimal_mean", best, e), ("policy_mean", worth, e_pi)):
        mean = start @ value
        agree(c, m, path, [mean, mean - off, mean + off], m["round"] * size)

    by_value, scale = losses @ start, 1 - m["discount"]
    off = c["occupancy_error"] * local[2].max()
    flow = (local @ d + [0, -off, off]) / scale
    lower, upper = max(by_value[1], flow[1], 0), min(by_value[2], flow[2])
    mean = [np.clip(by_value[0], lower, max(lower, upper)), lower, upper]
    slack = m["round"] * (largest_size(losses) + flow[2])
    agree(c, m, "mean_loss", mean, slack)
    gap = local.mean(axis=1) / scale
    agree(c, m, "value_gap", gap, m["round"] * gap[2])
    relative = ratio(c["mean_loss"], c["optimal_mean"])
    agree(c, m, "relative_loss", relative, 64 * EPS * largest_size(relative or [0]))


def ratio(number: np.ndarray, other: np.ndarray) -> list | None:
    """``number / |other|``; None where that may be 0."""
    if other[1] <= 0 <= other[2]:
        return None
    ends = np.outer(number[1:], 1 / np.abs(other[1:]))
    return [number[0] / abs(other[0]), ends.min(), ends.max()]


def check_shares(c: dict, m: dict, d: Decisions) -> None:
    differs = [part.mean() for part in (d.differs, d.wrong, d.perhaps_wrong)]
    agree(c, m, "policy_error", differs, 4 * EPS)
    agree(c, m, "costly_error", (d.loss > c["tolerance"]).mean(axis=1), 4 * EPS)


def check_decomposition(c: dict, m: dict, local: np.ndarray) -> None:
    """Sums of d(s) l(s) / (1 - discount) over states, by state, region, pair and face."""
    best, taken, A = c["optimal"], c["policy.table"], m["A"]
    groups = {"state": np.arange(m["n"]), "region": best, "pair": best * A + taken}
    groups["face"] = nearest_face(best.reshape(m["shape"]), A).ravel()
    scale = 1 - m["discount"]
    for name, group in groups.items():
        path = f"decomposition.{name}"
        count = c[path].shape[1]
        parts = [np.bincount(group, c["occupancy"] * part / scale, count) for part in local]
        largest = np.zeros(count)
        np.maximum.at(largest, group, local[2])
        off = c["occupancy_error"] * largest / scale
        derived = [parts[0], np.maximum(parts[1] - off, 0), parts[2] + off]
        agree(c, m, path, derived, m["round"] * (parts[2] + off))


def nearest_face(table: np.ndarray, A: int) -> np.ndarray:
    """(grid) code a A + b, a < b, of the nearest pair of neighbours with other optimal actions.

    A state that touches several takes the first: axis by axis, the neighbour above before the one
    below. Of others as near, SciPy's order decides; without any face, the code is of (a, a).
    """
    touched = []
    for axis in range(table.ndim):
        rows = np.moveaxis(table, axis, 0)
        low, high = np.minimum(rows[1:], rows[:-1]), np.maximum(rows[1:], rows[:-1])
        none = np.full((1, *rows.shape[1:]), -1)
        face = np.concatenate([none, np.where(low < high, low * A + high, -1), none])
        touched += [np.moveaxis(face[1:], 0, axis), np.moveaxis(face[:-1], 0, axis)]
    sides = np.array(touched)
    code = np.take_along_axis(sides, (sides >= 0).argmax(axis=0)[None], axis=0)[0]
    if (code < 0).all():
        return table * A + table
    near = distance_transform_cdt(code < 0, "taxicab", return_distances=False, return_indices=True)
    return code[tuple(np.asarray(near))]


# The bounds. Margins that equal eps but for rounding may count on either side of it.


def check_bounds(c: dict, m: dict, d: Decisions, eta: float) -> None:
    R, most = c["bounds.reward_bound"], largest_size(m["reward"][m["feasible"] > 0])
    if not most <= R * (1 + 4 * EPS) <= most + 16 * eta:
        raise Rejected(f"bounds.reward_bound is {most:.12g} and rounding, not {R:.12g} as stated")
    factor = 2 * R / (1 - m["discount"]) ** 2
    wrong = visited(c, d.differs, d.wrong, d.perhaps_wrong)
    agree(c, m, "bounds.error_share", wrong, m["round"])
    agree(c, m, "bounds.policy_error", factor * wrong, factor * m["round"])
    check_localisation(c, m, d, factor)
    check_second_best(c, m, d)
    check_rate(c, m, d, factor)


def visited(c: dict, guess: np.ndarray, surely: np.ndarray, perhaps: np.ndarray) -> np.ndarray:
    """Enclosed occupancy of a set; none at all only where no state may belong."""
    value, low, high = (c["occupancy"][part].sum() for part in (guess, surely, perhaps))
    error = c["occupancy_error"]
    return np.array([value, max(low - error, 0), high + error if perhaps.any() else 0])


def check_localisation(c: dict, m: dict, d: Decisions, factor: float) -> None:
    path, eps = "bounds.localisation", c["bounds.localisation.eps"]
    ends = eps * (1 + 8 * EPS), eps * (1 - 8 * EPS)
    names = ("holds", "exceptions", "example")
    stated = tuple(None if (x := c[f"{path}.{name}"]) is None else int(x) for name in names)
    same(f"{path} ({', '.join(names)})", stated, [premise(d, end) for end in (eps, *ends)])
    value, lower, upper = d.margin
    near, *others = (visited(c, value <= x, upper <= x, lower <= x) for x in (eps, *ends))
    slack = m["round"] + np.abs(others[0] - others[1])
    agree(c, m, f"{path}.neighbourhood", near, slack)
    bound = factor * near if c[f"{path}.holds"] else None
    agree(c, m, f"{path}.bound", bound, factor * slack)


def premise(d: Decisions, eps: float) -> tuple[bool | None, int, int | None]:
    """(whether all errors have margins up to ``eps``, surely others, the first of them)."""
    _, lower, upper = d.margin
    exceptions = np.flatnonzero(d.wrong & (lower > eps))
    if exceptions.size:
        return False, int(exceptions.size), int(exceptions[0])
    return None if (d.perhaps_wrong & (upper > eps)).any() else True, 0, None


def check_second_best(c: dict, m: dict, d: Decisions) -> None:
    """Loss = sum d margin 1{pi != pi*} / (1 - discount) if errors take the second-best action."""
    path = "bounds.second_best"
    exceptions = int((d.wrong & (d.loss[1] > d.margin[2])).sum())
    same(f"{path}.exceptions", c[f"{path}.exceptions"], [exceptions])
    same(f"{path}.holds", c[f"{path}.holds"], [exceptions == 0])
    where = np.array([d.differs, d.wrong, d.perhaps_wrong])
    charges = np.where(where, d.margin, 0)
    off = c["occupancy_error"] * charges[2].max()
    loss = np.maximum(charges @ c["occupancy"] + [0, -off, off], 0) / (1 - m["discount"])
    agree(c, m, f"{path}.loss", None if exceptions else loss, m["round"] * loss[2])


def check_rate(c: dict, m: dict, d: Decisions, factor: float) -> None:
    """d(B_x) <= C x^alpha for x in smallest..largest, with no smaller C; and the two bounds."""
    rate, eps = "bounds.rate.", c["bounds.localisation.eps"]
    C, alpha, smallest, largest = (
        c[rate + name] for name in ("constant", "exponent", "smallest", "largest")
    )
    order = np.argsort(d.margin[1], kind="stable")
    at, reached = d.margin[1][order], np.cumsum(c["occupancy"][order])
    half = np.searchsorted(reached, reached[-1] / 2 * (1 + np.array([-1, 1]) * m["round"]))
    top = at[np.isfinite(at)].max(initial=0.0)
    ends = np.maximum(eps, np.minimum(at[np.minimum(half, m["n"] - 1)], top))
    inside = (at > 0) & (at <= ends[1] * (1 + 8 * EPS))
    x = np.log(at[inside])
    y = np.log(reached[inside] + c["occupancy_error"] + (m["n"] + 2) * EPS)
    if C is None:
        if x.size and STEEPEST * largest_size(x) + largest_size(y) < WIDEST:
            raise Rejected("bounds.rate must be stated")
        return
    if not x.size or abs(smallest - at[inside][0]) > 64 * EPS * (smallest + c["margin_slack"]):
        raise Rejected(f"{rate}smallest is not the smallest margin above 0")
    if not ends[0] * (1 - 8 * EPS) <= largest <= ends[1] * (1 + 8 * EPS):
        raise Rejected(f"{rate}largest is {ends[0]:.12g}, not {largest:.12g} as stated")
    slack = 64 * m["round"] * (1 + largest_size(y) + alpha * largest_size(x))
    if not 0 < alpha <= STEEPEST:
        raise Rejected(f"{rate}exponent must lie in 0..{STEEPEST:g}, not be {alpha:.12g}")
    above, beyond = y - alpha * x - np.log(C), at[inside] > largest * (1 - 8 * EPS)
    if not (above[~beyond].max(initial=-np.inf) <= slack and above.max() >= -slack):
        raise Rejected(f"{rate}constant is not the smallest for its exponent, {alpha:.12g}")
    apply = c["bounds.localisation.holds"] and smallest <= eps <= largest
    bound = np.full(3, C * eps**alpha)
    sharper = bound * eps / (1 - m["discount"])
    agree(c, m, rate + "bound", factor * bound if apply else None, factor * bound * 256 * EPS)
    second = apply and c["bounds.second_best.holds"]
    agree(c, m, rate + "second_best_bound", sharper if second else None, sharper * 256 * EPS)


def check(content: dict, m: dict) -> str:
    """Say what was confirmed, or raise Rejected at the first thing that is wrong."""
    for path, known in FORMAT.items():
        same(path, parse(content, m, path), [known])
    refuse_unknown(content)
    check_identity({path: parse(content, m, path) for path in IDENTITY}, m)
    c = {path: parse(content, m, path) for path in FIELDS}
    for path in ("policy.table", "optimal"):
        check_actions(c, m, path)
    sweep = check_values(c, m)
    visits = check_flow(c, m)
    decisions = check_decisions(c, m, sweep)
    check_losses(c, m, decisions.loss)
    check_shares(c, m, decisions)
    check_decomposition(c, m, decisions.loss)
    check_bounds(c, m, decisions, sweep.eta)
    mean, worst = c["start"] @ (c["optimal_value"] - c["policy_value"]), c["worst_loss"][0]
    low, high = max(mean - sweep.proven, 0), mean + sweep.proven
    stated = f"loss {c['mean_loss'][0]:.12g} on average and {worst:.12g} at worst"
    return (
        f"{stated}, in all of {m['n']:,} states; proven to be between {low:.12g} and {high:.12g} "
        f"on average, and the occupancy right to {visits:.1e}; "
        f"not checked: {', '.join(NOT_CHECKED)}"
    )


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m tessella.certify.check certificate.json model.nc")
        return 2
    broken = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
    try:
        files = []
        for path, reader in zip(arguments, (read_certificate, read_model), strict=True):
            try:
                files.append(reader(path))
            except broken as error:
                raise Rejected(f"{path} cannot be read, it may be cut short: {error}") from error
        with np.errstate(all="ignore"):  # what is not a number fails its comparison
            print(f"HOLDS: {check(*files)}")
    except Rejected as reason:
        print(f"REJECTED: {reason}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
