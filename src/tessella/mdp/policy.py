"""A policy: which action each state of a grid gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid, unmasked


@dataclass(frozen=True, eq=False)
class Policy:
    """A deterministic stationary policy ``pi: states -> actions``.

    Attributes:
        grid: the states.
        actions: what the action indices stand for.
        table: (grid shape) action indices.
        rule: (n, d) points -> (n,) action indices, for points off the grid; without one, a point
            gets the action of the nearest grid state.
        size: how many numbers the policy stores; the table's length unless said otherwise.
        name: what made it.
    """

    grid: StateGrid
    actions: tuple
    table: NDArray[np.int32]
    rule: Callable[[NDArray], NDArray] | None = field(default=None, repr=False)
    size: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        table = checked_actions(self.table, self.grid, self.actions).copy()
        table.setflags(write=False)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "size", self.size or self.grid.size)

    def act(self, points: ArrayLike) -> NDArray[np.int32]:
        """(n, d) points in the axes' own values -> (n,) action indices."""
        points = np.atleast_2d(np.asarray(unmasked(points, "points"), dtype=float))
        nearest = self.grid.nearest(points)
        if self.rule is None:
            return self.table.ravel()[nearest]
        return np.asarray(unmasked(self.rule(points), "what a rule says"), dtype=np.int32)

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"Policy({name}{self.grid.size:,} states, {len(self.actions)} actions)"


def refuse_other(policy: Policy, grid: StateGrid, actions: tuple) -> None:
    """Refuse a policy of another grid or of other actions, which could pass for one of these."""
    if policy.grid != grid:
        raise ModelError(f"the policy is for {policy.grid}, the model has {grid}")
    if tuple(policy.actions) != tuple(actions):
        raise ModelError(f"the policy has actions {policy.actions}, the model {actions}")


def checked_actions(table: ArrayLike, grid: StateGrid, actions: tuple) -> NDArray[np.int32]:
    """``table`` as a grid-shaped array of action indices, or an error that says why not."""
    array = np.asarray(unmasked(table, "a policy"))
    if array.size != grid.size or array.shape not in (grid.shape, (grid.size,)):
        raise ModelError(f"a policy on this grid has shape {grid.shape}; got {array.shape}")
    array = array.reshape(grid.shape)
    whole = array.dtype.kind in "iub" or (
        array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all()
    )
    if not whole:
        raise ModelError(f"a policy holds action indices (whole numbers); got {array.dtype}")
    bad = np.flatnonzero((array < 0) | (array >= len(actions)))
    if bad.size:
        raise ModelError(
            f"action indices must lie in 0..{len(actions) - 1}",
            grid.describe(bad[0]),
            f"gets {array.ravel()[bad[0]]}",
            bad.size,
            grid.size,
            "states",
        )
    return array.astype(np.int32)
