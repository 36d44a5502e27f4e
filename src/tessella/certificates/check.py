"""Check a certificate: ``python -m tessella.certificates.check certificate.json model.nc``.

This file stands alone, on NumPy, SciPy and a reader for the model file; it shares no code with what
made the certificate. HOLDS means that every stated enclosure holds the exact figure of the model,
whatever wrote the certificate:

- The arrays of the model file are those that the certificate names, by their hash.
- A value V is within r / (1 - c) of V* where r = max|T V - V|, c = discount * largest row sum; so
  for the policy's value and T_pi, and in sum for the occupancy. With a horizon of T periods, each
  of which moves time on by one, it is r (1 + c + ... + c^(T - 1)). A stated error must be at least
  that. Residuals are computed in twice the usual precision, so that rounding plays no part; what
  the model's own arrays may be off (``row_error``, ``reward_error`` of the file) is added to r.
- Local losses and margins follow from the action values at V, all other figures from these, from
  the start and from the stated errors. Each enclosure must reach at least as far as the derived
  one, which is computed in twice the precision too, and no further than rounding explains.
- Of an average, each row of the file is read as divided by its sum. With d = T h - h at stated
  relative values h, the best gain from every state lies in min d .. max d, and with T_pi in the
  place of T the policy's; the model's own arrays may put d off by reward_error and by row_error
  times max h - min h. That is so whatever h is and whatever the chains are.
- Of a total, U that is 0 where the process has ended and above its backup elsewhere, U > T U, is
  more than any policy earns: what it earns in n periods is at most U(s) - E[U(s_n)], less what U is
  above T U in each period before the end, which adds up without bound where it may never end. So L
  that is below its backup, L < T L, is earned by the policy that is greedy at L; and with T_pi both
  bound what the policy earns. What the model's own arrays may be off must leave room.

A document with a field that is missing, doubled, malformed or unknown is rejected. The exit status
is 0 where it holds, 1 where it is rejected, 2 where a file is missing and nothing was checked.
"""

import hashlib
import json
import math
import os
import stat
import sys
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import netCDF4
import numpy as np
from scipy.ndimage import distance_transform_cdt

EPS = float(np.finfo(float).eps)
MAX_FLOAT = float(np.finfo(float).max)
OUTWARD_RELATIVE_STEP = 2 * EPS  # an end of an enclosure is rounded outward by more than this
INTERVAL_PARTS = ("value", "lower", "upper")
NOT_CHECKED = ("policy.name", "policy.size")  # the model file does not know them
RATE_MAX_LOG_CONSTANT = 600.0  # logarithm of a rate's constant beyond which none is stated
RATE_MAX_EXPONENT = 8.0  # exponent of a rate
CERTIFICATE_MAX_BYTES = 1 << 30  # bytes of a certificate
MODEL_MAX_BYTES = 4 << 30  # bytes of all arrays of a model file
MODEL_ARRAYS = ("indptr", "indices", "data", "row_of", "reward", "feasible", "start")
OUTCOME_ARRAYS = tuple(
    f"outcomes/{n}" for n in ("start", "state", "probability", "reward", "ended")
)
END = tuple(f"end/{n}" for n in ("indptr", "indices", "data", "row_of", "reward", "final"))
ROUNDING_MAX_ROW_ERROR = 1e-7  # rows further off 1 than this end on purpose
AVERAGE_MAX_ROW_ERROR = 1e-6  # rows further off 1 than this have no average
MAX_COMPRESSION_RATIO = 1032  # a compressed file holds at most so many times its size
LABEL_OVERHEAD_BYTES = 32  # bytes of a label in a file, besides its text

FIELDS_BY_KIND = {
    "text": "format model fingerprint content action_name policy.name",
    "labels": "policy.actions",
    "axes": "policy.grid",
    "number": "discount tolerance optimal_value_error policy_value_error margin_slack "
    "occupancy_error bounds.reward_bound bounds.localisation.eps bounds.rate.constant "
    "bounds.rate.exponent bounds.rate.smallest bounds.rate.largest",
    "count": "version policy.size bounds.localisation.exceptions bounds.second_best.exceptions",
    "count or null": "periods bounds.localisation.example",
    "flag": "minimise",
    "flag or null": "bounds.localisation.holds bounds.second_best.holds",
    "actions": "policy.table optimal",
    "states": "start optimal_value policy_value optimal_value_rest policy_value_rest occupancy "
    "optimal_lower optimal_upper policy_lower policy_upper",
    "states with null": "margin",
    "enclosed": "policy_error costly_error value_gap optimal_mean policy_mean mean_loss worst_loss "
    "bounds.error_share bounds.policy_error bounds.localisation.neighbourhood "
    "optimal_gain policy_gain loss",
    "enclosed or null": "relative_loss bounds.localisation.bound bounds.rate.bound "
    "bounds.rate.second_best_bound bounds.second_best.loss",
    "band of states": "local_losses losses decomposition.state",
    "band of actions": "decomposition.region",
    "band of pairs": "decomposition.pair decomposition.face",
}
TYPE_OF_KIND = {"text": str, "labels": list, "axes": dict, "flag": bool}
KIND_OF_FIELD = {path: kind for kind, paths in FIELDS_BY_KIND.items() for path in paths.split()}
IDENTITY_FIELDS = "fingerprint content minimise model action_name policy.actions policy.grid"
GAIN_FIELDS = "optimal_value_rest policy_value_rest optimal_gain policy_gain loss"
TOTALS = "optimal_lower optimal_upper policy_lower policy_upper"


@dataclass(frozen=True)
class DocumentFormat:
    """What a document of one kind has to hold."""

    format: str
    version: int
    identity: tuple[str, ...]  # fields that name the model
    fields: tuple[str, ...]  # all fields


AVERAGE_FORMAT = DocumentFormat(
    "tessella certificate of an average",
    2,
    tuple(IDENTITY_FIELDS.split()),
    tuple(
        f"format version {IDENTITY_FIELDS} policy.name policy.size policy.table "
        f"optimal_value policy_value {GAIN_FIELDS} relative_loss".split()
    ),
)
TOTAL = DocumentFormat(
    "tessella certificate of a total",
    1,
    tuple(IDENTITY_FIELDS.split()),
    tuple(
        f"format version {IDENTITY_FIELDS} policy.name policy.size policy.table start {TOTALS} "
        "optimal_mean policy_mean mean_loss worst_loss relative_loss".split()
    ),
)
VALUE_FORMAT = DocumentFormat(
    "tessella certificate",
    4,
    ("discount", "periods", *IDENTITY_FIELDS.split()),
    tuple(path for path in KIND_OF_FIELD if path not in (*GAIN_FIELDS.split(), *TOTALS.split())),
)


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


# Reading.


def read_file_size(path: str, max_bytes: int) -> int:
    """Bytes of a regular file; devices and pipes have no end, or none that comes."""
    file_status = os.stat(path)
    if not stat.S_ISREG(file_status.st_mode):
        raise ValueError("it is not a regular file")
    if file_status.st_size > max_bytes:
        raise ValueError(
            f"its {file_status.st_size:,} bytes are more than the {max_bytes:,} that are read"
        )
    return file_status.st_size


def reject_duplicates(pairs: list) -> dict:
    """A JSON object whose fields differ from one another."""
    result: dict = {}
    for name, value in pairs:
        if name in result:
            raise Rejected(f"{name!r} is stated twice")
        result[name] = value
    return result


def read_certificate(path: str) -> dict:
    size = read_file_size(path, CERTIFICATE_MAX_BYTES)
    with open(path, "rb") as file:
        content = json.loads(file.read(size).decode("utf-8"), object_pairs_hook=reject_duplicates)
    if not isinstance(content, dict):
        raise ValueError("it holds no fields")
    return content


def read_saved_model(path: str) -> dict:
    size = read_file_size(path, MODEL_MAX_BYTES)
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        variables = dict(file.variables)
        for group in file.groups.values():
            variables |= {f"{group.name}/{name}": v for name, v in group.variables.items()}
        refuse_unknown_arrays(variables)
        refuse_sizes(variables, size)
        arrays = {name: values(variable, size) for name, variable in variables.items()}
        attributes = {name: file.getncattr(name) for name in file.ncattrs()}
    m: dict = {name: arrays.get(name) for name in MODEL_ARRAYS}
    m |= {"content": compute_digest(attributes, arrays), "model": attributes["name"]}
    m |= {
        "fingerprint": attributes["fingerprint"],
        "minimise": attributes.get("told") == "in costs",
    }
    m |= {name: float(attributes[name]) for name in ("discount", "row_error", "reward_error")}
    m |= {
        "action_name": attributes["action_name"],
        "policy.actions": json.loads(attributes["actions"]),
    }
    m["policy.grid"] = {
        name: arrays[f"grid/{name}"].tolist() for name in json.loads(attributes["axes"])
    }
    m["shape"] = tuple(len(values) for values in m["policy.grid"].values())
    m["n"], m["A"] = math.prod(m["shape"]), len(m["policy.actions"])
    refuse_arrays(m)
    m["row"] = np.repeat(np.arange(len(m["indptr"]) - 1), np.diff(m["indptr"]))
    ones = np.ones(len(m["data"]))
    excess = np.array(sum_products(m["row"], len(m["indptr"]) - 1, m["data"], ones)) - [[1], [0]]
    deviation = m["apart"] = excess.sum(axis=0)  # of row sums from 1, right to the last digits
    criterion = json.loads(attributes.get("criterion", "null"))
    forms = {"average": AVERAGE_FORMAT, "total": TOTAL}
    m["form"] = forms.get(criterion, VALUE_FORMAT) if isinstance(criterion, str) else VALUE_FORMAT
    m["round"] = 4 * (m["n"] + 16) * EPS
    if m["form"] is not VALUE_FORMAT:
        refuse_discount(m)
        refuse_model(m)
        return m
    excess = float(deviation.max())
    row_error = float(
        np.abs(deviation[np.abs(deviation) < ROUNDING_MAX_ROW_ERROR]).max(initial=0.0)
    )
    excess += m["row_error"] * (1 + max(excess, 0.0))
    m["contraction"] = m["discount"] * (1 + excess) * (1 + 2 * EPS)
    m["periods"] = read_horizon(criterion, m["discount"])
    if m["periods"] is None:
        m["share"] = 1 - m["discount"]
        m["rest"] = (m["share"] - m["discount"] * excess) * (1 - 8 * EPS)
    else:
        refuse_times(m)
        coefficients = np.ones(m["periods"])
        m["share"] = 1 / float(np.polyval(coefficients, m["discount"]))
        discount_sum = float(np.polyval(coefficients, max(m["contraction"], 0.0)))
        m["rest"] = (1 - (2 * m["periods"] + 8) * EPS) / discount_sum
    m["unit"] = (4 * int(np.diff(m["indptr"]).max()) + 64) * EPS + 8 * m["row_error"]
    # Where rows are off 1, their sums may have been known less well, stage by stage.
    m["uneven"] = (4 * m["unit"] + 16 * row_error) / m["rest"]
    refuse_model(m)
    return m


def read_horizon(criterion: object, discount: float) -> int | None:
    """Periods of a model with a horizon; None of a discounted one; others are not checked."""
    if criterion is None:
        return None
    if not (isinstance(criterion, list) and len(criterion) == 3 and criterion[0] == "horizon"):
        raise ValueError("its criterion is no discount, horizon, average or total")
    _, periods, stated = criterion
    if not (type(periods) is int and periods >= 1 and stated == discount):
        raise ValueError("its horizon is not a number of periods")
    return periods


def refuse_discount(m: dict) -> None:
    """Refuse a discount; of an average a process that may end, of a total rows above 1."""
    taken = np.zeros(len(m["apart"]), bool)
    taken[m["row_of"][m["feasible"] > 0]] = True
    m["apart"] = np.where(taken, m["apart"], 0.0)  # what no action takes does not matter
    apart = np.abs(m["apart"]) if m["form"] is AVERAGE_FORMAT else m["apart"]
    if not (m["discount"] == 1 and (apart < AVERAGE_MAX_ROW_ERROR).all()):
        raise ValueError("its rows do not sum to 1, as those of an average or a total do")


def refuse_times(m: dict) -> None:
    """Refuse a horizon whose periods do not move time, the first axis, on by one until the end."""
    periods = m["periods"]
    lengths = np.diff(m["indptr"])
    if m["shape"][0] != periods:
        raise ValueError("its first axis does not count the periods of its horizon")
    states_per_period = m["n"] // periods
    first = np.full(len(lengths), periods)
    last = np.full(len(lengths), -1)
    np.minimum.at(first, m["row"], m["indices"] // states_per_period)
    np.maximum.at(last, m["row"], m["indices"] // states_per_period)
    next_period = np.arange(m["n"])[:, None] // states_per_period + 1
    row = m["row_of"]
    ends = lengths[m["row_of"]] == 0
    moves_on = (first[row] == next_period) & (last[row] == next_period)
    if not (moves_on | ends | (m["feasible"] == 0)).all():  # it may end sooner
        raise ValueError("a period of its horizon does not move time on by one")


def refuse_unknown_arrays(variables: dict) -> None:
    """Refuse variables that a model file does not have, and text anywhere but on an axis."""
    for name, variable in variables.items():
        axis = name.startswith("grid/")
        if not (axis or name in MODEL_ARRAYS or name in OUTCOME_ARRAYS or name in END):
            raise ValueError(f"it has an array {name!r}, which no model has")
        if not (getattr(variable.dtype, "kind", "") in "if" or (axis and variable.dtype is str)):
            raise ValueError(f"its array {name!r} holds neither numbers nor the labels of an axis")


def refuse_sizes(variables: dict, size: int) -> None:
    """Refuse arrays that declare more than a file of this size can hold, before any is read."""
    declared = sum(declared_bytes(v) for v in variables.values())
    limit = min(MAX_COMPRESSION_RATIO * size, MODEL_MAX_BYTES)
    if declared > limit:
        raise ValueError(f"it declares {declared:,} bytes of arrays where {limit:,} can be read")


def declared_bytes(variable: Any) -> int:
    """Bytes that reading takes: of the whole, or of one chunk where that is larger."""
    chunks = variable.chunking()
    return 8 * max(math.prod(variable.shape), 1 if chunks == "contiguous" else math.prod(chunks))


def values(variable: Any, size: int) -> np.ndarray:
    """Numbers at once; labels one by one, while a file of ``size`` bytes could hold them all.

    Many labels may point at one long text, and each would be read as if it had its own.
    """
    if variable.dtype is not str:
        return np.asarray(variable[...])
    labels: list[str] = []
    for i in range(math.prod(variable.shape)):
        labels.append(variable[i])
        size -= LABEL_OVERHEAD_BYTES + len(labels[-1].encode("utf-8", "surrogatepass"))
        if size < 0:
            raise ValueError("its labels do not fit into a file of its size")
    return np.array(labels, dtype=object)


def compute_digest(attributes: dict, arrays: dict) -> str:
    """SHA-256 of every attribute but ``content``, then of every array, each by name."""
    result = hashlib.sha256()
    for name in sorted(set(attributes) - {"content"}):
        value = attributes[name]
        text = value if isinstance(value, str) else float(value).hex()
        result.update(f"{name}={text}\n".encode())
    for name in sorted(arrays):
        array = arrays[name]
        kind = array.dtype.kind if array.dtype.kind in "if" else "U"
        result.update(f"{name} {kind} {list(array.shape)}\n".encode())
        if kind in "if":
            result.update(np.ascontiguousarray(array, dtype=f"<{array.dtype.kind}8").data)
        else:
            result.update(json.dumps(array.tolist()).encode())
    return result.hexdigest()


def refuse_arrays(m: dict) -> None:
    """Refuse arrays that do not fit one another."""
    whole = [m[name].dtype.kind == "i" for name in ("indptr", "indices", "row_of", "feasible")]
    floats = [m[name].dtype == np.float64 for name in ("data", "reward")]
    tables = [m[name].shape == (m["n"], m["A"]) for name in ("row_of", "reward", "feasible")]
    lists = [m[name].ndim == 1 for name in ("indptr", "indices", "data")]
    is_valid = all(whole + floats + tables + lists) and len(m["indptr"]) > 1
    if is_valid:
        starts = m["indptr"]
        is_valid = starts[0] == 0 and (np.diff(starts) >= 0).all()
        is_valid = is_valid and starts[-1] == len(m["indices"]) == len(m["data"])
    if is_valid:
        inside = (m["indices"] >= 0) & (m["indices"] < m["n"])
        rows = (m["row_of"] >= 0) & (m["row_of"] < len(m["indptr"]) - 1)
        is_valid = inside.all() and rows.all()
    if not is_valid:
        raise ValueError("its arrays do not fit one another")


def refuse_model(m: dict) -> None:
    """Refuse arrays that are not those of a model."""
    if not ((m["feasible"] > 0).any(axis=1).all() and np.isfinite(m["reward"]).all()):
        raise ValueError("a state has no feasible action, or a reward is not finite")
    is_valid = (m["data"] >= 0).all() and m["discount"] >= 0
    if not (is_valid and (m["form"] is not VALUE_FORMAT or m["rest"] > 0)):
        raise ValueError(
            "discount and probabilities are not those of a model that is discounted or ends"
        )
    if not (0 <= m["row_error"] < 1e-3 and 0 <= m["reward_error"] <= MAX_FLOAT):
        raise ValueError("its rows and rewards may be off by any amount")


def look_up(content: object, path: str) -> object:
    for name in path.split("."):
        if not isinstance(content, dict) or name not in content:
            raise Rejected(f"{path} is missing")
        content = content[name]
    return content


def refuse_unknown(content: object, fields: tuple[str, ...], path: str = "") -> None:
    """Refuse fields of which nothing is known: they would pass unchecked."""
    if path in fields or not isinstance(content, dict):
        return
    for name, part in content.items():
        inner = f"{path}.{name}" if path else name
        if "." in name or not any(f"{known}.".startswith(f"{inner}.") for known in fields):
            raise Rejected(f"{inner!r} is not a field of a certificate")
        refuse_unknown(part, fields, inner)


def read_numbers(path: str, value: object, shape: tuple, kinds: str = "if") -> np.ndarray:
    """``value`` as an array of finite numbers; ``kinds`` are NumPy's, i for whole ones."""
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        array = np.array(None)
    if array.dtype.kind not in kinds or array.shape != shape:
        subject = "whole numbers" if kinds == "i" else "numbers"
        raise Rejected(f"{path} must hold {subject} in the shape {shape}")
    if not np.isfinite(array).all():
        raise Rejected(f"{path} must be finite")
    return array


def replace_null(value: object) -> object:
    """Null, which stands for infinity, as the largest number there is."""
    if isinstance(value, list):
        return [replace_null(part) for part in value]
    return MAX_FLOAT if value is None else value


def read_band(content: dict, path: str, shape: tuple) -> np.ndarray:
    """(3, n) value, lower and upper of n numbers."""
    parts = look_up(content, path)
    if not isinstance(parts, dict) or set(parts) - set(INTERVAL_PARTS):
        raise Rejected(f"{path} must have the parts {', '.join(INTERVAL_PARTS)} and no others")
    paths = [f"{path}.{part}" for part in INTERVAL_PARTS]
    return np.array([read_numbers(p, look_up(content, p), shape).ravel() for p in paths])


def parse_field(content: dict, m: dict, path: str) -> Any:
    """The field ``path``, or Rejected where it is not what it has to be."""
    if path.startswith("bounds.rate.") and look_up(content, "bounds.rate") is None:
        return None
    value = look_up(content, path)
    kind = KIND_OF_FIELD[path].removesuffix(" or null")
    if value is None and kind != KIND_OF_FIELD[path]:
        return None
    if kind in TYPE_OF_KIND:
        if not isinstance(value, TYPE_OF_KIND[kind]):
            raise Rejected(f"{path} must be of type {TYPE_OF_KIND[kind].__name__}")
        return value
    if kind.startswith("band of "):
        shapes = {"states": m["shape"], "actions": (m["A"],), "pairs": (m["A"], m["A"])}
        return read_band(content, path, shapes[kind.removeprefix("band of ")])
    if kind == "states with null":
        array = read_numbers(path, replace_null(value), m["shape"]).ravel()
        return np.where(array == MAX_FLOAT, np.inf, array)
    shape = {"number": (), "count": (), "enclosed": (3,)}.get(kind, m["shape"])
    array = read_numbers(path, value, shape, "i" if kind in ("count", "actions") else "if")
    if not shape and array < 0:
        raise Rejected(f"{path} must not be negative")
    return array.ravel() if shape else array[()]


# Comparing.


def describe_state(m: dict, state: int) -> str:
    index = np.unravel_index(state, m["shape"])
    coordinates = zip(m["policy.grid"].items(), index, strict=True)
    return ", ".join(f"{name}={values[i]}" for (name, values), i in coordinates)


def reject_states(m: dict, bad: np.ndarray, subject: str) -> None:
    """Reject at the first of the ``bad`` states."""
    if bad.any():
        count = f"{bad.sum():,} of {bad.size:,} states"
        raise Rejected(f"{subject}; first at {describe_state(m, int(bad.argmax()))} ({count})")


def check_interval(
    c: dict,
    m: dict,
    path: str,
    derived,
    tolerance,
    step: float = OUTWARD_RELATIVE_STEP,
    check_lower: bool = True,
) -> None:
    """Compare the stated (value, lower, upper), of one number or of many, with the derived.

    The ends must reach at least as far as derived, by ``step`` of their size, and no further than
    ``tolerance`` beyond; the value may be off by that. Of a bound, only the upper end is a claim.
    """
    stated = c[path]
    derived = None if derived is None else np.array(derived)
    if stated is None or derived is None:
        if stated is not derived:
            raise Rejected(f"{path} must be {'null' if derived is None else 'stated'}")
        return
    is_off = ~(np.abs(stated - derived) <= tolerance)
    is_off |= ~((stated[1] <= stated[0]) & (stated[0] <= stated[2]))
    is_off[1] |= check_lower & ~(stated[1] <= derived[1] - step * np.abs(derived[1]))
    is_off[2] |= ~(stated[2] >= derived[2] + step * np.abs(derived[2]))
    if is_off.any():
        part, *index = np.unravel_index(int(is_off.argmax()), is_off.shape)
        name = f"{path}.{INTERVAL_PARTS[part]}" if part or index else path
        location = (
            f" at {describe_state(m, int(index[0]))}"
            if KIND_OF_FIELD[path] == "band of states"
            else ""
        )
        derived_value = derived[(part, *index)]
        stated_value = stated[(part, *index)]
        raise Rejected(
            f"{name} is {derived_value:.12g}, not {stated_value:.12g} as stated{location}"
        )


def check_equal(path: str, stated: object, derived: object) -> None:
    if stated != derived:
        raise Rejected(f"{path} is {derived}, not {stated} as stated")


# Arithmetic in twice the precision: a number is a pair (rounded, what rounding cut off).


def two_sum(x, y):
    """(s, t) with s the rounded sum and x + y = s + t."""
    s = x + y
    z = s - x
    return s, (x - (s - z)) + (y - z)


def two_product(x, y):
    """(p, t) with p the rounded product and x y = p + t (Dekker 1971)."""
    p = x * y
    (a, b), (c, d) = split_float(x), split_float(y)
    return p, ((a * c - p) + a * d + b * c) + b * d


def split_float(x):
    """x as the sum of two numbers of half its digits."""
    high = 134217729.0 * x
    high = high - (high - x)
    return high, x - high


def sum_products(
    group: np.ndarray, count: int, *factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(count,) pairs: for each group, the sum of the products of the two or three factors.

    Neighbours of a group are added in pairs, again and again, until one number is left of each.
    """
    order = np.argsort(group, kind="stable")
    group = group[order]
    x, y, *more = (np.broadcast_to(factor, order.shape)[order] for factor in factors)
    high, low = two_product(x, y)
    for z in more:
        high, error = two_product(high, z)
        low = low * z + error
    while group.size:
        first = np.concatenate([[True], group[1:] != group[:-1]])
        start = np.flatnonzero(first)
        position = np.arange(group.size) - np.repeat(start, np.diff(np.append(start, group.size)))
        first_of_pair = np.flatnonzero(position % 2 == 0)
        if first_of_pair.size == group.size:
            break
        has_partner = np.append(position, 0)[first_of_pair + 1] == position[first_of_pair] + 1
        partner = np.minimum(first_of_pair + 1, group.size - 1)
        total, error = two_sum(high[first_of_pair], np.where(has_partner, high[partner], 0.0))
        high = total
        low = low[first_of_pair] + np.where(has_partner, low[partner], 0.0) + error
        group = group[first_of_pair]
    result = np.zeros((2, count))
    result[:, group] = high, low
    return result[0], result[1]


def dot(x, y) -> float:
    """Sum of products, right to its last digit."""
    x, y = np.broadcast_arrays(x, y)
    high, low = sum_products(np.zeros(x.size, int), 1, x.ravel(), y.ravel())
    return float(high[0] + low[0])


# The model.


def compute_residuals(m: dict, value: np.ndarray) -> np.ndarray:
    """(S, A) q - V, the action values at V less V, right to the last digits; -inf if infeasible."""
    high, low = sum_products(m["row"], len(m["indptr"]) - 1, m["data"], value[m["indices"]])
    expected, rest = two_product(m["discount"], high[m["row_of"]])
    rest = rest + m["discount"] * low[m["row_of"]]
    gain, cut = two_sum(m["reward"], -value[:, None])
    total, more = two_sum(gain, expected)
    return np.where(m["feasible"] > 0, total + (cut + more + rest), -np.inf)


@dataclass
class SweepResult:
    """One sweep of both equations at the stated values."""

    rho: np.ndarray  # (S, A) q - V
    model_error: float  # what the model's arrays may be off, in an action value
    eta: float  # a generous bound on the rounding of action values in the usual precision


def check_identity(c: dict, m: dict) -> None:
    for path in m["form"].identity:
        if c[path] != m[path] or (path == "policy.grid" and list(c[path]) != list(m[path])):
            subject = f"is {str(m[path])[:12]}, not {str(c[path])[:12]} as stated"
            subject = "differs" if path.startswith("policy.") else subject
            raise Rejected(f"the model file is of another model: {path} {subject}")


def check_actions(c: dict, m: dict, path: str) -> None:
    table = c[path]
    reject_states(m, (table < 0) | (table >= m["A"]), f"{path}: an action does not exist")
    infeasible = m["feasible"][np.arange(m["n"]), table] == 0
    reject_states(m, infeasible, f"{path}: an action is not feasible")


def check_values(c: dict, m: dict) -> SweepResult:
    """The stated errors of V and V_pi are at least what their residuals prove."""
    optimal_value = c["optimal_value"]
    policy_value = c["policy_value"]
    rho = compute_residuals(m, optimal_value)
    rho_pi = compute_residuals(m, policy_value)[np.arange(m["n"]), c["policy.table"]]
    equations = (
        ("optimal_value", rho.max(axis=1), "the optimal value", "optimality equation of the model"),
        ("policy_value", rho_pi, "the value of the policy", "equation of the policy"),
    )
    for path, r, subject, equation in equations:
        allowed = (
            c[f"{path}_error"] * m["rest"]
            - bound_model_error(m, c[path])
            - bound_underflow(m, c[path])
        )
        bad = ~(np.abs(r) * (1 + 8 * EPS) <= allowed)
        reject_states(m, bad, f"{subject} does not satisfy the {equation} within its error")
    size = max_abs(m["reward"][m["feasible"] > 0]) + max_abs([optimal_value, policy_value])
    return SweepResult(
        rho,
        bound_model_error(m, optimal_value),
        m["unit"] * size + 4 * bound_model_error(m, optimal_value),
    )


def bound_underflow(m: dict, value: np.ndarray) -> float:
    """What is lost where numbers are too small for the second half of a pair."""
    return (int(np.diff(m["indptr"]).max()) + 16) * 1e-320 if value.any() else 0.0


def bound_model_error(m: dict, value: np.ndarray) -> float:
    """What the errors of rows and rewards can do to an action value."""
    rows = m["row_error"] * m["contraction"] * max_abs(value)
    return (m["reward_error"] + rows) * (1 + 4 * EPS)


def check_start(c: dict, m: dict) -> None:
    reject_states(m, ~(c["start"] >= 0), "start: a probability is negative")
    total = dot(c["start"], 1.0)
    if not abs(total - 1) <= (m["n"] + 64) * EPS:
        raise Rejected(f"start must sum to 1, not to {total:.12g}")


def check_occupancy(c: dict, m: dict) -> None:
    """d = share start + discount P_pi' d, as well as the stated error demands."""
    start = c["start"]
    d = c["occupancy"]
    discount = m["discount"]
    reject_states(m, ~(d >= 0), "occupancy: a probability is negative")
    check_start(c, m)
    row = m["row_of"][np.arange(m["n"]), c["policy.table"]]
    length = np.diff(m["indptr"])[row]
    state = np.repeat(np.arange(m["n"]), length)  # where each transition of the policy starts
    within = np.arange(state.size) - np.repeat(np.cumsum(length) - length, length)
    entry = m["indptr"][row][state] + within
    to = m["indices"][entry]
    p = m["data"][entry]
    every = np.arange(m["n"])
    terms = (
        np.concatenate([to, every, every, every]),
        m["n"],
        np.concatenate([d[state], start, -start, -d]),
        np.concatenate(
            [
                np.full(to.size, discount),
                np.full(m["n"], 1.0 if m["periods"] is None else m["share"]),
                np.full(m["n"], discount if m["periods"] is None else 0.0),
                np.ones(m["n"]),
            ]
        ),
        np.concatenate([p, np.ones(3 * m["n"])]),
    )
    balance, rest = sum_products(*terms)
    total = float(np.abs(balance + rest).sum()) * (1 + m["round"])
    total += m["row_error"] * m["contraction"] * float(d.sum()) * (1 + m["round"]) + 1e-300
    if not total <= c["occupancy_error"] * m["rest"]:
        raise Rejected("the occupancy is not where the policy leads from the start")


# The figures. Enclosures are arrays with first axis (value, lower, upper).


@dataclass
class CheckedDecisions:
    """Choices of the policy: (3, S) local losses and margins, (S,) sets of states."""

    loss: np.ndarray
    margin: np.ndarray
    differs: np.ndarray
    wrong: np.ndarray
    possibly_wrong: np.ndarray


def check_decisions(c: dict, m: dict, sweep: SweepResult) -> CheckedDecisions:
    """l = max_a q - q(., pi) within the slack, 0 where pi takes the decided action.

    Action values are off by at most h = c e + built, so differences of them by 2 h; the slack has
    to cover that and what the stated differences are off.
    """
    rho = np.sort(sweep.rho, axis=1)
    every = np.arange(m["n"])
    slack = float(c["margin_slack"])
    best = rho[:, -1]
    chosen = sweep.rho[every, c["policy.table"]]
    min_slack = (
        2 * (m["contraction"] * float(c["optimal_value_error"]) + sweep.model_error) * (1 + 4 * EPS)
    )
    if not min_slack <= slack <= min_slack * (1 + 1e-7) + 64 * sweep.eta:
        raise Rejected(f"margin_slack is {min_slack:.6g} and rounding, not {slack:.6g} as stated")
    loss_of_optimal = best - sweep.rho[every, c["optimal"]]
    reject_states(m, ~(loss_of_optimal <= slack), "optimal: the optimal action is not optimal")
    margin = best - rho[:, -2] if m["A"] > 1 else np.full(m["n"], np.inf)
    subject = "margin is not the best minus the second-best action value"
    reject_states(m, ~is_close(c["margin"], margin, slack - min_slack), subject)
    x = c["local_losses"][0]
    subject = "local_losses.value is not max_a q - q(., pi)"
    reject_states(m, ~is_close(x, best - chosen, slack - min_slack), subject)
    is_optimal = (c["margin"] > slack) & (x == 0)
    is_wrong = x > slack
    # What is stated may be off; that an action is the best, and certainly so, may not.
    is_certain = (chosen == best) & (margin > min_slack)
    reject_states(
        m, is_optimal & ~is_certain, "the action of the policy is not surely the best, as stated"
    )
    loss = np.array([x, np.maximum(x - slack, 0), np.where(is_optimal, 0, x + slack)])
    check_interval(c, m, "local_losses", loss, 0, 0)
    margin_band = np.array([c["margin"], np.maximum(c["margin"] - slack, 0), c["margin"] + slack])
    return CheckedDecisions(
        c["local_losses"], margin_band, c["policy.table"] != c["optimal"], is_wrong, ~is_optimal
    )


def is_close(stated: np.ndarray, derived: np.ndarray, tolerance: float) -> np.ndarray:
    """Whether they are equal, or apart by no more than ``room``, rounding included."""
    rounding = 4 * EPS * (np.abs(stated) + np.abs(derived))
    return (stated == derived) | (np.abs(stated - derived) + rounding <= tolerance)


def max_abs(x: np.ndarray | list) -> float:
    return float(np.abs(x).max())


def check_losses(c: dict, m: dict, local: np.ndarray) -> None:
    """l <= L <= max l / (1 - c) and |L - (V - V_pi)| <= e + e_pi, state by state and in mean."""
    optimal_value = c["optimal_value"]
    policy_value = c["policy_value"]
    e = c["optimal_value_error"]
    e_pi = c["policy_value_error"]
    max_loss = local[2].max() / m["rest"]
    x, cut = two_sum(optimal_value, -policy_value)
    error, rest = two_sum(e, e_pi)
    lower = np.maximum(next_down(x - error + (cut - rest)), local[1])
    upper = np.minimum(next_up(x + error + (cut + rest)), max_loss)
    size = max_abs(optimal_value) + max_abs(policy_value) + error
    slack = m["unit"] * (size + max_loss / m["rest"]) + 4 * EPS * error + m["uneven"] * max_loss
    check_interval(
        c, m, "losses", [np.clip(x, lower, np.maximum(lower, upper)), lower, upper], slack, 0
    )
    losses = c["losses"]
    start = c["start"]
    check_interval(c, m, "worst_loss", losses.max(axis=1), 0, 0)
    for path, value, value_error in (
        ("optimal_mean", optimal_value, e),
        ("policy_mean", policy_value, e_pi),
    ):
        weights = np.concatenate([start, start])
        mean = [
            dot(weights, np.concatenate([value, np.full(m["n"], by)]))
            for by in (0, -value_error, value_error)
        ]
        check_interval(c, m, path, mean, m["round"] * size)

    by_value = [dot(part, start) for part in losses]
    scale = m["share"]
    by_occupancy = enclose_sum(c, local) / scale
    lower = max(by_value[1], by_occupancy[1], 0)
    upper = min(by_value[2], by_occupancy[2])
    mean = [np.clip(by_value[0], lower, max(lower, upper)), lower, upper]
    check_interval(c, m, "mean_loss", mean, m["round"] * (max_abs(losses) + by_occupancy[2]))
    gap = np.array([dot(part, 1 / m["n"]) for part in local]) / scale
    check_interval(c, m, "value_gap", gap, m["round"] * gap[2])
    relative = divide_interval(c["mean_loss"], c["optimal_mean"])
    check_interval(c, m, "relative_loss", relative, 64 * EPS * max_abs(relative or [0]), EPS / 2)


def enclose_sum(c: dict, parts: np.ndarray) -> np.ndarray:
    """Sum of d(s) x(s) over states, for x >= 0 in an enclosure and the exact occupancy."""
    error = c["occupancy_error"] * parts[2].max()
    value, lower, upper = (dot(part, c["occupancy"]) for part in parts)
    return np.array([value, max(lower - error, 0.0), upper + error])


def next_down(x: np.ndarray) -> np.ndarray:
    return np.nextafter(x, -np.inf)


def next_up(x: np.ndarray) -> np.ndarray:
    return np.nextafter(x, np.inf)


def divide_interval(number: np.ndarray, other: np.ndarray) -> list | None:
    """``number / |other|``; None where that may be 0 or is not finite."""
    if other[1] <= 0 <= other[2]:
        return None
    ends = number[1:, None] / np.abs(other[1:])
    if not np.isfinite(ends).all():
        return None
    return [number[0] / abs(other[0]), ends.min(), ends.max()]


def check_shares(c: dict, m: dict, d: CheckedDecisions) -> None:
    differs = [part.mean() for part in (d.differs, d.wrong, d.possibly_wrong)]
    check_interval(c, m, "policy_error", differs, 4 * EPS, EPS / 2)
    costly = (d.loss > c["tolerance"]).mean(axis=1)
    check_interval(c, m, "costly_error", costly, 4 * EPS, EPS / 2)


def check_decomposition(c: dict, m: dict, local: np.ndarray) -> None:
    """Sums of d(s) l(s) / (1 - discount) over states, by state, region, pair and face."""
    best = c["optimal"]
    policy_table = c["policy.table"]
    A = m["A"]
    groups = {"state": np.arange(m["n"]), "region": best, "pair": best * A + policy_table}
    groups["face"] = nearest_face(best.reshape(m["shape"]), A).ravel()
    scale = m["share"]
    for name, group in groups.items():
        path = f"decomposition.{name}"
        count = c[path].shape[1]
        parts = [np.sum(sum_products(group, count, c["occupancy"], part), axis=0) for part in local]
        largest = np.zeros(count)
        np.maximum.at(largest, group, local[2])
        error = c["occupancy_error"] * largest
        derived = np.array([parts[0], np.maximum(parts[1] - error, 0), parts[2] + error]) / scale
        check_interval(c, m, path, derived, m["round"] * derived[2])


def nearest_face(table: np.ndarray, A: int) -> np.ndarray:
    """(grid) code a A + b, a < b, of the nearest pair of neighbours with other optimal actions.

    A state that touches several takes the first: axis by axis, the neighbour above before the one
    below. Of others as near, SciPy's order decides; without any face, the code is of (a, a).
    """
    touched = []
    for axis in range(table.ndim):
        rows = np.moveaxis(table, axis, 0)
        low = np.minimum(rows[1:], rows[:-1])
        high = np.maximum(rows[1:], rows[:-1])
        none = np.full((1, *rows.shape[1:]), -1)
        face = np.concatenate([none, np.where(low < high, low * A + high, -1), none])
        touched += [np.moveaxis(face[1:], 0, axis), np.moveaxis(face[:-1], 0, axis)]
    sides = np.array(touched)
    code = np.take_along_axis(sides, (sides >= 0).argmax(axis=0)[None], axis=0)[0]
    if (code < 0).all():
        return table * A + table
    near = distance_transform_cdt(code < 0, "taxicab", return_distances=False, return_indices=True)
    return code[tuple(np.asarray(near))]


# The bounds.


def check_bounds(c: dict, m: dict, d: CheckedDecisions, eta: float) -> None:
    R = c["bounds.reward_bound"]
    max_reward = max_abs(m["reward"][m["feasible"] > 0])
    max_reward += m["reward_error"]
    if not max_reward * (1 + EPS) <= R <= max_reward + 2 * m["reward_error"] + 16 * eta:
        raise Rejected(
            f"bounds.reward_bound is {max_reward:.12g} and rounding, not {R:.12g} as stated"
        )
    factor = 2 * R / (m["share"] * m["rest"])
    relative_slack = m["round"] + m["uneven"]
    wrong = enclose_occupancy(c, d.differs, d.wrong, d.possibly_wrong)
    check_interval(c, m, "bounds.error_share", wrong, m["round"])
    wrong = c["bounds.error_share"]
    check_interval(
        c,
        m,
        "bounds.policy_error",
        factor * wrong,
        factor * wrong[2] * relative_slack,
        check_lower=False,
    )
    check_localisation(c, m, d, factor, relative_slack)
    check_second_best(c, m, d)
    check_rate(c, m, d, factor, relative_slack)


def enclose_occupancy(
    c: dict, estimated: np.ndarray, certain: np.ndarray, possible: np.ndarray
) -> np.ndarray:
    """Enclosed occupancy of a set; none at all only where no state may belong."""
    value, low, high = (dot(c["occupancy"], mask * 1.0) for mask in (estimated, certain, possible))
    error = c["occupancy_error"]
    return np.array([value, max(low - error, 0), high + error if possible.any() else 0])


def check_localisation(
    c: dict, m: dict, d: CheckedDecisions, factor: float, relative_slack: float
) -> None:
    path = "bounds.localisation"
    eps = c["bounds.localisation.eps"]
    names = ("holds", "exceptions", "example")
    stated = tuple(None if (x := c[f"{path}.{name}"]) is None else int(x) for name in names)
    check_equal(f"{path} ({', '.join(names)})", stated, check_premise(d, eps))
    value, lower, upper = d.margin
    neighbourhood = enclose_occupancy(c, value <= eps, upper <= eps, lower <= eps)
    check_interval(c, m, f"{path}.neighbourhood", neighbourhood, m["round"])
    bound = factor * c[f"{path}.neighbourhood"] if c[f"{path}.holds"] else None
    tolerance = factor * c[f"{path}.neighbourhood"][2] * relative_slack
    check_interval(c, m, f"{path}.bound", bound, tolerance, check_lower=False)


def check_premise(d: CheckedDecisions, eps: float) -> tuple[bool | None, int, int | None]:
    """(whether all errors have margins up to ``eps``, surely others, the first of them)."""
    _, lower, upper = d.margin
    exceptions = np.flatnonzero(d.wrong & (lower > eps))
    if exceptions.size:
        return False, int(exceptions.size), int(exceptions[0])
    return None if (d.possibly_wrong & (upper > eps)).any() else True, 0, None


def check_second_best(c: dict, m: dict, d: CheckedDecisions) -> None:
    """Loss = sum d margin 1{pi != pi*} / (1 - discount) if errors take the second-best action."""
    path = "bounds.second_best"
    exceptions = int((d.wrong & (d.loss[1] > d.margin[2])).sum())
    check_equal(f"{path}.exceptions", c[f"{path}.exceptions"], exceptions)
    is_doubtful = bool((d.possibly_wrong & (d.loss[0] > d.margin[0])).any())
    holds = False if exceptions else (None if is_doubtful else True)
    check_equal(f"{path}.holds", c[f"{path}.holds"], holds)
    masks = np.array([d.differs, d.wrong, d.possibly_wrong])
    loss = None
    if holds:
        loss = enclose_sum(c, np.where(masks, d.margin, 0)) / m["share"]
    check_interval(c, m, f"{path}.loss", loss, 0 if loss is None else m["round"] * loss[2])


def check_rate(c: dict, m: dict, d: CheckedDecisions, factor: float, relative_slack: float) -> None:
    """d(B_x) <= C x^alpha for x in smallest..largest, with hardly a smaller C; and what follows."""
    rate = "bounds.rate."
    eps = c["bounds.localisation.eps"]
    C, alpha, smallest, largest = (
        c[rate + name] for name in ("constant", "exponent", "smallest", "largest")
    )
    order = np.argsort(d.margin[1], kind="stable")
    sorted_margins = d.margin[1][order]
    # States of one margin are reached together, in whatever order they stand.
    cumulative = np.cumsum(c["occupancy"][order])[
        np.searchsorted(sorted_margins, sorted_margins, side="right") - 1
    ]
    half_index = np.searchsorted(
        cumulative, cumulative[-1] / 2 * (1 + np.array([-1, 1]) * m["round"])
    )
    max_margin = sorted_margins[np.isfinite(sorted_margins)].max(initial=0.0)
    range_ends = np.maximum(
        eps, np.minimum(sorted_margins[np.minimum(half_index, m["n"] - 1)], max_margin)
    )
    # Where none is stated, none must be missed that would surely be there.
    inside = (sorted_margins > 0) & (sorted_margins <= (range_ends[0] if C is None else largest))
    x = np.log(sorted_margins[inside])
    rounding = (m["n"] + 2) * EPS
    # What the occupancy surely is not above, and what is stated to be on the safe side.
    log_lower = np.log(cumulative[inside] * (1 + rounding) + c["occupancy_error"])
    log_stated = np.log(cumulative[inside] + c["occupancy_error"] + rounding)
    if C is None:
        if x.size and RATE_MAX_EXPONENT * max_abs(x) + max_abs(log_stated) < RATE_MAX_LOG_CONSTANT:
            raise Rejected("bounds.rate must be stated")
        return
    if not x.size or smallest != sorted_margins[inside][0]:
        raise Rejected(f"{rate}smallest is not the smallest margin above 0")
    if not range_ends[0] <= largest <= range_ends[1]:
        raise Rejected(f"{rate}largest is {range_ends[0]:.12g}, not {largest:.12g} as stated")
    if not 0 < alpha <= RATE_MAX_EXPONENT:
        raise Rejected(f"{rate}exponent must lie in 0..{RATE_MAX_EXPONENT:g}, not be {alpha:.12g}")
    size = 1 + max_abs(log_stated) + alpha * max_abs(x)
    excess = (log_lower - alpha * x - np.log(C)).max(), (log_stated - alpha * x - np.log(C)).max()
    if not (excess[0] <= -16 * EPS * size and excess[1] >= -64 * m["round"] * size):
        raise Rejected(f"{rate}constant is not the smallest for its exponent, {alpha:.12g}")
    applies = c["bounds.localisation.holds"] and smallest <= eps <= largest
    bound = np.full(3, C * eps**alpha)
    sharper_bound = bound * eps / m["share"]
    tolerance = factor * bound * (256 * EPS + relative_slack)
    check_interval(
        c, m, rate + "bound", factor * bound if applies else None, tolerance, check_lower=False
    )
    second_best_applies = applies and c["bounds.second_best.holds"]
    check_interval(
        c,
        m,
        rate + "second_best_bound",
        sharper_bound if second_best_applies else None,
        sharper_bound * 256 * EPS,
    )


def write_bounds(lower: float, upper: float) -> tuple[str, str]:
    """Both bounds in at most 12 digits, rounded outward: read back, they are no tighter."""
    low, high = (
        Context(prec=12, rounding=way).create_decimal(repr(float(bound)))
        for way, bound in ((ROUND_FLOOR, lower), (ROUND_CEILING, upper))
    )
    return f"{low:g}", f"{high:g}"


def check_certificate(content: dict, m: dict) -> str:
    """Say what was confirmed, or raise Rejected at the first thing that is wrong."""
    form = m["form"]
    for path, known in (("format", form.format), ("version", form.version)):
        check_equal(path, parse_field(content, m, path), known)
    refuse_unknown(content, form.fields)
    check_identity({path: parse_field(content, m, path) for path in form.identity}, m)
    c = {path: parse_field(content, m, path) for path in form.fields}
    if form is VALUE_FORMAT:
        return check_value_certificate(c, m)
    check_actions(c, m, "policy.table")
    return check_average_certificate(c, m) if form is AVERAGE_FORMAT else check_totals(c, m)


def check_value_certificate(c: dict, m: dict) -> str:
    """Values that are sums of rewards, discounted or over a horizon."""
    for path in ("policy.table", "optimal"):
        check_actions(c, m, path)
    sweep = check_values(c, m)
    check_occupancy(c, m)
    decisions = check_decisions(c, m, sweep)
    check_losses(c, m, decisions.loss)
    check_shares(c, m, decisions)
    check_decomposition(c, m, decisions.loss)
    check_bounds(c, m, decisions, sweep.eta)
    (low, high), (_, max_loss) = (
        write_bounds(*c[name][1:]) for name in ("mean_loss", "worst_loss")
    )
    _, occupied = write_bounds(0.0, c["occupancy_error"])
    return (
        f"{m['model'] or 'the model'} (content {m['content'][:12]}): loss {c['mean_loss'][0]:.12g} "
        f"on average and {c['worst_loss'][0]:.12g} at worst, in all of {m['n']:,} states; "
        f"proven to be between {low} and {high} on average and at most {max_loss}, and the "
        f"occupancy right to {occupied}; not checked: {', '.join(NOT_CHECKED)}"
    )


# Averages.


def check_average_certificate(c: dict, m: dict) -> str:
    """Both gains, and what follows for the loss per period."""
    every = np.arange(m["n"])
    for name in ("optimal", "policy"):
        value, rest = two_sum(c[f"{name}_value"], c[f"{name}_value_rest"])
        d = compute_gain_residuals(m, value, rest)
        d = d.max(axis=1) if name == "optimal" else d[every, c["policy.table"]]
        check_gain(c, m, name, value, d)
    g = c["optimal_gain"]
    g_pi = c["policy_gain"]
    lower = max(g[1] - g_pi[2], 0.0)
    upper = g[2] - g_pi[1]
    loss = [np.clip(g[0] - g_pi[0], lower, max(lower, upper)), lower, upper]
    check_interval(c, m, "loss", loss, 8 * EPS * max_abs([g, g_pi]), EPS / 2)
    relative = divide_interval(c["loss"], g)
    check_interval(c, m, "relative_loss", relative, 64 * EPS * max_abs(relative or [0]), EPS / 2)
    low, high = write_bounds(*c["loss"][1:])
    return (
        f"{m['model'] or 'the model'} (content {m['content'][:12]}): loss {c['loss'][0]:.12g} "
        f"per period from every one of {m['n']:,} states, proven to be between {low} and {high}; "
        f"single decisions are not judged; not checked: {', '.join(NOT_CHECKED)}"
    )


def compute_gain_residuals(m: dict, value: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """(S, A) r + P h - h with each row divided by its sum, 1 + apart; -inf if infeasible.

    h = value + rest, where the rest is no more than rounding value takes off.
    """
    expected, expected_rest = (
        np.sum(sum_products(m["row"], len(m["indptr"]) - 1, m["data"], x[m["indices"]]), axis=0)
        for x in (value, rest)
    )
    # It may be off by 8 EPS of itself.
    excess = (expected + expected_rest) * (m["apart"] / (1 + m["apart"]))
    return compute_residuals(m, value) + ((expected_rest - excess)[m["row_of"]] - rest[:, None])


def check_gain(c: dict, m: dict, name: str, value: np.ndarray, d: np.ndarray) -> None:
    """min d <= gain <= max d, less and more what the arrays and this arithmetic may be off."""
    center, lower, upper = c[f"{name}_gain"]
    if not lower <= center <= upper:
        raise Rejected(f"{name}_gain does not lie between its own ends")
    span = np.ptp(value)
    max_row_entries = int(np.diff(m["indptr"]).max())
    size = max_abs(d) + 4 * max_abs(value)  # |r| <= |d| + 2 max|h|, of the actions that decide d
    error = m["reward_error"] + m["row_error"] * span / (1 - m["row_error"])
    error += size * EPS * (8 * float(np.abs(m["apart"]).max()) + (max_row_entries + 64) ** 2 * EPS)
    error = error * (1 + 16 * EPS) + 8 * EPS * max_abs(d) + bound_underflow(m, value)
    for end, bad in (("lower", ~(d - error >= lower)), ("upper", ~(d + error <= upper))):
        subject = f"{name}_gain.{end} is {lower if end == 'lower' else upper:.12g}, "
        reject_states(m, bad, f"{subject}and {name}_value does not prove it")


# Totals.


def check_totals(c: dict, m: dict) -> str:
    """Both values, and what follows for the loss until the end."""
    check_start(c, m)
    ended = ends(m)
    every = np.arange(m["n"])
    for path in TOTALS.split():
        name, side = path.split("_")
        rho = compute_residuals(m, c[path])
        rho = rho.max(axis=1) if name == "optimal" else rho[every, c["policy.table"]]
        above = -rho if side == "upper" else rho
        reject_states(m, ended & (c[path] != 0), f"{path} must be 0 where the process has ended")
        proven = above * (1 - 8 * EPS) > room(m, c[path])
        reject_states(m, ~(ended | proven), f"{path} does not prove an end of the {name} value")
    size = np.sum([np.abs(c[path]) for path in TOTALS.split()], axis=0)
    best, own = (middle(c, name) for name in ("optimal", "policy"))
    start = c["start"]
    off = 8 * EPS * size
    for name, values in (("optimal", best), ("policy", own)):
        check_interval(
            c, m, f"{name}_mean", [dot(start, v) for v in values], m["round"] * dot(start, size)
        )
    lower = np.maximum(next_down(best[1] - own[2]), 0.0)
    upper = np.maximum(next_up(best[2] - own[1]), lower)
    lost = np.clip(best[0] - own[0], lower, upper), lower, upper
    slack = m["round"] * dot(start, size) + dot(start, off)
    check_interval(c, m, "mean_loss", [dot(start, v) for v in lost], slack)
    check_interval(c, m, "worst_loss", [v.max() for v in lost], off.max(), 0.0)
    relative = divide_interval(c["mean_loss"], c["optimal_mean"])
    check_interval(c, m, "relative_loss", relative, 64 * EPS * max_abs(relative or [0]), EPS / 2)
    low, high = write_bounds(*c["mean_loss"][1:])
    _, max_loss = write_bounds(*c["worst_loss"][1:])
    return (
        f"{m['model'] or 'the model'} (content {m['content'][:12]}): loss until the end proven to "
        f"be between {low} and {high} on average and at most {max_loss} "
        f"in all of {m['n']:,} states; single decisions are not judged; not checked: "
        f"{', '.join(NOT_CHECKED)}"
    )


def middle(c: dict, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lower = c[f"{name}_lower"]
    upper = c[f"{name}_upper"]
    return (lower + upper) / 2, lower, upper


def ends(m: dict) -> np.ndarray:
    """(S,) states that no feasible action leaves, and where none pays."""
    happens = m["data"] > 0
    row = m["row"][happens]
    to = m["indices"][happens]
    count = np.bincount(row, minlength=len(m["indptr"]) - 1)
    only = np.full(len(count), -1)
    only[row] = to
    row = m["row_of"]
    stays = (count[row] == 1) & (only[row] == np.arange(m["n"])[:, None])
    stays &= (np.abs(m["apart"][row]) < AVERAGE_MAX_ROW_ERROR) & (m["reward"] == 0)
    return (stays | (m["feasible"] == 0)).all(axis=1)


def room(m: dict, value: np.ndarray) -> float:
    """What the model's arrays, rows that are off 1 by rounding and this arithmetic may do."""
    apart = np.abs(m["apart"])
    rows = m["row_error"] + float(apart[apart < AVERAGE_MAX_ROW_ERROR].max(initial=0.0))
    size = max_abs(m["reward"][m["feasible"] > 0]) + 2 * max_abs(value)
    longest = int(np.diff(m["indptr"]).max())
    off = m["reward_error"] + rows * max_abs(value) + size * (longest + 64) ** 2 * EPS**2
    return off * (1 + 16 * EPS) + bound_underflow(m, value)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m tessella.certificates.check certificate.json model.nc")
        return 2
    read_errors = (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
        MemoryError,
    )
    try:
        with np.errstate(all="ignore"):  # what is not a number fails its comparison
            files = []
            for path, reader in zip(arguments, (read_certificate, read_saved_model), strict=True):
                try:
                    files.append(reader(path))
                except (FileNotFoundError, NotADirectoryError):
                    print(f"NOT CHECKED: there is no file {path}")
                    return 2
                except read_errors as error:
                    subject = f"{path} cannot be read, it may be cut short: {error}"
                    raise Rejected(subject) from error
            try:
                print(f"HOLDS: {check_certificate(*files)}")
            except read_errors as error:
                raise Rejected(f"it cannot be checked: {error}") from error
    except Rejected as reason:
        print(f"REJECTED: {reason}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
