"""The model file, read within bounds into a typed record; a file that is no model is rejected."""

import hashlib
import json
import math
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import netCDF4
import numpy as np

from .arithmetic import EPS, MAX_FLOAT, max_abs, sum_products, two_product, two_sum

MODEL_FORMAT = "tessella model"
MODEL_MAX_BYTES = 4 << 30  # bytes of all arrays of a model file
MODEL_ARRAYS = ("indptr", "indices", "data", "row_of", "reward", "feasible", "start")
OUTCOME_ARRAYS = tuple(
    f"outcomes/{n}" for n in ("start", "state", "probability", "reward", "ended")
)
END_ARRAYS = tuple(f"end/{n}" for n in ("indptr", "indices", "data", "row_of", "reward", "final"))
MEASURES_GROUP = "measures"  # of a model file, with a hash of its own
ROUNDING_MAX_ROW_ERROR = 1e-7  # rows whose sums differ from 1 by more end the process on purpose
AVERAGE_MAX_ROW_ERROR = 1e-6  # rows whose sums differ from 1 by more have no average
MAX_COMPRESSION_RATIO = 1032  # a compressed file holds at most that many times its size
NETCDF_SIGNATURES = (b"\x89HDF\r\n\x1a\n", b"CDF")  # with which netCDF files begin
LABEL_OVERHEAD_BYTES = 32  # bytes of a label in a file, beyond its text


class WrongFile(ValueError):  # noqa: N818 (it says what the file is)
    """A file of another kind than is expected; says what it is and what it should be."""


@dataclass(frozen=True)
class Discounting:
    """How residuals bound errors where values are discounted or have a horizon."""

    contraction_factor: float  # c, the discount times the largest row sum, rounded up
    contraction_gap: float  # 1 / (1 + c + c^2 + ...), rounded down: 1 - c without a horizon
    normalisation: float  # 1 / (1 + discount + discount^2 + ...): 1 - discount without a horizon
    relative_rounding: float  # of an action value in the usual precision, relative to its terms
    row_slack: float  # the same of a loss, for rows that do not sum to 1 exactly


@dataclass(frozen=True, eq=False)
class Model:
    """A model: S states, A actions, R distinct rows of transition probabilities."""

    name: str
    fingerprint: str
    content: str  # SHA-256 of the file's attributes and arrays
    minimise: bool
    action_name: str
    actions: list
    axes: dict[str, list]  # name of each axis to its values; of listed states, of each of them
    lists_states: bool  # whether only some combinations of values are states
    criterion: Literal["discounted", "horizon", "average", "total"]
    periods: int | None  # of a horizon
    discount: float
    row_error: float  # bound on the sum of the errors of a row
    reward_error: float
    indptr: np.ndarray  # (R + 1,) where each row begins
    indices: np.ndarray  # (entries,) next states
    data: np.ndarray  # (entries,) probabilities
    row_of: np.ndarray  # (S, A)
    reward: np.ndarray  # (S, A)
    feasible: np.ndarray  # (S, A)
    counts: dict[str, tuple[np.ndarray, float]]  # (S, A) amounts by name, and their errors
    counts_content: str  # SHA-256 of what the file says of measures
    periods_per_time: float  # of an average, which is stated per unit of time

    @property
    def criterion_key(self) -> object:
        """The criterion as certificates state it."""
        if self.criterion == "horizon":
            return ["horizon", self.periods, self.discount]
        return self.discount if self.criterion == "discounted" else self.criterion

    @cached_property
    def shape(self) -> tuple[int, ...]:
        lengths = tuple(len(values) for values in self.axes.values())
        if self.lists_states and len(set(lengths)) > 1:
            raise ValueError("its states do not have one value of each axis")
        return lengths[:1] if self.lists_states else lengths

    @property
    def n_states(self) -> int:
        return math.prod(self.shape)

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def row_lengths(self) -> np.ndarray:
        return np.diff(self.indptr)

    @cached_property
    def longest_row(self) -> int:
        return int(self.row_lengths.max())

    @cached_property
    def entry_row(self) -> np.ndarray:
        """(entries,) the row of each entry."""
        return np.repeat(np.arange(self.n_rows), self.row_lengths)

    @cached_property
    def row_excess(self) -> np.ndarray:
        """(R,) row sums less 1, accurate to the last digits; 0 of rows that no action takes.

        With a discount or a horizon all rows count.
        """
        ones = np.ones(len(self.data))
        sums = np.array(sum_products(self.entry_row, self.n_rows, self.data, ones))
        excess = (sums - [[1], [0]]).sum(axis=0)
        if self.criterion in ("discounted", "horizon"):
            return excess
        taken = np.zeros(len(excess), bool)
        taken[self.row_of[self.feasible > 0]] = True
        return np.where(taken, excess, 0.0)

    @property
    def rounding(self) -> float:
        """Of sums over all states, relative to their size."""
        return 4 * (self.n_states + 16) * EPS

    @cached_property
    def max_reward(self) -> float:
        """Largest |reward| over feasible pairs."""
        return max_abs(self.reward[self.feasible > 0])

    @cached_property
    def discounting(self) -> Discounting:
        excess = float(self.row_excess.max())
        rounded = np.abs(self.row_excess[np.abs(self.row_excess) < ROUNDING_MAX_ROW_ERROR])
        row_rounding = float(rounded.max(initial=0.0))
        excess += self.row_error * (1 + max(excess, 0.0))
        contraction_factor = self.discount * (1 + excess) * (1 + 2 * EPS)
        if self.periods is None:
            normalisation = 1 - self.discount
            contraction_gap = (normalisation - self.discount * excess) * (1 - 8 * EPS)
        else:
            coefficients = np.ones(self.periods)
            normalisation = 1 / float(np.polyval(coefficients, self.discount))
            discount_sum = float(np.polyval(coefficients, max(contraction_factor, 0.0)))
            contraction_gap = (1 - (2 * self.periods + 8) * EPS) / discount_sum
        relative_rounding = (4 * self.longest_row + 64) * EPS + 8 * self.row_error
        row_slack = (4 * relative_rounding + 16 * row_rounding) / contraction_gap
        return Discounting(
            contraction_factor, contraction_gap, normalisation, relative_rounding, row_slack
        )

    def select_actions(self, array: np.ndarray, table: np.ndarray) -> np.ndarray:
        """(S,) the entries of an array (S, A) at the actions of a policy."""
        return array[np.arange(self.n_states), table]

    def describe_state(self, state: int) -> str:
        index = np.unravel_index(state, self.shape)
        index *= len(self.axes) if self.lists_states else 1
        coordinates = zip(self.axes.items(), index, strict=True)
        return ", ".join(f"{name}={values[i]}" for (name, values), i in coordinates)

    def compute_residuals(self, value: np.ndarray) -> np.ndarray:
        """(S, A) q - V at V, accurate to the last digits; -inf if infeasible."""
        high, low = sum_products(self.entry_row, self.n_rows, self.data, value[self.indices])
        expected, expected_low = two_product(self.discount, high[self.row_of])
        expected_low = expected_low + self.discount * low[self.row_of]
        difference, difference_low = two_sum(self.reward, -value[:, None])
        total, total_low = two_sum(difference, expected)
        low_parts = difference_low + total_low + expected_low
        return np.where(self.feasible > 0, total + low_parts, -np.inf)

    def bound_underflow(self, value: np.ndarray) -> float:
        """What is lost where numbers are too small for the second half of a pair."""
        return (self.longest_row + 16) * 1e-320 if value.any() else 0.0

    def bound_model_error(self, value: np.ndarray) -> float:
        """What the errors of rows and rewards can do to an action value."""
        rows = self.row_error * self.discounting.contraction_factor * max_abs(value)
        return (self.reward_error + rows) * (1 + 4 * EPS)


def read_saved_model(path: str) -> Model:
    """The model of a file, or ValueError and its like where it is none."""
    model = build_model(*read_contents(path))
    if not has_valid_arrays(model):
        raise ValueError("its arrays do not fit one another")
    if model.criterion in ("average", "total"):
        check_undiscounted_rows(model)
    if model.criterion == "horizon":
        check_horizon(model)
    check_model(model)
    return model


def read_contents(path: str) -> tuple[dict, dict, dict, dict]:
    """Attributes and arrays of a model file, and those of its measures."""
    size = read_file_size(path, MODEL_MAX_BYTES)
    if size and not is_netcdf(path):
        raise WrongFile("is not a saved model, which is a netCDF file: mdp.save('model.nc')")
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        stated = getattr(file, "format", MODEL_FORMAT)
        if stated != MODEL_FORMAT:
            raise WrongFile(f"has the format {stated!r:.60}, and a saved model {MODEL_FORMAT!r}")
        groups = dict(file.groups)
        measures = groups.pop(MEASURES_GROUP, None)
        variables = dict(file.variables)
        for group in groups.values():
            variables |= {f"{group.name}/{name}": v for name, v in group.variables.items()}
        check_arrays_known(variables)
        attributes, arrays = read_group(file, variables, size)
        if measures is None:
            return attributes, arrays, {}, {}
        return attributes, arrays, *read_group(measures, measures.variables, size)


def read_group(group: Any, variables: dict, size: int) -> tuple[dict, dict]:
    """The attributes of a group of a file of ``size`` bytes, and the arrays of ``variables``."""
    check_declared_sizes(variables, size)
    attributes = {name: group.getncattr(name) for name in group.ncattrs()}
    return attributes, {name: read_array(variable, size) for name, variable in variables.items()}


def read_counts(attributes: dict, arrays: dict, shape: tuple) -> dict:
    """Amounts (S, A) that the model counts by name, and their errors."""
    if not arrays:
        return {}
    names = json.loads(attributes["counts"])
    amounts = arrays["amounts"]
    errors = arrays["errors"]
    fits = amounts.shape == (len(names), *shape) and errors.shape == (len(names),)
    is_float = amounts.dtype == errors.dtype == np.float64
    if not (fits and is_float and np.isfinite(amounts).all() and "reward" not in names):
        raise ValueError("what it counts does not fit its states and actions")
    if not (errors >= 0).all() or not np.isfinite(errors).all():
        raise ValueError("its counts may be off by any amount")
    return dict(zip(names, zip(amounts, errors.tolist(), strict=True), strict=True))


def build_model(attributes: dict, arrays: dict, measures: dict, counted: dict) -> Model:
    content = compute_digest(attributes, arrays)
    discount = float(attributes["discount"])
    criterion, periods = read_criterion(attributes.get("criterion", "null"), discount)
    axes = {name: arrays[f"grid/{name}"].tolist() for name in json.loads(attributes["axes"])}
    clock = json.loads(attributes.get("clock", "null"))
    return Model(
        counts=read_counts(measures, counted, arrays["reward"].shape),
        counts_content=compute_digest(measures, counted),
        periods_per_time=sum(clock.values()) if clock and criterion == "average" else 1.0,
        name=attributes["name"],
        fingerprint=attributes["fingerprint"],
        content=content,
        minimise=attributes.get("stated_in") == "costs",
        action_name=attributes["action_name"],
        actions=json.loads(attributes["actions"]),
        axes=axes,
        lists_states=attributes.get("states_listed") == 1,
        criterion=criterion,
        periods=periods,
        discount=discount,
        row_error=float(attributes["row_error"]),
        reward_error=float(attributes["reward_error"]),
        **{name: arrays.get(name) for name in MODEL_ARRAYS if name != "start"},  # type: ignore[arg-type]
    )


def read_criterion(text: str, discount: float) -> tuple[Any, int | None]:
    """The criterion, and the periods of a horizon; other criteria are not checked."""
    criterion = json.loads(text)
    if criterion is None:
        return "discounted", None
    if criterion in ("average", "total"):
        return criterion, None
    if not (isinstance(criterion, list) and len(criterion) == 3 and criterion[0] == "horizon"):
        raise ValueError("its criterion must be a discount, a horizon, an average or a total")
    _, periods, stated = criterion
    if not (type(periods) is int and periods >= 1 and stated == discount):
        raise ValueError("its horizon is not a number of periods")
    return "horizon", periods


def has_valid_arrays(model: Model) -> bool:
    """Whether each array has its type and shape, and rows point at rows and states that exist."""
    integers = (model.indptr, model.indices, model.row_of, model.feasible)
    tables = (model.row_of, model.reward, model.feasible)
    lists = (model.indptr, model.indices, model.data)
    has_types = (
        all(array.dtype.kind == "i" for array in integers)
        and all(array.dtype == np.float64 for array in (model.data, model.reward))
        and all(array.shape == (model.n_states, model.n_actions) for array in tables)
        and all(array.ndim == 1 for array in lists)
    )
    starts = model.indptr
    if not has_types or len(starts) < 2 or starts[0] != 0 or (np.diff(starts) < 0).any():
        return False
    if not starts[-1] == len(model.indices) == len(model.data):
        return False
    is_state = (model.indices >= 0) & (model.indices < model.n_states)
    is_row = (model.row_of >= 0) & (model.row_of < model.n_rows)
    return bool(is_state.all() and is_row.all())


def check_undiscounted_rows(model: Model) -> None:
    """Reject a discount; for an average also rows below 1, for both rows above 1."""
    excess = model.row_excess
    if model.criterion == "average":
        excess = np.abs(excess)
    if not (model.discount == 1 and (excess < AVERAGE_MAX_ROW_ERROR).all()):
        raise ValueError("its rows do not sum to 1, as those of an average or a total do")


def check_horizon(model: Model) -> None:
    """Reject a horizon whose periods do not advance time, the first axis, by one."""
    periods = model.shape[0]
    if periods != model.periods:
        raise ValueError("its first axis does not count the periods of its horizon")
    states_per_period = model.n_states // periods
    first = np.full(model.n_rows, periods)
    last = np.full(model.n_rows, -1)
    np.minimum.at(first, model.entry_row, model.indices // states_per_period)
    np.maximum.at(last, model.entry_row, model.indices // states_per_period)
    next_period = np.arange(model.n_states)[:, None] // states_per_period + 1
    row = model.row_of
    has_ended = model.row_lengths[row] == 0  # it may end sooner
    moves_on = (first[row] == next_period) & (last[row] == next_period)
    if not (moves_on | has_ended | (model.feasible == 0)).all():
        raise ValueError("a period of its horizon does not move time on by one")


def check_model(model: Model) -> None:
    """Reject arrays that are not those of a model."""
    if not ((model.feasible > 0).any(axis=1).all() and np.isfinite(model.reward).all()):
        raise ValueError("a state has no feasible action, or a reward is not finite")
    is_valid = (model.data >= 0).all() and model.discount >= 0
    if model.criterion in ("discounted", "horizon"):
        is_valid = is_valid and model.discounting.contraction_gap > 0
    if not is_valid:
        raise ValueError(
            "discount and probabilities are not those of a model that is discounted or ends"
        )
    if not (0 <= model.row_error < 1e-3 and 0 <= model.reward_error <= MAX_FLOAT):
        raise ValueError("its rows and rewards may be off by any amount")


def is_netcdf(path: str) -> bool:
    """Whether a regular file begins as netCDF files do."""
    read_file_size(path, MODEL_MAX_BYTES)
    with open(path, "rb") as file:
        return file.read(8).startswith(NETCDF_SIGNATURES)


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


def check_arrays_known(variables: dict) -> None:
    """Reject variables that a model file does not have, and text anywhere but on an axis."""
    for name, variable in variables.items():
        is_axis = name.startswith("grid/")
        if not (is_axis or name in MODEL_ARRAYS or name in OUTCOME_ARRAYS or name in END_ARRAYS):
            raise ValueError(f"it has an array {name!r}, which no model has")
        if not (getattr(variable.dtype, "kind", "") in "if" or (is_axis and variable.dtype is str)):
            raise ValueError(f"its array {name!r} holds neither numbers nor the labels of an axis")


def check_declared_sizes(variables: dict, size: int) -> None:
    """Reject arrays that declare more than a file of this size can hold, before any is read."""
    declared = 0
    for variable in variables.values():  # the whole is read, or one chunk where that is larger
        chunks = variable.chunking()
        chunk = 1 if chunks == "contiguous" else math.prod(chunks)
        declared += 8 * max(math.prod(variable.shape), chunk)
    limit = min(MAX_COMPRESSION_RATIO * size, MODEL_MAX_BYTES)
    if declared > limit:
        raise ValueError(f"it declares {declared:,} bytes of arrays where {limit:,} can be read")


def read_array(variable: Any, size: int) -> np.ndarray:
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
