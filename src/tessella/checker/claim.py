"""What a certificate states, and how a stated figure is compared with the derived one.

A record is a dataclass whose fields carry their readers; the fields of a document are those of its
record, no fewer and no more.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

import numpy as np

from .arithmetic import EPS, MAX_FLOAT, divide_interval, dot, max_abs
from .model import NETCDF_SIGNATURES, Model, WrongFile, read_file_size

INTERVAL_PARTS = ("value", "lower", "upper")
OUTWARD_RELATIVE_STEP = 2 * EPS  # an end of an enclosure is rounded outward by more than this
CERTIFICATE_MAX_BYTES = 1 << 30  # bytes of a certificate


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


def check_same_model(path: str, stated: object, known: object) -> None:
    if stated != known:
        difference = f"is {str(known)[:12]}, not {str(stated)[:12]} as stated"
        if path.startswith("policy."):
            difference = "differs"
        raise Rejected(f"the model file is of another model: {path} {difference}")


def check_equal(path: str, stated: object, derived: object) -> None:
    if stated != derived:
        raise Rejected(f"{path} is {derived}, not {stated} as stated")


def reject_states(model: Model, bad: np.ndarray, subject: str) -> None:
    """Reject at the first of the ``bad`` states."""
    if bad.any():
        count = f"{bad.sum():,} of {bad.size:,} states"
        raise Rejected(f"{subject}; first at {model.describe_state(int(bad.argmax()))} ({count})")


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
    unknown = (table < 0) | (table >= model.n_actions)
    reject_states(model, unknown, f"{path}: an action does not exist")
    infeasible = model.select_actions(model.feasible, table) == 0
    reject_states(model, infeasible, f"{path}: an action is not feasible")


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
class TypeReader:
    """A value of one type."""

    type: type

    def __call__(self, path: str, value: object, model: Model) -> Any:
        if not isinstance(value, self.type):
            raise Rejected(f"{path} must be of type {self.type.__name__}")
        return value


@dataclass(frozen=True)
class ArrayReader:
    """(n,) finite numbers; ``kinds`` are NumPy's, i for whole ones."""

    shape: Callable[[Model], tuple[int, ...]]
    kinds: str = "if"

    def __call__(self, path: str, value: object, model: Model) -> np.ndarray:
        return read_numbers(path, value, self.shape(model), self.kinds).ravel()


@dataclass(frozen=True)
class IntervalsReader:
    """(3, n) value, lower and upper of n numbers."""

    shape: Callable[[Model], tuple[int, ...]]

    def __call__(self, path: str, value: object, model: Model) -> np.ndarray:
        if not isinstance(value, dict) or set(value) - set(INTERVAL_PARTS):
            raise Rejected(f"{path} must have the parts {', '.join(INTERVAL_PARTS)} and no others")
        for part in INTERVAL_PARTS:
            if part not in value:
                raise Rejected(f"{path}.{part} is missing")
        shape = self.shape(model)
        parts = [read_numbers(f"{path}.{part}", value[part], shape) for part in INTERVAL_PARTS]
        return np.array([part.ravel() for part in parts])


def read_number(path: str, value: object, model: Model, kinds: str = "if") -> Any:
    number = read_numbers(path, value, (), kinds)[()]
    if number < 0:
        raise Rejected(f"{path} must not be negative")
    return number


def read_count(path: str, value: object, model: Model) -> Any:
    return read_number(path, value, model, "i")


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


Text = Annotated[str, TypeReader(str)]
Flag = Annotated[bool, TypeReader(bool)]
Labels = Annotated[list, TypeReader(list)]
Axes = Annotated[dict, TypeReader(dict)]
Number = Annotated[float, read_number]
Count = Annotated[int, read_count]
States = Annotated[np.ndarray, ArrayReader(lambda model: model.shape)]
Actions = Annotated[np.ndarray, ArrayReader(lambda model: model.shape, "i")]
Margins = Annotated[np.ndarray, read_margins]
Interval = Annotated[np.ndarray, ArrayReader(lambda _: (len(INTERVAL_PARTS),))]
StateIntervals = Annotated[np.ndarray, IntervalsReader(lambda model: model.shape)]
ActionIntervals = Annotated[np.ndarray, IntervalsReader(lambda model: (model.n_actions,))]
PairIntervals = Annotated[
    np.ndarray, IntervalsReader(lambda model: (model.n_actions, model.n_actions))
]


# Records.


@dataclass(frozen=True)
class StatedActions:
    actions: Labels
    grid: Axes


@dataclass(frozen=True)
class StatedPolicy(StatedActions):
    name: Text  # not checked: the model file does not know it
    size: Count  # not checked either
    table: Actions


@dataclass(frozen=True)
class Header:
    """Which model it is about."""

    format: Text
    version: Count
    fingerprint: Text
    content: Text
    minimise: Flag
    model: Text
    action_name: Text
    policy: StatedActions


@dataclass(frozen=True)
class ValueHeader(Header):
    discount: Number
    periods: Count | None


@dataclass(frozen=True)
class AverageClaim(Header):
    """The certificate of an average."""

    FORMAT: ClassVar[str] = "tessella certificate of an average"
    VERSION: ClassVar[int] = 2

    policy: StatedPolicy
    optimal_value: States
    policy_value: States
    optimal_value_rest: States
    policy_value_rest: States
    optimal_gain: Interval
    policy_gain: Interval
    loss: Interval
    relative_loss: Interval | None


@dataclass(frozen=True)
class TotalClaim(Header):
    """The certificate of a total."""

    FORMAT: ClassVar[str] = "tessella certificate of a total"
    VERSION: ClassVar[int] = 1

    policy: StatedPolicy
    start: States
    optimal_lower: States
    optimal_upper: States
    policy_lower: States
    policy_upper: States
    optimal_mean: Interval
    policy_mean: Interval
    mean_loss: Interval
    worst_loss: Interval
    relative_loss: Interval | None


@dataclass(frozen=True)
class StatedLocalisation:
    eps: Number
    holds: Flag | None
    exceptions: Count
    example: Count | None
    neighbourhood: Interval
    bound: Interval | None


@dataclass(frozen=True)
class StatedRate:
    constant: Number
    exponent: Number
    smallest: Number
    largest: Number
    bound: Interval | None
    second_best_bound: Interval | None


@dataclass(frozen=True)
class StatedSecondBest:
    exceptions: Count
    holds: Flag | None
    loss: Interval | None


@dataclass(frozen=True)
class StatedBounds:
    reward_bound: Number
    error_share: Interval
    policy_error: Interval
    localisation: StatedLocalisation
    rate: StatedRate | None
    second_best: StatedSecondBest


@dataclass(frozen=True)
class StatedDecomposition:
    state: StateIntervals
    region: ActionIntervals
    pair: PairIntervals
    face: PairIntervals


@dataclass(frozen=True)
class ValueClaim(ValueHeader):
    """The certificate of values that are sums of rewards, discounted or over a horizon."""

    FORMAT: ClassVar[str] = "tessella certificate"
    VERSION: ClassVar[int] = 4

    policy: StatedPolicy
    optimal: Actions
    start: States
    tolerance: Number
    optimal_value: States
    optimal_value_error: Number
    policy_value: States
    policy_value_error: Number
    margin: Margins
    margin_slack: Number
    local_losses: StateIntervals
    losses: StateIntervals
    occupancy: States
    occupancy_error: Number
    policy_error: Interval
    costly_error: Interval
    value_gap: Interval
    optimal_mean: Interval
    policy_mean: Interval
    mean_loss: Interval
    relative_loss: Interval | None
    worst_loss: Interval
    decomposition: StatedDecomposition
    bounds: StatedBounds


Claim = ValueClaim | AverageClaim | TotalClaim
NOT_CHECKED = ("policy.name", "policy.size")
CLAIM_BY_CRITERION: dict[str, type[Claim]] = {
    "discounted": ValueClaim,
    "horizon": ValueClaim,
    "average": AverageClaim,
    "total": TotalClaim,
}


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
        raise WrongFile("is a netCDF file, as saved models are, and a certificate is a JSON file")
    if text.strip()[:1] not in (b"", b"{"):
        raise WrongFile("is not a certificate, which is a JSON file that begins with '{'")
    return json.loads(text.decode("utf-8"), object_pairs_hook=reject_duplicates)


def read_claim(content: dict, model: Model) -> Claim:
    """The claim that a document makes about a model, or Rejected."""
    record = CLAIM_BY_CRITERION[model.criterion]
    check_format(content, record, model)
    refuse_unknown(content, tuple(get_field_readers(record)))
    header = ValueHeader if issubclass(record, ValueHeader) else Header
    check_identity(read_record(header, content, model), model)
    return read_record(record, content, model)


def check_format(content: dict, record: type[Claim], model: Model) -> None:
    """Reject another kind of document, the certificate of another criterion, and other versions."""
    if "format" not in content or "version" not in content:
        missing = "version" if "format" in content else "format"
        raise Rejected(f"the document is not a certificate: its {missing} is missing")
    stated = content["format"]
    if stated != record.FORMAT:
        if stated not in [claim.FORMAT for claim in CLAIM_BY_CRITERION.values()]:
            raise Rejected(
                f"the document has the format {stated!r:.60}, and {record.FORMAT!r} is expected"
            )
        raise Rejected(
            f"the document is a {stated!r}; the criterion of the model is {model.criterion!r}, "
            f"which needs a {record.FORMAT!r}"
        )
    version = read_count("version", content["version"], model)
    if version != record.VERSION:
        raise Rejected(
            f"the certificate has version {version} of its format; "
            f"this checker reads version {record.VERSION}"
        )


def split_optional(hint: Any) -> tuple[Any, bool]:
    """``X`` and whether it may be null, of the type ``X`` or ``X | None``."""
    options = get_args(hint)
    if NoneType in options:
        return next(option for option in options if option is not NoneType), True
    return hint, False


def get_typed_fields(record: type) -> dict[str, tuple[Any, bool]]:
    """Name of each field of a record to its type and whether it may be null."""
    hints = get_type_hints(record, include_extras=True)
    return {field.name: split_optional(hints[field.name]) for field in fields(record)}


def get_field_readers(record: type, prefix: str = "") -> dict[str, Callable]:
    """Path of each field, those of inner records included, to its reader."""
    readers: dict[str, Callable] = {}
    for name, (hint, _) in get_typed_fields(record).items():
        if is_dataclass(hint):
            readers |= get_field_readers(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            readers[prefix + name] = get_args(hint)[1]
    return readers


R = TypeVar("R")


def read_record(record: type[R], content: object, model: Model, prefix: str = "") -> R:
    """A record of what ``content`` holds, or Rejected where a field is not what it has to be."""
    stated = content if isinstance(content, dict) else {}
    parts = {}
    for name, (hint, is_optional) in get_typed_fields(record).items():
        path = prefix + name
        if is_dataclass(hint) and not is_optional:  # whichever of its fields is missing is named
            parts[name] = read_record(hint, stated.get(name), model, f"{path}.")  # type: ignore[arg-type]
            continue
        if name not in stated:
            raise Rejected(f"{path} is missing")
        value = stated[name]
        if value is None and is_optional:
            parts[name] = None
        elif is_dataclass(hint):
            parts[name] = read_record(hint, value, model, f"{path}.")  # type: ignore[arg-type]
        else:
            parts[name] = get_args(hint)[1](path, value, model)
    return record(**parts)


def refuse_unknown(content: object, known_paths: tuple[str, ...], path: str = "") -> None:
    """Refuse fields of which nothing is known: they would pass unchecked."""
    if path in known_paths or not isinstance(content, dict):
        return
    for name, part in content.items():
        inner = f"{path}.{name}" if path else name
        if "." in name or not any(f"{known}.".startswith(f"{inner}.") for known in known_paths):
            raise Rejected(f"{inner!r} is not a field of a certificate")
        refuse_unknown(part, known_paths, inner)


def check_identity(header: Header, model: Model) -> None:
    if isinstance(header, ValueHeader):
        check_same_model("discount", header.discount, model.discount)
        check_same_model("periods", header.periods, model.periods)
    check_same_model("fingerprint", header.fingerprint, model.fingerprint)
    check_same_model("content", header.content, model.content)
    check_same_model("minimise", header.minimise, model.minimise)
    check_same_model("model", header.model, model.name)
    check_same_model("action_name", header.action_name, model.action_name)
    check_same_model("policy.actions", header.policy.actions, model.actions)
    # Axes have an order, which dictionaries do not compare.
    check_same_model("policy.grid", list(header.policy.grid.items()), list(model.axes.items()))
