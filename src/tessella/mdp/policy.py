"""A policy: something that decides.

    pi: points -> actions

A policy is a *rule* first: it is asked about points, in the axes' own values. Its table over the
grid is computed when asked for, a slab of states at a time, so that a rule for a billion states
holds no more than its own numbers. ``size`` says how much it stores, as it counts that itself:
weights, entries of a table, observations, trees; of what others wrote, its file in numbers of eight
bytes. Whatever a rule says is checked: it must be the index of an action.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, FileError, PolicyError
from tessella.files import WHOLE, read_json, reading, stated, writing
from tessella.grid import StateGrid, unmasked
from tessella.mdp.actions import as_json, checked, from_json, values_of
from tessella.mdp.program import Program, check_program, node_from_json
from tessella.mdp.pulled import in_numpy, pulls

FORMAT, VERSION = "tessella policy", 1
WHAT = "a saved policy"
PROGRAM_FORMAT = "tessella rule"  # of the same version: a policy that is saved as its program
SLAB = 1 << 18  # states whose actions are asked for at once

Own = TypeVar("Own", bound="Policy")


@runtime_checkable
class Decider(Protocol):
    """What decides: (n, d) points in the axes' own values -> (n,) action indices."""

    @property
    def size(self) -> int:
        """How much it stores, as it counts that itself."""
        ...

    def __call__(self, points: NDArray[np.float64]) -> NDArray: ...


@pulls("actions")
@dataclass(frozen=True, eq=False)
class Table:
    """A rule that stores the action of every state. Off the grid, the nearest state's.

    Attributes:
        actions: (grid shape) action indices.
        stored: the size of the rule that the table was made from; None if the table is all.
    """

    grid: StateGrid
    actions: NDArray[np.int32]
    stored: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return in_numpy(self)

    @property
    def size(self) -> int:
        return self.grid.size if self.stored is None else self.stored

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.int32]:
        return self.actions.ravel()[self.grid.nearest(points)]


@dataclass(frozen=True, eq=False)
class Policy:
    """A deterministic stationary policy ``pi: states -> actions``.

    Attributes:
        grid: the states.
        actions: what the action indices stand for.
        rule: what decides. Off the grid, a `Table` takes the action of the nearest grid state, axis
            by axis; any other rule is asked about the point itself.
        name: what made it.
        action_name: what an action is called: ``order``.
    """

    grid: StateGrid
    actions: tuple
    rule: Decider = field(repr=False)
    name: str = ""
    action_name: str = "action"

    @classmethod
    def of(
        cls: type[Own],
        grid: StateGrid,
        actions: Sequence,
        table: ArrayLike,
        *,
        size: int | None = None,
        **about,
    ) -> Own:
        """A policy that is a table of action indices, in the grid's shape or flat.

        ``size`` is that of the rule that the table was made from; None if the table is all.
        """
        chosen = checked_actions(table, grid, tuple(actions)).copy()
        chosen.setflags(write=False)
        return cls(grid, tuple(actions), Table(grid, chosen, size), **about)

    @property
    def size(self) -> int:
        """How much it stores, as it counts that itself."""
        return self.rule.size

    def act(self, points: ArrayLike) -> NDArray[np.int32]:
        """(n, d) points in the axes' own values -> (n,) action indices; for ``decide`` values.

        Points may lie anywhere. Off the grid a `Table` takes the action of the nearest grid state,
        axis by axis; any other rule is asked about the point itself, where no model says what is
        feasible.
        """
        points = np.atleast_2d(
            np.asarray(unmasked(points, "points", error=ArgumentError), dtype=float)
        )
        self.grid.nearest(points)  # refuses what is no point
        return self._asked(points)

    def decide(self, points: ArrayLike) -> NDArray:
        """(n, d) points -> (n,) what to do: the actions' own values or names.

        Actions of several components are records: ``policy.decide(points)["fast"]``.
        """
        return values_of(self.actions)[self.act(points)]

    def at(self, states: NDArray[np.integer]) -> NDArray[np.int32]:
        """(n,) action indices of the states with these flat indices.

        A rule for more states than a slab is asked about these alone; of others the table is kept.
        """
        if isinstance(self.rule, Table) or "table" in vars(self) or self.grid.size <= SLAB:
            return self.table.ravel()[states]
        return self._asked(self.grid.points_of(states))

    def by_slabs(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Flat indices and actions of all states in flat order, a slab at a time."""
        for first in range(0, self.grid.size, SLAB):
            states = np.arange(first, min(first + SLAB, self.grid.size))
            yield states, self.at(states)

    def _asked(self, points: NDArray[np.float64]) -> NDArray[np.int32]:
        """(n,) what the rule says, checked."""
        said = np.asarray(unmasked(self.rule(points), "what a rule says", error=PolicyError))
        if said.shape != (len(points),):
            rule = f"a rule must name one action for each of {len(points):,} points"
            raise PolicyError(rule, value=f"its answer has shape {said.shape}")
        return _indices(said, self.actions, lambda i: self.grid.describe_point(points[i]), "points")

    @cached_property
    def table(self) -> NDArray[np.int32]:
        """(grid shape) action indices."""
        if isinstance(self.rule, Table):
            return self.rule.actions
        table = np.concatenate([self._asked(points) for points in slabs(self.grid)])
        table = table.reshape(self.grid.shape)
        table.setflags(write=False)
        return table

    def called(self: Own, name: str) -> Own:
        """The same under another name; its table, where there is one, need not be made again."""
        made = replace(self, name=name)
        if "table" in vars(self):
            vars(made)["table"] = self.table
        return made

    @property
    def decisions(self) -> NDArray:
        """(grid shape) what to do in each state: the actions' own values, names or records."""
        return values_of(self.actions)[self.table]

    def save(self, path: str | Path) -> None:
        """Write the table with axes, actions, name and size as JSON, for ``Policy.load``."""
        axes = {n: v.tolist() for n, v in zip(self.grid.axes, self.grid.values, strict=True)}
        about = {"format": FORMAT, "version": VERSION, "name": self.name, "size": self.size}
        about |= {"action_name": self.action_name, "actions": as_json(self.actions), "axes": axes}
        text = json.dumps(about | {"table": self.table.ravel().tolist()}) + "\n"
        with writing(path) as part:
            part.write_text(text, encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Policy:
        """A policy that ``save`` wrote: its table, under the name and size of what made it.

        Of a rule that ``compress`` made, its program; ``Rule.load`` reads all that is known of it.
        """
        content = read_json(path, WHAT)
        with reading(path, WHAT):
            about, size = policy_fields(content, (FORMAT, PROGRAM_FORMAT))
            if content["format"] == PROGRAM_FORMAT:
                return Policy(rule=read_program(content, about["grid"], about["actions"]), **about)
            return Policy.of(table=stated(content, "table", "a list"), size=size, **about)

    def to_csv(self, path: str | Path) -> None:
        """Write a row for each state: its coordinates, and what to do. ``certify`` reads it."""
        from tessella.mdp.policy_table import write_table

        write_table(self, Path(path))

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        sizes = f"{self.grid.size:,} states, {len(self.actions)} actions"
        return f"{type(self).__name__}({name}{sizes}, size {self.size:,})"


def policy_fields(
    content: Mapping[str, Any], formats: tuple[str, ...]
) -> tuple[dict[str, Any], int]:
    """Grid, actions and names of a policy in a file of one of these formats, and its size."""
    kind, version = content.get("format"), content.get("version")
    if kind not in formats or version != VERSION:
        rule = f"it must have format {' or '.join(map(repr, formats))}, version {VERSION}"
        raise FileError(rule, value=f"got {kind!r}, version {version!r}")
    about = {name: stated(content, name, "text") for name in ("name", "action_name")}
    about["grid"] = read_grid(content, "axes")
    given = from_json(stated(content, "actions", "a list"))
    about["actions"] = checked(given, about["action_name"])
    return about, stated(content, "size", WHOLE)


def read_grid(content: Mapping[str, Any], name: str) -> StateGrid:
    """The grid in a field of a file."""
    axes = stated(content, name, "an object")
    return StateGrid({axis: stated(axes, axis, "a list") for axis in axes})


def read_program(content: Mapping[str, Any], grid: StateGrid, actions: tuple) -> Program:
    """The program in a file, every node of it checked."""
    root = node_from_json(stated(content, "program", "an object"))
    program = Program(grid, root, stated(content, "size", WHOLE))
    check_program(program, len(actions))
    return program


def slabs(grid: StateGrid) -> Iterator[NDArray[np.float64]]:
    """(n, d) points of all states in flat order, as many at a time as a rule is asked about."""
    return grid.slabs(SLAB)


def refuse_other(policy: Policy, grid: StateGrid, actions: tuple) -> None:
    """Refuse a policy of another grid or of other actions, which could pass for one of these."""
    if policy.grid != grid:
        raise PolicyError(f"the policy is for {policy.grid}, the model has {grid}")
    if tuple(policy.actions) != tuple(actions):
        raise PolicyError(f"the policy has actions {policy.actions}, the model {actions}")


def checked_actions(table: ArrayLike, grid: StateGrid, actions: tuple) -> NDArray[np.int32]:
    """``table`` as a grid-shaped array of action indices, or an error that says why not."""
    array = np.asarray(unmasked(table, "a policy", error=PolicyError))
    if array.size != grid.size or array.shape not in (grid.shape, (grid.size,)):
        raise PolicyError(
            f"a policy on this grid has shape {grid.shape}", value=f"got {array.shape}"
        )
    return _indices(array.ravel(), actions, grid.describe, "states").reshape(grid.shape)


def _indices(
    said: NDArray, actions: tuple, describe: Callable[[int], str], noun: str
) -> NDArray[np.int32]:
    """(n,) ``said`` as action indices; ``describe`` names the place of the i-th."""
    whole = said.dtype.kind in "iub" or (
        said.dtype.kind == "f" and np.isfinite(said).all() and (said == np.rint(said)).all()
    )
    if not whole:
        raise PolicyError(
            "a policy holds action indices (whole numbers)", value=f"got {said.dtype}"
        )
    bad = np.flatnonzero((said < 0) | (said >= len(actions)))
    if bad.size:
        raise PolicyError(
            f"action indices must lie in 0..{len(actions) - 1}",
            place=describe(int(bad[0])),
            value=f"gets {said[bad[0]]}",
            count=bad.size,
            total=said.size,
            noun=noun,
        )
    return said.astype(np.int32)
