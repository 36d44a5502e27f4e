"""Where the money is lost.

By the policy-loss decomposition, J(pi*) - J(pi) is the sum over states of

    c(s) = d(s) l(s) / (1 - discount),

with d the discounted occupancy of pi and l its local loss. Sums of c over groups of states tell the
loss by region (what would be optimal), by action pair (optimal and taken) and by face: the boundary
between two optimal actions that is nearest to the state, in grid steps. If d is off by at most
``error`` in all, a group's sum of d l is off by at most ``error max l`` over the group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.enclosure import EPS, Band
from tessella.solvers.occupancy import Occupancy


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The loss in parts. Each of the four has the whole loss as its sum. ``A`` actions.

    Attributes:
        state: (grid) by state.
        region: (A,) by the action that would be optimal.
        pair: (A, A) by the action that would be optimal and the one that is taken.
        face: (A, A) by the two actions a < b that meet at the nearest face of the optimal policy;
            where that has no face at all, on the diagonal.
    """

    state: Band
    region: Band
    pair: Band
    face: Band


def decompose(
    optimal: NDArray[np.int32],
    taken: NDArray[np.int32],
    actions: int,
    loss: Band,
    visits: Occupancy,
) -> Decomposition:
    """Split the loss of the policy ``taken`` (grid of action indices)."""
    best, chosen = optimal.astype(np.int64), taken.astype(np.int64)
    everyone = np.arange(best.size)

    def parts(groups: NDArray, shape: tuple[int, ...]) -> Band:
        return _by_group(groups.ravel(), shape, loss, visits)

    return Decomposition(
        parts(everyone, best.shape),
        parts(best, (actions,)),
        parts(best * actions + chosen, (actions, actions)),
        parts(nearest_face(best, actions), (actions, actions)),
    )


def nearest_face(table: NDArray[np.int64], actions: int) -> NDArray[np.int64]:
    """(grid) code ``a * actions + b``, a < b, of the face nearest to each state.

    Of faces as near, one is chosen by a fixed order; without any face, the code is of (a, a).
    """
    from scipy.ndimage import distance_transform_cdt

    code = np.full(table.shape, -1, dtype=np.int64)
    for axis in range(table.ndim):
        low, high = (np.moveaxis(table, axis, 0)[cut] for cut in (np.s_[:-1], np.s_[1:]))
        face = np.where(low != high, np.minimum(low, high) * actions + np.maximum(low, high), -1)
        seen = np.moveaxis(code, axis, 0)
        for side in (seen[:-1], seen[1:]):
            np.copyto(side, face, where=side < 0)
    if (code < 0).all():
        return table * actions + table
    nearest = distance_transform_cdt(
        code < 0, metric="taxicab", return_distances=False, return_indices=True
    )
    return code[tuple(np.asarray(nearest))]


def _by_group(groups: NDArray, shape: tuple[int, ...], loss: Band, visits: Occupancy) -> Band:
    n = int(np.prod(shape))
    d, forever = visits.share.ravel(), visits.mdp.criterion.forever

    def add(part: NDArray) -> NDArray:
        return forever(np.bincount(groups, d * part.ravel(), minlength=n))

    largest = np.zeros(n)
    np.maximum.at(largest, groups, loss.upper.ravel())
    size = add(loss.upper)
    # The rounding of a sum of so many terms, and what the occupancy may be off by.
    slack = (groups.size + 6) * EPS * size
    slack += forever(visits.error_bound * (1 + 4 * EPS) * largest)
    lower = np.maximum(add(loss.lower) - slack, 0.0)
    return Band(*(part.reshape(shape) for part in (add(loss.value), lower, size + slack)))
