"""The actions of a model: numbers, names, or combinations of named components.

``actions={"fast": range(11), "slow": range(11)}`` means 121 actions, one for each combination, the
last component varying fastest. A combination is a tuple of values with names; arrays of
them are records, with a field for each component.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, format_value
from tessella.grid import describe_coordinates, require_ordered, require_unreserved, to_plain_values

Actions = Sequence | Mapping[str, Sequence]  # what a user may give


class VectorAction(tuple):
    """An action of several components: ``action["fast"]``, or by position like any tuple."""

    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str], values: Iterable) -> VectorAction:
        combination = super().__new__(cls, values)
        combination.names = tuple(names)
        return combination

    @property
    def record(self) -> dict[str, Any]:
        """Component name to value."""
        return dict(zip(self.names, self, strict=True))

    def __getitem__(self, key: Any) -> Any:
        return self.record[key] if isinstance(key, str) else super().__getitem__(key)

    def __eq__(self, other: object) -> bool:
        # A tuple without names, as in a file of numbers, is compared by its values alone.
        has_same_names = self.names == getattr(other, "names", self.names)
        return has_same_names and super().__eq__(other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorAction, (self.names, tuple(self))

    def __str__(self) -> str:
        return describe_coordinates(self.record)

    def __repr__(self) -> str:
        return f"({self})"


def as_action_list(actions: Any) -> Any:
    """``actions`` as a tuple, where they are iterable.

    A mapping of components to values becomes all combinations, and a mapping in a list becomes one.
    """
    require_ordered(actions, "actions")
    if isinstance(actions, Mapping):
        return _expand_combinations(actions)
    if isinstance(actions, str) or not isinstance(actions, Iterable):
        return actions
    return tuple(VectorAction(a, a.values()) if isinstance(a, Mapping) else a for a in actions)


def normalise_actions(actions: Any, action_name: str) -> tuple:
    """``actions`` as a tuple of distinct Python values or ``VectorAction``, checked."""
    given = as_action_list(actions)
    names = _check_component_names(given)
    if names:
        columns = zip(*given, strict=True)
        for name, values in zip(names, columns, strict=True):
            _require_finite(values, f"component {name!r} of the actions")
        normalised = tuple(VectorAction(names, map(_to_python_scalar, action)) for action in given)
    else:
        _require_finite(given, "actions")
        normalised = tuple(map(_to_python_scalar, given))
    if not normalised:
        raise ModelError("a model needs at least one action")
    if len(set(normalised)) < len(normalised):
        repeated, count = Counter(normalised).most_common(1)[0]
        raise ModelError(
            "actions must differ from one another",
            location=describe_action(action_name, repeated),
            value=f"occurs {count} times",
        )
    return normalised


def component_names(actions: Sequence) -> tuple[str, ...]:
    """Names of the components; none where actions are plain numbers or names."""
    return actions[0].names if isinstance(actions[0], VectorAction) else ()


def actions_to_array(actions: Sequence) -> NDArray:
    """(A,) actions as numbers or text, or as records with a field for each component."""
    names = component_names(actions)
    if not names:
        return np.asarray(actions)
    return combine_columns(
        dict(zip(names, map(np.asarray, zip(*actions, strict=True)), strict=True))
    )


def combine_columns(columns: Mapping[str, NDArray]) -> NDArray:
    """Arrays by name, broadcast to one shape, as one array of records."""
    shape = np.broadcast_shapes(*(np.shape(values) for values in columns.values()))
    records = np.empty(shape, [(name, np.asarray(v).dtype) for name, v in columns.items()])
    for name, values in columns.items():
        records[name] = values
    return records


def describe_action(action_name: str, action: Any, separator: str = "=") -> str:
    """``order=8``, or ``fast=3, slow=5``."""
    if isinstance(action, VectorAction):
        return str(action)
    return f"{action_name}{separator}{format_value(action)}"


def format_action(action_name: str, action: Any) -> str:
    """``order 8``, or ``fast=3, slow=5``."""
    return describe_action(action_name, action, separator=" ")


def actions_to_json(actions: Sequence) -> list:
    """Actions as files hold them; ``actions_from_json`` reads them back."""
    return [a.record if isinstance(a, VectorAction) else a for a in actions]


def actions_from_json(actions: Any) -> tuple:
    if not isinstance(actions, list):  # a mapping would become all combinations
        raise ModelError("the actions of a file must be a list", value=f"got {actions!r:.60}")
    return tuple(as_action_list(actions))


def _expand_combinations(components: Mapping[str, Iterable]) -> tuple[VectorAction, ...]:
    columns = []
    for name, values in components.items():
        require_ordered(values, f"component {name!r} of the actions")
        if isinstance(values, Iterable) and not isinstance(values, str):
            values = [*values]
        if not to_plain_values(values, f"component {name!r} of the actions").size:
            requirement = "a component of the actions needs at least one value"
            raise ModelError(requirement, location=str(name), value="has none")
        columns.append(values)
    if not columns:
        return ()
    return tuple(VectorAction(components, values) for values in product(*columns))


def _check_component_names(given: Any) -> tuple[str, ...]:
    """Names of the components of all actions; an error where they do not agree."""
    if not isinstance(given, tuple) or not given:
        return ()
    names = component_names(given)
    for action in given:
        if isinstance(action, tuple) and not isinstance(action, VectorAction):
            example = "{'a': range(3), 'b': range(3)}"
            requirement = f"actions of several parts must name them, as in {example}"
            raise ModelError(requirement, value=f"got {action!r}")
        if getattr(action, "names", ()) != names:
            known = ", ".join(names) or "or none"
            requirement = f"all actions must have the same components, {known}"
            raise ModelError(requirement, value=f"got {action!r}")
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            requirement = "the name of a component must be an identifier"
            raise ModelError(requirement, value=f"got {name!r}")
        require_unreserved(name, "a component of the actions")
    return names


def _require_finite(values: Any, subject: str) -> None:
    array = to_plain_values(values, subject)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelError(f"{subject} must be finite", value=f"got {array[~np.isfinite(array)][0]}")


def _to_python_scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
