"""Recurrent classes: the sets of states that a policy, once there, never leaves.

A policy with several of them may earn another average in each; then there is no one gain. One in
which it is paid for ever has no total.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDING_MIN_DEFICIT, Average
from tessella.criteria.total import Total
from tessella.errors import ModelError, NotConverged
from tessella.mdp.model import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tessella.solvers.elimination import FeasibleRows

# States of a model that is written as matrices to find its classes, at most.
CLASSES_MAX_STATES = 200_000


def _build_chain(mdp: MDP, table: NDArray) -> csr_array:
    """(S, S) P_pi, sparse."""
    from scipy.sparse import csr_array, diags_array

    actions = table.ravel()
    matrices = [
        diags_array((actions == a).astype(float)) @ matrix
        for a, matrix in enumerate(mdp.dynamics.to_sparse())
    ]
    return csr_array(sum(matrices[1:], matrices[0]))


def find_recurrent_classes(mdp: MDP, table: NDArray) -> list[NDArray[np.int64]]:
    """Flat states of each recurrent class of the policy ``table`` (grid of action indices)."""
    return chain_classes(_build_chain(mdp, table))


def chain_classes(chain: csr_array) -> list[NDArray[np.int64]]:
    """Sets of states that reach one another and nothing else, by the positive entries."""
    from scipy.sparse.csgraph import connected_components

    step = chain.tocoo()
    taken = step.data > 0
    row = step.row[taken]
    column = step.col[taken]
    count, of = connected_components(chain > 0, directed=True, connection="strong")
    left = np.zeros(count, dtype=bool)
    left[of[row[of[row] != of[column]]]] = True
    order = np.argsort(of, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(of, minlength=count))[:-1])
    return [parts[k] for k in np.flatnonzero(~left)]


def led_to(
    target: int, actions: NDArray, chain: csr_array, rows: FeasibleRows
) -> NDArray[np.int32]:
    """``actions``, changed where they never lead to ``target``: there, to the shortest way."""
    from scipy.sparse.csgraph import breadth_first_order

    leads = np.zeros(len(actions), dtype=bool)
    leads[breadth_first_order(chain.T.tocsr(), target)[0]] = True
    return np.where(leads, actions, shortest_way(rows, [target])).astype(np.int32)


def shortest_way(rows: FeasibleRows, targets: Sequence[int] | NDArray) -> NDArray[np.int32]:
    """(S,) actions that may lead to one of ``targets`` in the fewest periods."""
    from scipy.sparse.csgraph import dijkstra

    asked = {"indices": targets, "unweighted": True, "min_only": True}
    _, after, _ = dijkstra(rows.reachability.T.tocsr(), return_predecessors=True, **asked)
    entries = rows.rows.tocoo()
    state = rows.state[entries.row]
    taken = entries.col == after[state]
    way = np.zeros(rows.n_states, dtype=np.int32)
    way[rows.state] = rows.action  # one that is allowed, where there is no way to go
    way[state[taken]] = rows.action[entries.row[taken]]
    return way


def check_recurrent_classes(mdp: MDP, table: NDArray, fixed: bool) -> None:
    """Refuse a model, or a fixed policy, whose chains do not fit the criterion."""
    if mdp.n_states > CLASSES_MAX_STATES:
        return
    if isinstance(mdp.criterion, Average):
        _refuse_several_classes(mdp, table, fixed)
    elif isinstance(mdp.criterion, Total):
        _refuse_endless_class(mdp, table, fixed)


def _refuse_several_classes(mdp: MDP, table: NDArray, fixed: bool) -> None:
    """Refuse a fixed policy that has several; of another it is not known whether all must."""
    classes = find_recurrent_classes(mdp, table)
    if len(classes) > 1 and fixed:
        ends = [(-np.inf, np.inf)] * len(classes)
        refuse_several_gains(mdp, classes, ends, 0.0, fixed, False)
    if len(classes) > 1:
        raise NotConverged(
            f"many rounds brought nothing: the policy has {len(classes)} recurrent classes, and "
            "the model is too large to find out whether a better one has one average"
        )


def _refuse_endless_class(mdp: MDP, table: NDArray, fixed: bool) -> None:
    """Refuse a policy that never ends once it is in some class, and is paid there."""
    reward = np.take_along_axis(mdp.reward, table.reshape(-1, 1), axis=1)[:, 0]
    row_sums = _build_chain(mdp, table).sum(axis=1)
    for states in find_recurrent_classes(mdp, table):
        if reward[states].any() and row_sums[states].min() > 1 - ENDING_MIN_DEFICIT:
            subject = "this policy" if fixed else "the best policy found so far"
            raise ModelError(
                "the total reward needs policies that end",
                value=f"{subject} stays for ever among {len(states):,} states, one of which is "
                f"{mdp.grid.describe(int(states[0]))}",
            )


def refuse_several_gains(
    mdp: MDP,
    sets: Sequence[NDArray],
    ends: Sequence[tuple[float, float]],
    off: float,
    fixed: bool,
    only_known: bool,
) -> None:
    """Refuse a model, or a fixed policy, whose average depends on where it starts.

    ``ends`` (within ``off``) enclose the average in each of the ``sets``, none of which is left;
    where they overlap, nothing is refused if ``only_known`` differences are to be.
    """
    least = min(range(len(sets)), key=lambda k: ends[k][1])
    most = max(range(len(sets)), key=lambda k: ends[k][0])
    differ = ends[least][1] + off < ends[most][0] - off
    if only_known and not differ:
        return

    one, other = (least, most) if differ else (0, 1)
    first, second = (mdp.grid.describe(int(sets[k][0])) for k in (one, other))
    earned = ""
    if differ:
        low, high = (_shown(mdp, ends[k]) for k in (one, other))
        earned = f": they {'cost' if mdp.minimise else 'earn'} {low} and {high} a period"
    raise ModelError(
        "the average criterion needs one average, the same from every start",
        value=f"{'this policy' if fixed else 'the best policy'} has {len(sets)} recurrent classes: "
        f"one holds {first}, another {second}, and none leads to the other{earned}",
    )


def _shown(mdp: MDP, ends: tuple[float, float]) -> str:
    low, high = (f"{end:.6g}" for end in sorted(-e if mdp.minimise else e for e in ends))
    return low if low == high else f"{low} to {high}"
