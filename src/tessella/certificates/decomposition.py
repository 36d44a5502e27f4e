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

from tessella.certificates.interval import EPS, IntervalArray
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

    state: IntervalArray
    region: IntervalArray
    pair: IntervalArray
    face: IntervalArray


def decompose(
    optimal: NDArray[np.int32],
    policy_table: NDArray[np.int32],
    n_actions: int,
    loss: IntervalArray,
    occupancy: Occupancy,
) -> Decomposition:
    """Split the loss of the policy ``policy_table`` (grid of action indices)."""
    best = optimal.astype(np.int64)
    chosen = policy_table.astype(np.int64)
    all_states = np.arange(best.size)

    def split_by(groups: NDArray, shape: tuple[int, ...]) -> IntervalArray:
        return _sum_by_group(groups.ravel(), shape, loss, occupancy)

    return Decomposition(
        split_by(all_states, best.shape),
        split_by(best, (n_actions,)),
        split_by(best * n_actions + chosen, (n_actions, n_actions)),
        split_by(find_nearest_faces(best, n_actions), (n_actions, n_actions)),
    )


def find_nearest_faces(action_table: NDArray[np.int64], n_actions: int) -> NDArray[np.int64]:
    """(grid) code ``a * actions + b``, a < b, of the face nearest to each state.

    Of faces as near, one is chosen by a fixed order; without any face, the code is of (a, a).
    """
    from scipy.ndimage import distance_transform_cdt

    code = np.full(action_table.shape, -1, dtype=np.int64)
    for axis in range(action_table.ndim):
        low, high = (np.moveaxis(action_table, axis, 0)[half] for half in (np.s_[:-1], np.s_[1:]))
        face = np.where(low != high, np.minimum(low, high) * n_actions + np.maximum(low, high), -1)
        code_lines = np.moveaxis(code, axis, 0)
        for side in (code_lines[:-1], code_lines[1:]):
            np.copyto(side, face, where=side < 0)
    if (code < 0).all():
        return action_table * n_actions + action_table
    nearest = distance_transform_cdt(
        code < 0, metric="taxicab", return_distances=False, return_indices=True
    )
    return code[tuple(np.asarray(nearest))]


def _sum_by_group(
    groups: NDArray, shape: tuple[int, ...], loss: IntervalArray, occupancy: Occupancy
) -> IntervalArray:
    n = int(np.prod(shape))
    d = occupancy.share.ravel()
    forever = occupancy.mdp.criterion.value_of_constant_reward

    def sum_groups(values: NDArray) -> NDArray:
        return forever(np.bincount(groups, d * values.ravel(), minlength=n))

    max_loss = np.zeros(n)
    np.maximum.at(max_loss, groups, loss.upper.ravel())
    size = sum_groups(loss.upper)
    # The rounding of a sum of so many terms, and what the occupancy may be off by.
    slack = (groups.size + 6) * EPS * size
    slack += forever(occupancy.error_bound * (1 + 4 * EPS) * max_loss)
    lower = np.maximum(sum_groups(loss.lower) - slack, 0.0)
    return IntervalArray(
        *(array.reshape(shape) for array in (sum_groups(loss.value), lower, size + slack))
    )
