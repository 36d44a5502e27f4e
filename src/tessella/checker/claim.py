"""What a certificate states, and how a stated figure is compared with the derived one.

There is one document. It consists of a header, the losses, and parts, which differ by criterion. A
record is a dataclass, whose types say how its fields are read; the fields of a document are those
of its record, no fewer and no more.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from .arithmetic import EPS, MAX_FLOAT, divide_interval, dot, max_abs
from .model import NETCDF_SIGNATURES, Model, WrongFile, read_file_size

INTERVAL_PARTS = ("value", "lower", "upper")
OUTWARD_RELATIVE_STEP = 2 * EPS  # an end of an enclosure is rounded outward by more than this
FORMAT = "tessella certificate"
VERSION = 5  # of the format
CERTIFICATE_MAX_BYTES = 1 << 30  # bytes of a certificate


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


class NotChecked(Exception):  # noqa: N818 (it is the verdict)
    """The certificate states nothing that could be checked; says why."""


def check_equal(path: str, stated: object, derived: object) -> None:
    if stated != derived:
        raise Rejected(f"{path} is {derived}, not {stated} as stated")


def reject_states(model: Model, is_bad: np.ndarray, subject: str) -> None:
    """Reject at the first of the states that are bad."""
    if is_bad.any():
        count = f"{is_bad.sum():,} of {is_bad.size:,} states"
        raise Rejected(
            f"{subject}; first at {model.describe_state(int(is_bad.argmax()))} ({count})"
        )


def check_interval(
    path: str,
    stated: np.ndarray | None,
    derived: Any,
    tolerance: Any,
    step: float = OUTWARD_RELATIVE_STEP,
    check_lower: bool = True,
    model: Model | None = None,
) -> None:
    """Compare the stated (value, lower, upper), of one number or of many, with the derived.

    The ends must reach at least as far as derived, by ``step`` of their size, and no further than
    ``tolerance`` beyond; the value may be off by that. Of a bound, only the upper end is a claim.
    Where there is one of each state, ``model`` names the state.
    """
    if stated is None or derived is None:
        if stated is not derived:
            raise Rejected(f"{path} must be {'null' if derived is None else 'stated'}")
        return
    derived = np.array(derived)
    is_off = ~(np.abs(stated - derived) <= tolerance)
    is_off |= ~((stated[1] <= stated[0]) & (stated[0] <= stated[2]))
    is_off[1] |= check_lower & ~(stated[1] <= derived[1] - step * np.abs(derived[1]))
    is_off[2] |= ~(stated[2] >= derived[2] + step * np.abs(derived[2]))
    if is_off.any():
        part, *index = np.unravel_index(int(is_off.argmax()), is_off.shape)
        name = f"{path}.{INTERVAL_PARTS[part]}" if part or index else path
        location = "" if model is None else f" at {model.describe_state(int(index[0]))}"
        derived_value = derived[(part, *index)]
        stated_value = stated[(part, *index)]
        raise Rejected(
            f"{name} is {derived_value:.12g}, not {stated_value:.12g} as stated{location}"
        )


def check_actions(path: str, table: np.ndarray, model: Model) -> None:
    is_unknown = (table < 0) | (table >= model.n_actions)
    reject_states(model, is_unknown, f"{path}: an action does not exist")
    is_infeasible = model.select_actions(model.feasible, table) == 0
    reject_states(model, is_infeasible, f"{path}: an action is not feasible")


def check_start(start: np.ndarray, model: Model) -> None:
    reject_states(model, ~(start >= 0), "start: a probability is negative")
    total = dot(start, 1.0)
    if not abs(total - 1) <= (model.n_states + 64) * EPS:
        raise Rejected(f"start must sum to 1, not to {total:.12g}")


def check_relative_loss(
    stated: np.ndarray | None, loss: np.ndarray, optimal_mean: np.ndarray
) -> None:
    relative = divide_interval(loss, optimal_mean)
    tolerance = 64 * EPS * max_abs(relative or [0])
    check_interval("relative_loss", stated, relative, tolerance, EPS / 2)


# Readers: (path of a field, what the document holds there, model) -> what the record holds.


@dataclass(frozen=True)
class ArrayReader:
    """(n,) finite numbers; ``kinds`` are NumPy's, i for whole ones."""

    shape: Callable[[Model], tuple[int, ...]]
    kinds: str = "if"

    def __call__(self, path: str, value: object, model: Model) -> np.ndarray:
        return read_numbers(path, value, self.shape(model), self.kinds).ravel()


class IntervalsReader(ArrayReader):
    """(3, n) value, lower and upper of n numbers."""

    def __call__(self, path: str, value: object, model: Model) -> np.ndarray:
        if not isinstance(value, dict) or set(value) - set(INTERVAL_PARTS):
            raise Rejected(f"{path} must have the parts {', '.join(INTERVAL_PARTS)} and no others")
        for part in INTERVAL_PARTS:
            if part not in value:
                raise Rejected(f"{path}.{part} is missing")
        read = super().__call__
        return np.array([read(f"{path}.{part}", value[part], model) for part in INTERVAL_PARTS])


def read_weights(path: str, value: object, model: Model) -> dict[str, float]:
    if not isinstance(value, dict):
        raise Rejected(f"{path} must hold numbers by name")
    return {name: float(read_numbers(f"{path}.{name}", x, ())[()]) for name, x in value.items()}


def read_constraints(path: str, value: object, model: Model) -> tuple:
    if not (isinstance(value, list) and value):
        raise Rejected(f"{path} must be a list of constraints")
    return tuple(read_record(StatedConstraint, x, model, f"{path}.") for x in value)


def read_number(path: str, value: object, model: Model, kinds: str = "if") -> Any:
    number = read_numbers(path, value, (), kinds)[()]
    if number < 0:
        raise Rejected(f"{path} must not be negative")
    return number


def read_margins(path: str, value: object, model: Model) -> np.ndarray:
    """(S,) a number for each state, where null means infinity."""
    array = read_numbers(path, replace_null(value), model.shape).ravel()
    return np.where(array == MAX_FLOAT, np.inf, array)


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
    """Null, which means infinity, as the largest number there is."""
    if isinstance(value, list):
        return [replace_null(part) for part in value]
    return MAX_FLOAT if value is None else value


States = Annotated[np.ndarray, ArrayReader(lambda model: model.shape)]
Actions = Annotated[np.ndarray, ArrayReader(lambda model: model.shape, "i")]
Weights = Annotated[dict, read_weights]
Margins = Annotated[np.ndarray, read_margins]
Interval = Annotated[np.ndarray, ArrayReader(lambda _: (len(INTERVAL_PARTS),))]
StateIntervals = Annotated[np.ndarray, IntervalsReader(lambda model: model.shape)]
ActionIntervals = Annotated[np.ndarray, IntervalsReader(lambda model: (model.n_actions,))]
PairIntervals = Annotated[
    np.ndarray, IntervalsReader(lambda model: (model.n_actions, model.n_actions))
]


# Records.


@dataclass(frozen=True)
class Header:
    """Which model it is about."""

    format: str
    version: int
    fingerprint: str
    content: str
    minimise: bool
    model: str
    action_name: str
    criterion: object
    actions: list
    grid: dict


@dataclass(frozen=True)
class StatedPolicy:
    name: str  # not checked: the model file does not know it
    size: int  # not checked either
    table: Actions


@dataclass(frozen=True)
class Claim(Header):
    """What every certificate states."""

    policy: StatedPolicy
    optimal_mean: Interval
    policy_mean: Interval
    mean_loss: Interval
    worst_loss: Interval
    relative_loss: Interval | None


@dataclass(frozen=True)
class StatedRelativeValues:
    optimal_value: States
    optimal_value_rest: States
    policy_value: States
    policy_value_rest: States


@dataclass(frozen=True)
class AverageClaim(Claim):
    relative_values: StatedRelativeValues


@dataclass(frozen=True)
class StatedValueBounds:
    optimal_lower: States
    optimal_upper: States
    policy_lower: States
    policy_upper: States


@dataclass(frozen=True)
class TotalClaim(Claim):
    start: States
    value_bounds: StatedValueBounds


@dataclass(frozen=True)
class StatedFigures:
    optimal_value_error: float
    policy_value_error: float
    tolerance: float
    policy_error: Interval
    costly_error: Interval
    value_gap: Interval
    worst_state: int


@dataclass(frozen=True)
class StatedValues:
    optimal_value: States
    policy_value: States
    losses: StateIntervals


@dataclass(frozen=True)
class StatedDecisions:
    optimal: Actions
    margin: Margins
    margin_slack: float
    local_losses: StateIntervals


@dataclass(frozen=True)
class StatedLocalisation:
    eps: float
    holds: bool | None
    exceptions: int
    example: int | None
    neighbourhood: Interval
    bound: Interval | None


@dataclass(frozen=True)
class StatedRate:
    constant: float
    exponent: float
    smallest: float
    largest: float
    bound: Interval | None
    second_best_bound: Interval | None


@dataclass(frozen=True)
class StatedSecondBest:
    exceptions: int
    holds: bool | None
    loss: Interval | None


@dataclass(frozen=True)
class StatedBounds:
    reward_bound: float
    error_share: Interval
    policy_error: Interval
    localisation: StatedLocalisation
    rate: StatedRate | None
    second_best: StatedSecondBest


@dataclass(frozen=True)
class StatedDecomposition:
    occupancy: States
    occupancy_error: float
    state: StateIntervals
    region: ActionIntervals
    pair: PairIntervals
    face: PairIntervals


@dataclass(frozen=True)
class ValueClaim(Claim):
    """Of values that are sums of rewards, discounted or over a horizon."""

    start: States
    figures: StatedFigures
    values: StatedValues
    decisions: StatedDecisions
    decomposition: StatedDecomposition
    bounds: StatedBounds


@dataclass(frozen=True)
class StatedConstraint:
    name: str
    numerator: Weights
    denominator: Weights
    bound: Weights
    proven: Weights
    price: float
    certificate: dict


@dataclass(frozen=True)
class StatedConstrained:
    """A part that any certificate may have; the certificates within are claims of their own."""

    counts: str
    constraints: Annotated[tuple, read_constraints]
    lagrangian: dict
    loss: float


# Reading.


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
        text = file.read(size)
    if text.startswith(NETCDF_SIGNATURES):
        raise WrongFile(
            "is a netCDF file, as saved models are, and a certificate is a JSON file; "
            "the model comes first"
        )
    if text.strip()[:1] not in (b"", b"{"):
        raise WrongFile("is not a certificate, which is a JSON file that begins with '{'")
    return json.loads(text.decode("utf-8"), object_pairs_hook=reject_duplicates)


R = TypeVar("R")
C = TypeVar("C", bound=Claim)


def read_claim(record: type[C], content: dict, model: Model) -> C:
    """The claim that a document makes about a model, or Rejected."""
    check_format(content, model)
    if "blocks" in content:
        raise NotChecked("it was computed in blocks and states figures without what proves them")
    header = {name: content[name] for name in get_type_hints(Header) if name in content}
    check_identity(read_record(Header, header, model), model)
    return read_record(record, content, model)


def check_format(content: dict, model: Model) -> None:
    """Reject another kind of document, and other versions."""
    if "format" not in content or "version" not in content:
        missing = "version" if "format" in content else "format"
        raise Rejected(f"the document is not a certificate: its {missing} is missing")
    stated = content["format"]
    if stated != FORMAT:
        raise Rejected(f"the document has the format {stated!r:.60}, and {FORMAT!r} is expected")
    version = read_number("version", content["version"], model, "i")
    if version != VERSION:
        raise Rejected(
            f"the certificate has version {version} of its format; "
            f"this checker reads version {VERSION}"
        )


def check_identity(header: Header, model: Model) -> None:
    known = {
        "criterion": model.criterion_key,
        "fingerprint": model.fingerprint,
        "content": model.content,
        "minimise": model.minimise,
        "model": model.name,
        "action_name": model.action_name,
    }
    for name, value in known.items():
        stated = getattr(header, name)
        if stated != value:
            difference = f"is {str(value)[:12]}, not {str(stated)[:12]} as stated"
            raise Rejected(f"the model file is of another model: {name} {difference}")
    if header.actions != model.actions:
        raise Rejected("the model file is of another model: actions differ")
    # Axes have an order, which dictionaries do not compare.
    if list(header.grid.items()) != list(model.axes.items()):
        raise Rejected("the model file is of another model: grid differs")


def read_record(record: type[R], content: object, model: Model, prefix: str = "") -> R:
    """A record of what ``content`` holds, or Rejected where a field is not what it has to be."""
    stated = content if isinstance(content, dict) else {}
    hints = get_type_hints(record, include_extras=True)
    for name in stated:
        if name not in hints:  # it would pass unchecked
            raise Rejected(f"{prefix + name!r} is not a field of a certificate")
    parts = {}
    for name, hint in hints.items():
        # Of a record that is missing, the first missing field is named.
        if name not in stated and not is_dataclass(hint):
            raise Rejected(f"{prefix}{name} is missing")
        parts[name] = read_field(hint, prefix + name, stated.get(name), model)
    return record(**parts)


def read_field(hint: Any, path: str, value: object, model: Model) -> Any:
    """A value as its type says: a record, None, a number, by a reader, or as it is."""
    if is_dataclass(hint):
        return read_record(hint, value, model, f"{path}.")  # type: ignore[arg-type]
    if get_origin(hint) is Annotated:
        return hint.__metadata__[0](path, value, model)
    if NoneType in get_args(hint):
        return None if value is None else read_field(get_args(hint)[0], path, value, model)
    if hint in (int, float):
        return read_number(path, value, model, "i" if hint is int else "if")
    if not isinstance(value, hint):
        raise Rejected(f"{path} must be of type {hint.__name__}")
    return value
