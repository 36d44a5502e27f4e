"""Records of a certificate in JSON and back, each field as its annotation asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.interval import Interval, IntervalArray
from tessella.criteria import Discounted, read_criterion
from tessella.criteria.criterion import Criterion
from tessella.errors import FileError
from tessella.files import FIELD_CHECKS, NATURAL_NUMBER, NOT_NEGATIVE, is_finite, read_field
from tessella.grid import StateGrid
from tessella.mdp.actions import actions_from_json, normalise_actions
from tessella.mdp.policy import Policy, check_actions, read_grid

PLAIN_KINDS = {str: "text", bool: "true or false", int: NATURAL_NUMBER, float: NOT_NEGATIVE}

Record = TypeVar("Record")


def _require_finite(figure: float) -> float:
    if not np.isfinite(figure):
        raise FileError("every figure of a saved certificate is finite", value=f"got {figure}")
    return float(figure)


FILE_CONVERTERS = {
    Interval: lambda interval: [*map(_require_finite, interval.parts)],
    float: _require_finite,
    Criterion: lambda criterion: criterion.fingerprint_key(),
}


@dataclass(frozen=True, eq=False)
class AbsentTable:
    """The rule of a policy whose actions are not in the file of its certificate."""

    size: int

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.int32]:
        raise FileError("the file of a certificate in blocks does not state the policy's actions")


def read_policy(content: Mapping[str, Any], is_table_stated: bool) -> Policy:
    """The policy of a certificate; without its actions where the file does not state them."""
    policy = read_field(content, "policy", "an object")
    # An array over a product of several axes is nested, one over listed states is not.
    is_listed = is_table_stated and np.ndim(policy["table"]) < len(content["grid"])
    grid: StateGrid = read_grid(content, "grid", is_listed=is_listed)
    actions = normalise_actions(
        actions_from_json(read_field(content, "actions", "a list")), "action"
    )
    name = read_field(policy, "name", "text")
    size = read_field(policy, "size", NATURAL_NUMBER)
    if not is_table_stated:
        return Policy(grid, actions, AbsentTable(size), name)
    return Policy.from_table(grid, actions, np.array(policy["table"]), size=size, name=name)


@dataclass(frozen=True, eq=False)
class RecordReader:
    """Reads the records of a certificate of ``policy``."""

    policy: Policy

    def read(self, kind: type[Record], content: Mapping[str, Any]) -> Record:
        hints = get_type_hints(kind)
        names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
        return kind(**{name: self._read_field(hints[name], content, name) for name in names})

    def _read_field(self, hint: Any, content: Mapping[str, Any], name: str) -> Any:
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if NoneType in kinds and name in content and content[name] is None:
            return None
        if content.get(name) is None:
            raise FileError(f"the field {name!r} is needed", value="it is missing")
        return self._read_value(kinds[0], content, name)

    def _read_value(self, kind: Any, content: Mapping[str, Any], name: str) -> Any:
        if kind in PLAIN_KINDS:
            return kind(read_field(content, name, PLAIN_KINDS[kind]))
        if kind is Policy:
            return self.policy
        if kind in READERS:
            return READERS[kind](content, name)
        if kind is IntervalArray:
            return self._read_interval_array(content, name)
        if get_origin(kind) is tuple:
            parts = read_field(content, name, "a list")
            return tuple(self.read(get_args(kind)[0], part) for part in parts)
        if is_dataclass(kind):
            return self.read(kind, read_field(content, name, "an object"))  # type: ignore[arg-type]
        array = self._read_array(content[name], name)
        if kind == NDArray[np.int32]:
            return check_actions(array, self.policy.grid, self.policy.actions)
        return array

    def _read_interval_array(self, content: Mapping[str, Any], name: str) -> IntervalArray:
        parts = read_field(content, name, "an object")
        intervals = IntervalArray(
            *(self._read_array(parts[p], name) for p in ("value", "lower", "upper"))
        )
        if not ((intervals.lower <= intervals.value) & (intervals.value <= intervals.upper)).all():
            raise FileError(f"every value of {name!r} must lie between its ends")
        return intervals

    def _read_array(self, value: Any, name: str) -> np.ndarray:
        """Numbers by state, by action or by pairs of them; null is infinite."""
        array = np.asarray(value, dtype=object)
        n_actions = len(self.policy.actions)
        by_action = {"region": (n_actions,), "pair": (n_actions,) * 2, "face": (n_actions,) * 2}
        shape = by_action.get(name, self.policy.grid.shape)
        kind = "a number or null" if name == "margin" else "a number"
        if array.shape != shape or not all(map(FIELD_CHECKS[kind], array.ravel())):
            raise FileError(f"every entry of {name!r} must be {kind}, in shape {shape}")
        return np.where(array == None, np.inf, array).astype(float)  # noqa: E711 (elementwise)


def _read_weights(content: Mapping[str, Any], name: str) -> dict[str, float]:
    weights = read_field(content, name, "an object")
    return {key: float(read_field(weights, key, "a number")) for key in weights}


def _read_criterion(content: Mapping[str, Any], name: str) -> Criterion:
    """The criterion of this ``fingerprint_key``; a number is a discount."""
    key = content[name]
    return Discounted(key) if is_finite(key) else read_criterion(key)


def _read_interval(content: Mapping[str, Any], name: str) -> Interval:
    value = content[name]
    if not (isinstance(value, list) and len(value) == 3 and all(map(is_finite, value))):
        requirement = f"{name!r} must be [value, lower, upper]"
        raise FileError(requirement, value=f"got {value!r:.60}")
    return Interval(*value)


READERS: dict[Any, Callable[[Mapping[str, Any], str], Any]] = {
    Criterion: _read_criterion,
    Interval: _read_interval,
    dict[str, float]: _read_weights,
}
