"""Recurrent classes: the sets of states that a policy, once there, never leaves.

A policy with several of them may earn another average in each; then there is no one gain. A class
with rewards that never ends has no total.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDING_MIN_DEFICIT
from tessella.errors import ModelError, NotConverged
from tessella.mdp.model import MDP

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from tessella.solvers.elimination import FeasibleRows

# States of a model that is written as matrices to find its classes, at most.
CLASSES_MAX_STATES = 200_000


def find_closed_classes(chain: csr_array) -> list[NDArray[np.int64]]:
    """Sets of states that reach one another and nothing else, by the positive entries."""
    from scipy.sparse.csgraph import connected_components

    entries = chain.tocoo()
    is_positive = entries.data > 0
    row = entries.row[is_positive]
    column = entries.col[is_positive]
    count, component = connected_components(chain > 0, directed=True, connection="strong")
    has_exit = np.zeros(count, dtype=bool)
    has_exit[component[row[component[row] != component[column]]]] = True
    order = np.argsort(component, kind="stable")
    ends = np.cumsum(np.bincount(component, minlength=count))
    starts = np.concatenate([[0], ends[:-1]])
    return [order[starts[k] : ends[k]] for k in np.flatnonzero(~has_exit)]


def find_endless_classes(chain: csr_array) -> list[NDArray[np.int64]]:
    """The closed classes in which the process never ends: all rows sum to 1."""
    row_sums = chain.sum(axis=1)
    return [
        states
        for states in find_closed_classes(chain)
        if not row_sums[states].min() < 1 - ENDING_MIN_DEFICIT
    ]


def redirect_policy_to(
    target: int, actions: NDArray, chain: csr_array, rows: FeasibleRows
) -> NDArray[np.int32]:
    """``actions``, with shortest paths to ``target`` where they never reach it."""
    from scipy.sparse.csgraph import breadth_first_order

    reaches_target = np.zeros(len(actions), dtype=bool)
    reaches_target[breadth_first_order(chain.T.tocsr(), target)[0]] = True
    return np.where(reaches_target, actions, find_shortest_path_policy(rows, [target])).astype(
        np.int32
    )


def find_shortest_path_policy(
    rows: FeasibleRows, targets: Sequence[int] | NDArray
) -> NDArray[np.int32]:
    """(S,) actions that may lead to one of ``targets`` in the fewest periods."""
    from scipy.sparse.csgraph import dijkstra

    options = {"indices": targets, "unweighted": True, "min_only": True}
    _, successor, _ = dijkstra(rows.reachability.T.tocsr(), return_predecessors=True, **options)
    entries = rows.matrix.tocoo()
    state = rows.state[entries.row]
    is_on_path = entries.col == successor[state]
    policy = np.zeros(rows.n_states, dtype=np.int32)
    policy[rows.state] = rows.action  # any feasible action, where no path exists
    policy[state[is_on_path]] = rows.action[entries.row[is_on_path]]
    return policy


def check_recurrent_classes(mdp: MDP, table: NDArray, evaluates_policy: bool) -> None:
    """Refuse a model, or a fixed policy, whose chains do not fit the criterion."""
    if mdp.n_states > CLASSES_MAX_STATES:
        return
    if mdp.criterion.has_gain:
        _require_one_class(mdp, table, evaluates_policy)
    elif mdp.criterion.requires_absorption:
        _require_end(mdp, table, evaluates_policy)


def _require_one_class(mdp: MDP, table: NDArray, evaluates_policy: bool) -> None:
    """Refuse a fixed policy with several classes; of a model, the run cannot decide."""
    classes = find_closed_classes(mdp.dynamics.policy_matrix(table))
    if len(classes) > 1 and evaluates_policy:
        gain_intervals = [(-np.inf, np.inf)] * len(classes)
        require_one_gain(mdp, classes, gain_intervals, 0.0, evaluates_policy, False)
    if len(classes) > 1:
        raise NotConverged(
            "many iterations brought nothing: the policy has "
            f"{len(classes)} recurrent classes, and "
            "the model is too large to find out whether a better one has one average"
        )


def _require_end(mdp: MDP, table: NDArray, evaluates_policy: bool) -> None:
    """Refuse a policy that never ends once it is in some class, and is paid there."""
    reward = np.take_along_axis(mdp.reward, table.reshape(-1, 1), axis=1)[:, 0]
    for states in find_endless_classes(mdp.dynamics.policy_matrix(table)):
        if reward[states].any():
            subject = "this policy" if evaluates_policy else "the best policy found so far"
            raise ModelError(
                "the total reward needs policies that end",
                value=f"{subject} stays for ever among {len(states):,} states, one of which is "
                f"{mdp.grid.describe(int(states[0]))}",
            )


def require_one_gain(
    mdp: MDP,
    classes: Sequence[NDArray],
    gain_intervals: Sequence[tuple[float, float]],
    error: float,
    evaluates_policy: bool,
    only_if_proven: bool,
) -> None:
    """Refuse a model, or a fixed policy, whose average depends on where it starts.

    ``gain_intervals`` (within ``error``) enclose the average in each of the closed ``classes``;
    where they overlap, the model is refused unless ``only_if_proven``.
    """
    least = min(range(len(classes)), key=lambda k: gain_intervals[k][1])
    most = max(range(len(classes)), key=lambda k: gain_intervals[k][0])
    gains_differ = gain_intervals[least][1] + error < gain_intervals[most][0] - error
    if only_if_proven and not gains_differ:
        return

    first, second = (least, most) if gains_differ else (0, 1)
    low_state, high_state = (mdp.grid.describe(int(classes[k][0])) for k in (first, second))
    subject = "this policy" if evaluates_policy else "the best policy"
    comparison = ""
    if gains_differ:
        low, high = (_format_interval(mdp, gain_intervals[k]) for k in (first, second))
        comparison = f": they {mdp.sense.earn_verb} {low} and {high} a period"
    raise ModelError(
        "the average criterion needs one average, the same from every start",
        value=f"{subject} has {len(classes)} recurrent classes: "
        f"one holds {low_state}, another {high_state}, and none leads to the other{comparison}",
    )


def _format_interval(mdp: MDP, interval: tuple[float, float]) -> str:
    low, high = (f"{end:.6g}" for end in mdp.sense.display_interval(*sorted(interval)))
    return low if low == high else f"{low} to {high}"
