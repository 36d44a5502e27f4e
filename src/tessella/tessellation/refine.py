"""How value and boundary move as cut points double.

A model with n cut points is built again with 2 n - 1 and 4 n - 3, which keep all points of the one
before. Each solution is exact for its own interpolated model; what is reported is how much one
differs from the next at the points that both have. Small and shrinking changes are evidence that
the cut points are dense enough, not a bound on the distance to a continuous model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, is_whole, raise_for_first, require_type
from tessella.mdp.model import MDP
from tessella.solvers.method import Method
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve
from tessella.support.text import align_columns
from tessella.tessellation.measure import Geometry, measure
from tessella.tessellation.tessellate import tessellate

COLUMN_TITLES = ("cut points", "states", "value moves by", "actions change", "boundary", "cells")


@dataclass(frozen=True, eq=False)
class Refinement:
    """Solutions with more and more cut points, L of them.

    Attributes:
        cuts: (L,) the numbers of cut points that the models were built with.
        solutions: (L,) their optima.
        geometries: (L,) the geometries of their policies.
        value_changes: (L - 1,) largest ``|V - V before|`` over the points of the one before.
        policy_changes: (L - 1,) share of those points whose action differs.
    """

    cuts: tuple[int, ...]
    solutions: tuple[Solution, ...]
    geometries: tuple[Geometry, ...]
    value_changes: tuple[float, ...]
    policy_changes: tuple[float, ...]

    def __str__(self) -> str:
        rows: list[list[str]] = [list(COLUMN_TITLES)]
        moved = [("-", "-"), *zip(self.value_changes, self.policy_changes, strict=True)]
        for cuts, geometry, (value, policy) in zip(self.cuts, self.geometries, moved, strict=True):
            changed = ("-", "-") if value == "-" else (f"{value:.3g}", f"{policy:.2%}")
            fraction = f"{geometry.boundary_fraction:.4f}"
            states = f"{geometry.tessellation.grid.size:,}"
            cells = f"{geometry.region_components:,}"
            rows.append([f"{cuts:,}", states, *changed, fraction, cells])
        lines = align_columns(rows, "r" * len(COLUMN_TITLES))
        return "\n".join([*lines, "changes from one to the next, not a bound on what remains"])


def refine(
    build: Callable[[int], MDP], cuts: int, *, levels: int = 3, method: Method | None = None
) -> Refinement:
    """Solve ``build(n)`` for n = ``cuts``, 2 n - 1, 4 n - 3, ..., and report what changes.

    Args:
        cuts: grid points of the first model.
        build: a model with n cut points along the axes that are refined; each model must have the
            points and the actions of the one before, as ``np.linspace(low, high, n)`` gives them.
        levels: how many models, at least 2.
        method: how each is solved, as in ``solve``.

    Returns:
        A table of the models, with how far values and actions change from one to the next.

    Raises:
        ArgumentError: a model lacks points or actions of the one before.

    Example:
        >>> def tank(n):
        ...     level = np.linspace(0.0, 4.0, n)
        ...     drain = ts.Decide("level", lambda level, release: level - release,
        ...                       pays=lambda release: release, between="interpolate", edge="clip")
        ...     rain = ts.Shift("level", ts.Noise("rain", [0.3, 0.7], [0.5, 0.5]),
        ...                     between="interpolate")
        ...     return ts.MDP.staged({"level": level}, (0.0, 0.6), 0.9, [drain, rain],
        ...                          action_name="release")
        ...
        >>> ts.refine(tank, 5, levels=2).cuts
        (5, 9)
    """
    for number, noun in ((cuts, "cut points"), (levels, "levels")):
        if not is_whole(number, 2):
            raise ArgumentError(f"refine needs at least 2 {noun}", value=f"got {number!r}")
    cut_counts = tuple(2**level * (cuts - 1) + 1 for level in range(levels))
    solutions: list[Solution] = []
    changes: list[tuple[float, float]] = []
    for n in cut_counts:
        mdp = build(n)
        require_type("refine", mdp, MDP)
        shared = _find_shared_points(solutions[-1].mdp, mdp) if solutions else ()
        solutions.append(solve(mdp, method))
        if shared:
            changes.append(_compare_at(np.ix_(*shared), *solutions[-2:]))
    geometries = tuple(measure(tessellate(solution)) for solution in solutions)
    value, policy = (tuple(column) for column in zip(*changes, strict=True))
    return Refinement(cut_counts, tuple(solutions), geometries, value, policy)


def _compare_at(shared: tuple, before: Solution, after: Solution) -> tuple[float, float]:
    """Largest change of a value, and share of changed actions, at the shared points."""
    value_change = float(np.abs(after.value[shared] - before.value).max())
    differs = after.policy.table[shared] != before.policy.table
    return value_change, float(differs.mean())


def _find_shared_points(coarse: MDP, fine: MDP) -> tuple[NDArray[np.int64], ...]:
    """For each axis, the positions of the points of ``coarse`` in ``fine``."""
    if coarse.grid.axes != fine.grid.axes or coarse.actions != fine.actions:
        raise ArgumentError("a refined model must keep the axes and actions of the one before")
    positions = []
    for axis, (name, values) in enumerate(zip(coarse.grid.axes, coarse.grid.values, strict=True)):
        position = fine.grid.locate(axis, values)
        raise_for_first(
            "a refined model must keep the points of the one before",
            position < 0,
            lambda i, name=name, values=values: f"{name}={values[i]}",
            lambda _: "is missing",
            "points",
            error=ArgumentError,
        )
        positions.append(position)
    return tuple(positions)
