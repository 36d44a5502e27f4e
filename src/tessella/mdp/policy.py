"""A policy: a function from states to actions.

    pi: points -> actions

A policy is a *rule* first: it is evaluated at points, in the axes' own values. Its table over the
grid is computed on demand, a chunk of states at a time, so that a rule for a billion states holds
no more than its own numbers. ``size`` says how much it stores, by its own count:
weights, entries of a table, observations, trees; for objects of other libraries, their file in
numbers of eight bytes. The result of a rule is checked: it must be the index of an action.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Number
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import FileError, PolicyError, raise_for_first
from tessella.files import NATURAL_NUMBER, read_field, read_json, wrap_read_errors, write_json
from tessella.grid import StateGrid, read_points, require_unmasked
from tessella.mdp.actions import (
    actions_from_json,
    actions_to_array,
    actions_to_json,
    normalise_actions,
)
from tessella.mdp.rule_tree import RuleTree, check_rule_tree, node_from_json
from tessella.numerics import host_fields, with_host_arrays

FORMAT = "tessella policy"
VERSION = 1  # of the file format
FILE_SUBJECT = "a saved policy"
PROGRAM_FORMAT = "tessella rule"  # of the same version: a policy that is saved as a rule tree
CHUNK_STATES = 1 << 18  # states at which a rule is evaluated at once

PolicyType = TypeVar("PolicyType", bound="Policy")


@runtime_checkable
class DecisionFunction(Protocol):
    """A function of (n, d) points in the axes' own values that returns (n,) action indices."""

    @property
    def size(self) -> int:
        """How much it stores, as it counts that itself."""
        ...

    def __call__(self, points: NDArray[np.float64]) -> NDArray: ...


@with_host_arrays("actions")
@dataclass(frozen=True, eq=False)
class TableRule:
    """A rule that stores the action of every state. Off the grid, the nearest state's.

    Attributes:
        actions: (grid shape) action indices.
        source_size: the size of the rule that the table was computed from; None if it is all.
    """

    grid: StateGrid
    actions: NDArray[np.int32]
    source_size: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return host_fields(self)

    @property
    def size(self) -> int:
        return self.grid.size if self.source_size is None else self.source_size

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.int32]:
        return self.actions.ravel()[self.grid.nearest(points)]


@dataclass(frozen=True, eq=False)
class Policy:
    """A deterministic stationary policy ``pi: states -> actions``.

    Attributes:
        grid: the states.
        actions: the meaning of the action indices.
        rule: what decides. Off the grid, a `TableRule` takes the action of the nearest grid state,
            axis by axis; any other rule is evaluated at the point itself.
        name: what computed it.
        action_name: what an action is called: ``order``.
        chunk_states: states at which the rule is evaluated at once.

    Example:
        >>> grid = ts.StateGrid(stock=range(5))
        >>> policy = ts.Policy.from_table(grid, (0, 10), [1, 1, 0, 0, 0], action_name="order")
        >>> policy.decide([[0], [3]])
        array([10,  0])
    """

    grid: StateGrid
    actions: tuple
    rule: DecisionFunction = field(repr=False)
    name: str = ""
    action_name: str = "action"
    chunk_states: int = field(default=CHUNK_STATES, repr=False, kw_only=True)

    @classmethod
    def from_table(
        cls: type[PolicyType],
        grid: StateGrid,
        actions: Sequence,
        table: ArrayLike,
        *,
        size: int | None = None,
        **metadata,
    ) -> PolicyType:
        """A policy that is a table of action indices, in the grid's shape or flat.

        ``size`` is that of the rule that the table was made from; None if the table is all.
        """
        actions_by_state = check_actions(table, grid, tuple(actions)).copy()
        actions_by_state.setflags(write=False)
        return cls(grid, tuple(actions), TableRule(grid, actions_by_state, size), **metadata)

    @property
    def size(self) -> int:
        """How much it stores, as it counts that itself."""
        return self.rule.size

    def act(self, points: ArrayLike) -> NDArray[np.int32]:
        """(n, d) points in the axes' own values -> (n,) action indices; for ``decide`` values.

        Points may lie anywhere. Off the grid a `TableRule` takes the action of the nearest grid
        state, axis by axis; any other rule is evaluated at the point itself, where no model says
        what is feasible.
        """
        return self._evaluate_rule(read_points(self.grid, points))

    def decide(self, points: ArrayLike) -> NDArray:
        """(n, d) points -> (n,) what to do: the actions' own values or names.

        Actions of several components are records: ``policy.decide(points)["fast"]``.
        """
        return actions_to_array(self.actions)[self.act(points)]

    def at(self, states: NDArray[np.integer]) -> NDArray[np.int32]:
        """(n,) action indices of the states with these flat indices.

        A rule for more states than a chunk is evaluated at these alone; else the table is kept.
        """
        if (
            isinstance(self.rule, TableRule)
            or "table" in vars(self)
            or self.grid.size <= self.chunk_states
        ):
            return self.table.ravel()[states]
        return self._evaluate_rule(self.grid.points_of(states))

    def iter_chunks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Flat indices and actions of all states in flat order, a chunk at a time."""
        for first in range(0, self.grid.size, self.chunk_states):
            states = np.arange(first, min(first + self.chunk_states, self.grid.size))
            yield states, self.at(states)

    def _evaluate_rule(self, points: NDArray[np.float64]) -> NDArray[np.int32]:
        """(n,) action indices of the rule, checked."""
        actions = np.asarray(
            require_unmasked(self.rule(points), "the actions of a rule", error=PolicyError)
        )
        if actions.shape != (len(points),):
            requirement = f"a rule must name one action for each of {len(points):,} points"
            raise PolicyError(requirement, value=f"its answer has shape {actions.shape}")
        return _as_indices(
            actions, self.actions, lambda i: self.grid.describe_point(points[i]), "points"
        )

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """(grid shape) action indices."""
        if isinstance(self.rule, TableRule):
            return self.rule.actions
        chunks = self.grid.iterate_chunks(self.chunk_states)
        table = np.concatenate([self._evaluate_rule(points) for points in chunks])
        table = table.reshape(self.grid.shape)
        table.setflags(write=False)
        return table

    def with_name(self: PolicyType, name: str) -> PolicyType:
        """The same under another name; its table is not computed again."""
        policy = replace(self, name=name)
        if "table" in vars(self):
            vars(policy)["table"] = self.table
        return policy

    @property
    def decisions(self) -> NDArray:
        """(grid shape) what to do in each state: the actions' own values, names or records."""
        return actions_to_array(self.actions)[self.table]

    def save(self, path: str | Path) -> None:
        """Write the table with axes, actions, name and size as JSON, for ``Policy.load``."""
        metadata = {"format": FORMAT, "version": VERSION, "name": self.name, "size": self.size}
        metadata |= {
            "action_name": self.action_name,
            "actions": actions_to_json(self.actions),
            **grid_to_json(self.grid),
        }
        write_json(path, metadata | {"table": self.table.ravel().tolist()})

    @staticmethod
    def load(path: str | Path) -> Policy:
        """A policy that ``save`` wrote: its table, with the name and size of the original.

        Of a rule of ``compress``, its tree; ``Rule.load`` reads the whole rule.
        """
        content = read_json(path, FILE_SUBJECT)
        with wrap_read_errors(path, FILE_SUBJECT):
            metadata, size = read_policy_fields(content, (FORMAT, PROGRAM_FORMAT))
            if content["format"] == PROGRAM_FORMAT:
                return Policy(
                    rule=read_rule_tree(content, metadata["grid"], metadata["actions"]), **metadata
                )
            return Policy.from_table(
                table=read_field(content, "table", "a list"), size=size, **metadata
            )

    def to_csv(self, path: str | Path) -> None:
        """Write a row for each state: its coordinates, and what to do. ``certify`` reads it."""
        from tessella.mdp.policy_table import write_table

        write_table(self, Path(path))

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        sizes = f"{self.grid.size:,} states, {len(self.actions)} actions"
        return f"{type(self).__name__}({name}{sizes}, size {self.size:,})"


def read_policy_fields(
    content: Mapping[str, Any], formats: tuple[str, ...]
) -> tuple[dict[str, Any], int]:
    """Grid, actions and names of a policy in a file of one of these formats, and its size."""
    kind = content.get("format")
    version = content.get("version")
    if kind not in formats or version != VERSION:
        requirement = f"it must have format {' or '.join(map(repr, formats))}, version {VERSION}"
        raise FileError(requirement, value=f"got {kind!r}, version {version!r}")
    metadata = {name: read_field(content, name, "text") for name in ("name", "action_name")}
    is_listed = "states_listed" in content and read_field(content, "states_listed", "true or false")
    metadata["grid"] = read_grid(content, "axes", is_listed=is_listed)
    given = actions_from_json(read_field(content, "actions", "a list"))
    metadata["actions"] = normalise_actions(given, metadata["action_name"])
    return metadata, read_field(content, "size", NATURAL_NUMBER)


def grid_to_json(grid: StateGrid) -> dict[str, Any]:
    """The axes of a policy, and a field that says whether states are listed, if they are.

    Then an axis has the value of each state instead of its own values.
    """
    columns = {axis: values.tolist() for axis, values in grid.columns.items()}
    return {"axes": columns} | ({"states_listed": True} if grid.is_listed else {})


def read_grid(content: Mapping[str, Any], name: str, *, is_listed: bool) -> StateGrid:
    """The grid in a field of a file."""
    axes = read_field(content, name, "an object")
    columns = {axis: read_field(axes, axis, "a list") for axis in axes}
    return StateGrid.from_states(columns) if is_listed else StateGrid(columns)


def read_rule_tree(content: Mapping[str, Any], grid: StateGrid, actions: tuple) -> RuleTree:
    """The rule tree in a file, every node of it checked."""
    root = node_from_json(read_field(content, "program", "an object"))
    tree = RuleTree(grid, root, read_field(content, "size", NATURAL_NUMBER))
    check_rule_tree(tree, len(actions))
    return tree


def require_same_model(policy: Policy, grid: StateGrid, actions: tuple) -> None:
    """Raise an error for a policy of another grid or of other actions."""
    if policy.grid != grid:
        raise PolicyError(f"the policy is for {policy.grid}, the model has {grid}")
    if tuple(policy.actions) != tuple(actions):
        raise PolicyError(f"the policy has actions {policy.actions}, the model {actions}")


def check_actions(table: ArrayLike, grid: StateGrid, actions: tuple) -> NDArray[np.int32]:
    """``table`` as a grid-shaped array of action indices, or an error that says why not."""
    array = np.asarray(require_unmasked(table, "a policy", error=PolicyError))
    if array.size != grid.size or array.shape not in (grid.shape, (grid.size,)):
        raise PolicyError(
            f"a policy on this grid has shape {grid.shape}", value=f"got {array.shape}"
        )
    return _as_indices(array.ravel(), actions, grid.describe, "states").reshape(grid.shape)


def _as_indices(
    values: NDArray, actions: tuple, describe: Callable[[int], str], noun: str
) -> NDArray[np.int32]:
    """(n,) ``values`` as action indices; ``describe`` names the place of the i-th."""
    are_whole = values.dtype.kind in "iub" or (
        values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.rint(values)).all()
    )
    if not are_whole:
        raise PolicyError(
            "a policy holds action indices (whole numbers)", value=f"got {values.dtype}"
        )
    raise_for_first(
        f"action indices must lie in 0..{len(actions) - 1}",
        (values < 0) | (values >= len(actions)),
        describe,
        lambda row: f"gets {values[row]}",
        noun,
        error=PolicyError,
    )
    return values.astype(np.int32)


def measure_storage(thing: Any) -> int:
    """The size of a file of ``thing``, in numbers of eight bytes.

    For a plain function: its code, and the numbers that it contains or refers to.
    """
    if isinstance(thing, FunctionType):
        return _measure_function(thing, {thing})
    return _count_eight_byte_numbers(len(pickle.dumps(thing)))


def _count_eight_byte_numbers(count: int) -> int:
    return -(-count // 8)


def _measure_function(function: FunctionType, seen: set[FunctionType]) -> int:
    captured = inspect.getclosurevars(function)
    captured_values = {**captured.nonlocals, **captured.globals}
    own_parts = [function.__code__, function.__defaults__, function.__kwdefaults__]
    return sum(
        _measure_part(part, function.__module__, seen)
        for part in (*own_parts, *captured_values.values())
    )


def _measure_part(part: Any, module: str, seen: set[FunctionType]) -> int:
    """Numbers in a part of a function, without functions of other modules."""
    if isinstance(part, CodeType):
        constants = _measure_part(part.co_consts, module, seen)
        return _count_eight_byte_numbers(len(part.co_code)) + constants
    if isinstance(part, FunctionType):
        if part in seen or part.__module__ != module:
            return 0
        seen.add(part)  # it counts once
        return _measure_function(part, seen)
    if isinstance(part, str | None) or hasattr(part, "__name__"):
        return 0
    if isinstance(part, Number | np.ndarray):
        return int(np.size(part))  # type: ignore[arg-type]
    values = part.values() if isinstance(part, Mapping) else part
    if isinstance(values, Iterable) and not hasattr(values, "__dict__"):
        return sum(_measure_part(value, module, seen) for value in values)
    return measure_storage(part)
