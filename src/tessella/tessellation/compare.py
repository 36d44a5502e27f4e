"""How two policies on one grid differ.

    disagreement   sum of mu(s) over states with pi_a(s) != pi_b(s)
    confusion      M[i, j] = mu{s : pi_a(s) = i, pi_b(s) = j}, so disagreement = 1 - trace M
    displacement   for each face of one policy, the distance from its midpoint to the nearest face
                   midpoint of the other, in grid steps; the largest one is the Hausdorff distance

mu is the occupancy if one is given, else uniform. A straight boundary moved by k steps is
displaced by k. The distance to a policy without faces is infinite, unless both have none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, raise_for_first
from tessella.rounding import round_up
from tessella.tessellation.tessellate import Tessellation, require_all_states, tessellate

if TYPE_CHECKING:
    from tessella.solvers.policy_evaluation import Occupancy


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two policies on one grid. ``A`` actions.

    Attributes:
        a: the reference.
        b: the other.
        disagreement: share of states, or of occupancy, where the actions differ.
        where: (grid shape) whether they differ.
        confusion: (A, A) share of each pair of actions, rows from ``a`` and columns from ``b``.
        displacement: mean distance between the boundaries, over the faces of both.
        worst_displacement: largest distance.
        worse: (grid shape) whether they differ and the action of ``b`` is surely worse than the
            best; the same as ``where`` if ``a`` was a tessellation, which has no values.
    """

    a: Tessellation = field(repr=False)
    b: Tessellation = field(repr=False)
    disagreement: float
    where: NDArray[np.bool_] = field(repr=False)
    confusion: NDArray[np.float64] = field(repr=False)
    displacement: float
    worst_displacement: float
    worse: NDArray[np.bool_] = field(repr=False)

    def __str__(self) -> str:
        return (
            f"Comparison: {np.count_nonzero(self.where):,} of {self.where.size:,} states differ, "
            f"{self.disagreement:.2%} by weight\n"
            f"boundary moved by {self.displacement:.3g} steps on average, "
            f"{round_up(self.worst_displacement)} at most"
        )


def compare(a: Any, b: Any, occupancy: Occupancy | ArrayLike | None = None) -> Comparison:
    """Compare policy ``b`` with the reference ``a``.

    Args:
        a: the reference: a tessellation, or a solution.
        b: the other, on the same grid with the same actions: a tessellation; or, if ``a`` is a
            solution, anything that ``tessella.as_policy`` reads.
        occupancy: a result of `occupancy`, or (grid shape) non-negative weights of the states, to
            be normalised. They weigh shares directly, and each face by its two states.

    Returns:
        Which states differ, by which actions, and how far the boundary moved.

    Raises:
        ArgumentError: grids or actions differ.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> ts.compare(solution, lambda queue: 1 * (queue < 20)).disagreement < 0.3
        True
    """
    solution = a
    a, b = _as_tessellations(a, b)
    require_all_states("compare", a)
    weight = _normalise_weights(a, occupancy)
    n = len(a.actions)
    pair = a.table.ravel().astype(np.int64) * n + b.table.ravel()
    confusion = np.bincount(pair, weight, minlength=n * n).astype(float).reshape(n, n)
    faces = [np.concatenate([t.face_states(axis) for axis in range(t.grid.ndim)]) for t in (a, b)]
    middles = [np.stack(np.unravel_index(f, a.grid.shape), axis=-1).mean(axis=1) for f in faces]
    distances = [_compute_distances(*middles), _compute_distances(*reversed(middles))]
    face_weights = weight[np.concatenate(faces)].sum(axis=1)
    mean, worst = _summarise_distances(np.concatenate(distances), face_weights)
    where = a.table != b.table
    where.setflags(write=False)
    return Comparison(
        a=a,
        b=b,
        disagreement=float(confusion.sum() - confusion.trace()),
        where=where,
        confusion=confusion,
        displacement=mean,
        worst_displacement=worst,
        worse=where if solution is a else where & ~solution.ties(b.table),
    )


def _as_tessellations(a: Any, b: Any) -> tuple[Tessellation, Tessellation]:
    """Both policies as tessellations of one grid."""
    solution = a
    if not isinstance(a, Tessellation):
        if not hasattr(a, "mdp"):
            requirement = "compare takes two tessellations, or a solution and a policy"
            raise ArgumentError(requirement, location="a", value=f"is a {type(a).__name__}")
        a = tessellate(a)
    if not isinstance(b, Tessellation):
        if solution is a:
            requirement = (
                "compare takes a tessellation and a second one, which tessellate(...) returns"
            )
            raise ArgumentError(requirement, location="b", value=f"is a {type(b).__name__}")
        b = tessellate(solution, b)
    if a.grid != b.grid or a.actions != b.actions:
        raise ArgumentError("only policies on one grid with the same actions can be compared")
    return a, b


def _normalise_weights(
    a: Tessellation, occupancy: Occupancy | ArrayLike | None
) -> NDArray[np.float64]:
    """(n_states,) weights that sum to one."""
    if occupancy is None:
        return np.full(a.grid.size, 1 / a.grid.size)
    weight = np.asarray(getattr(occupancy, "share", occupancy), dtype=float)
    if weight.shape not in (a.grid.shape, (a.grid.size,)):
        raise ArgumentError(
            f"an occupancy on this grid has shape {a.grid.shape}", value=f"got {weight.shape}"
        )
    weight = weight.ravel()
    raise_for_first(
        "occupancies must be finite and not negative",
        ~(weight >= 0) | np.isinf(weight),
        a.grid.describe,
        lambda state: f"has {weight[state]}",
        "states",
        error=ArgumentError,
    )
    if not weight.sum() > 0:
        raise ArgumentError("an occupancy must be positive somewhere")
    return weight / weight.sum()


def _compute_distances(points: NDArray, others: NDArray) -> NDArray[np.float64]:
    """From each point to the nearest of the others."""
    if len(points) == 0 or len(others) == 0:
        return np.full(len(points), np.inf)
    return scipy.spatial.KDTree(others).query(points)[0]


def _summarise_distances(distance: NDArray, weight: NDArray) -> tuple[float, float]:
    visited = weight > 0
    mean = np.average(distance[visited], weights=weight[visited]) if visited.any() else 0.0
    return float(mean), float(distance.max(initial=0.0))
