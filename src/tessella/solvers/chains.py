"""Recurrent classes: the sets of states that a policy, once there, never leaves.

A policy with several of them may earn another average in each; then there is no one gain. One in
which it is paid for ever has no total.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDS, Average
from tessella.criteria.total import Total
from tessella.errors import ModelError
from tessella.mdp.model import MDP

LARGEST = 200_000  # states of a model that is written as matrices to look for its classes


def _chain(mdp: MDP, table: NDArray):
    """(S, S) P_pi, sparse."""
    from scipy.sparse import csr_array, diags_array

    actions = table.ravel()
    parts = [
        diags_array((actions == a).astype(float)) @ matrix
        for a, matrix in enumerate(mdp.dynamics.to_sparse())
    ]
    return csr_array(sum(parts[1:], parts[0]))


def recurrent_classes(mdp: MDP, table: NDArray) -> list[NDArray[np.int64]]:
    """Flat states of each recurrent class of the policy ``table`` (grid of action indices)."""
    from scipy.sparse.csgraph import connected_components

    chain = _chain(mdp, table)
    count, of = connected_components(chain, directed=True, connection="strong")
    step = chain.tocoo()
    leaves = of[step.row] != of[step.col]
    left = np.zeros(count, dtype=bool)
    left[of[step.row[leaves & (step.data > 0)]]] = True
    return [np.flatnonzero(of == k) for k in np.flatnonzero(~left)]


def refuse_chain(mdp: MDP, table: NDArray, fixed: bool) -> None:
    """Refuse a model, or a fixed policy, whose chains do not fit the criterion."""
    if mdp.n_states > LARGEST:
        return
    if isinstance(mdp.criterion, Average):
        _refuse_several_gains(mdp, table, fixed)
    elif isinstance(mdp.criterion, Total):
        _refuse_endless_class(mdp, table, fixed)


def _refuse_endless_class(mdp: MDP, table: NDArray, fixed: bool) -> None:
    """Refuse a policy that never ends once it is in some class, and is paid there."""
    paid = np.take_along_axis(mdp.reward, table.reshape(-1, 1), axis=1)[:, 0]
    going_on = _chain(mdp, table).sum(axis=1)
    for states in recurrent_classes(mdp, table):
        if paid[states].any() and going_on[states].min() > 1 - ENDS:
            what = "this policy" if fixed else "the best policy found so far"
            raise ModelError(
                "the total reward needs policies that end",
                value=f"{what} stays for ever among {len(states):,} states, one of which is "
                f"{mdp.grid.describe(int(states[0]))}",
            )


def _refuse_several_gains(mdp: MDP, table: NDArray, fixed: bool) -> None:
    """Refuse a model, or a fixed policy, whose average depends on where it starts."""
    classes = recurrent_classes(mdp, table)
    if len(classes) < 2:
        return
    first, second = (mdp.grid.describe(int(states[0])) for states in classes[:2])
    what = "this policy" if fixed else "the best policy"
    raise ModelError(
        "the average criterion needs one average, the same from every start",
        value=f"{what} has {len(classes)} recurrent classes: one holds {first}, another {second}, "
        "and none leads to the other",
    )
