"""Averages by elimination, where iterations do not converge or float64 has too few digits.

Chains that hardly ever leave a set of states have relative values of the size of 1 / leak, and
rounding those hides the rewards. Two things keep the digits. States are eliminated without a
subtraction (Grassmann, Taksar and Heyman 1985): a state that is left with probability
s = sum_j p_j is visited 1 / s times in a row, so that small probabilities keep all their digits.
And a residual is summed from differences of relative values h, stored as sums of two floats:

    d(s, a) = r(s, a) + sum_j P(j | s, a) (h_j - h_s),      min_s max_a d <= gain <= max_s,a d.

A few steps of iterative refinement remove the rounding error of d. Improving the policy by d until
no action is better is policy iteration. A policy with several recurrent classes is first redirected
to the best of those that every state can reach.

*Recurrent classes* are the sets of states that a policy, once there, never leaves. A policy with
several of them may earn another average in each; then there is no one gain. A class with rewards
that never ends has no total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tessella.criteria.average import ENDING_MIN_DEFICIT
from tessella.errors import ModelError, NotConverged
from tessella.rounding import EPS, NO_ROUNDING, ModelRounding, sum_rows, two_product, two_sum

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import SuperLU

    from tessella.mdp.model import MDP
    from tessella.solvers.iteration import IterationState
    from tessella.solvers.prepared_model import PreparedModel

# States of a model that is written as matrices to find its classes, at most.
CLASSES_MAX_STATES = 200_000
ELIMINATION_MAX_ENTRIES = 20_000_000  # entries of all rows together, if rows are built
# Products of one elimination: states times the square of the band of the chain.
ELIMINATION_MAX_PRODUCTS = 2_000_000_000
# The widest band for which elimination runs before the iterations.
LINE_MAX_BAND_STATES = 32
# Least visits of the reference state, as a share of those of the most visited state.
REFERENCE_MIN_VISIT_SHARE = 1e-6
RESCALE_ABOVE = 1e100  # weights beyond this are scaled down
REFINEMENT_MAX_PASSES = 6  # eliminations of the remaining residual, at most
MAX_POLICIES = 100  # policies that are evaluated, at most

DoubleDouble = tuple[NDArray[np.float64], NDArray[np.float64]]  # unevaluated sums of two floats


class EliminationResult(NamedTuple):
    """The bounded average that elimination computes."""

    value: NDArray[np.float64]  # relative values
    policy: NDArray[np.int32]
    gain: float
    bound: float  # on the error of the gain


def eliminate_states(
    prepared: PreparedModel,
    state: IterationState,
    evaluates_policy: bool,
    *,
    before_iterations: bool = False,
    gain_is_known: bool = False,
) -> EliminationResult | None:
    """The gain of the policy of ``state`` if ``evaluates_policy``, else of the best policy.

    None where that takes too long or too much memory. With ``before_iterations`` only a fixed
    policy on a line of states is eliminated. Rejects a model, or a fixed policy, with several
    gains, and one with several closed classes unless ``gain_is_known``.
    """
    mdp = prepared.mdp
    if not rows_are_affordable(mdp):
        return None
    actions = np.asarray(prepared.to_numpy(state.policy), dtype=np.int32).ravel()
    rows = FeasibleRows.from_model(mdp)
    rows = rows.select_policy(actions) if evaluates_policy else rows
    closed_classes = find_closed_classes(rows.reachability)
    if len(closed_classes) > 1:
        residuals = (prepared.to_numpy(state.backup) - prepared.to_numpy(state.value)).ravel()
        by_class = [residuals[states] for states in closed_classes]
        gain_intervals = [(float(part.min()), float(part.max())) for part in by_class]
        require_one_gain(
            mdp,
            closed_classes,
            gain_intervals,
            error=float(state.floor),
            evaluates_policy=evaluates_policy,
            only_if_proven=before_iterations or gain_is_known,
        )
        return None
    if before_iterations and not evaluates_policy:
        return None
    last = int(closed_classes[0][0])
    if before_iterations and BandOrder.find(rows.matrix, last).band > LINE_MAX_BAND_STATES:
        return None
    row_sum_error = prepared.row_sum_bounds.deviation
    best = _improve_policy(mdp, row_sum_error, rows, actions, closed_classes[0])
    if best is None:
        return None
    low, high = best.enclose_gain()
    bound = (high - low) / 2 * (1 + 8 * EPS) + 2 * EPS * max(abs(low), abs(high))
    value = best.value[0] - best.value[0][0]
    grid = mdp.grid.shape
    return EliminationResult(
        value.reshape(grid), best.actions.reshape(grid), (low + high) / 2, bound
    )


def compute_policy_residuals(
    mdp: MDP, row_sum_error: float, table: NDArray, rows: FeasibleRows | None = None
) -> PolicyResiduals | None:
    """Residuals of ``rows`` at the relative values of the policy ``table`` (double-doubles).

    ``rows`` must hold the policy's own; by default they are those of all feasible actions. None
    where elimination takes too long or too much memory, or probabilities vanish, and for a policy
    with several recurrent classes.
    """
    if not rows_are_affordable(mdp):
        return None
    rows = FeasibleRows.from_model(mdp) if rows is None else rows
    chosen = rows.select_policy(table.ravel())
    if len(find_closed_classes(chosen.matrix)) > 1:
        return None
    with np.errstate(all="ignore"):  # non-finite results are rejected below
        factors = EliminationFactors.factorise(chosen.matrix)
        if factors is None:
            return None
        h = refine_values(
            chosen.reward,
            lambda residuals: factors.solve(residuals - (residuals.max() + residuals.min()) / 2)[0],
            lambda h: chosen.compute_residuals(h)[0],
            np.ptp,
        )
        if h is None:
            return None
        residuals, error = rows.compute_residuals(h, mdp.dynamics.rounding.in_file, row_sum_error)
    if not np.isfinite(residuals + error).all():
        return None
    return PolicyResiduals(rows, table.ravel(), h, residuals, error)


def rows_are_affordable(mdp: MDP) -> bool:
    """Whether the rows of a model are few enough to be built."""
    entries = mdp.n_states * mdp.n_actions * min(mdp.dynamics.longest_row, mdp.n_states)
    return mdp.n_states <= CLASSES_MAX_STATES and entries <= ELIMINATION_MAX_ENTRIES


def factorise_hitting_system(chain: csr_array, targets: NDArray) -> SuperLU | None:
    """Factors of I - P~, with P~ the chain up to ``targets`` (S,); None where it is singular."""
    from scipy.sparse import diags_array, eye_array
    from scipy.sparse.linalg import splu

    system = eye_array(len(targets)) - chain @ diags_array((~targets).astype(float))
    try:
        return splu(system.tocsc())
    except RuntimeError:
        return None


def _improve_policy(
    mdp: MDP, row_sum_error: float, rows: FeasibleRows, actions: NDArray, closed_class: NDArray
) -> PolicyResiduals | None:
    """Policy iteration; all states can reach ``closed_class``, and no policy leaves it."""
    visited_policies = set()
    multichain_actions = actions  # the last policy with several classes

    def evaluate(actions: NDArray) -> PolicyResiduals | None:
        nonlocal multichain_actions
        redirected = _redirect_to_best_class(rows, actions, closed_class)
        if redirected is None:
            return None
        if redirected is not actions:
            multichain_actions = actions
        if redirected.tobytes() in visited_policies:  # a class outside of that one earns more
            chosen = rows.select_policy(multichain_actions)
            classes = find_closed_classes(chosen.matrix)
            gains = _compute_class_gains(chosen, classes)
            if gains is not None and len(classes) > 1:
                require_one_gain(mdp, classes, [(gain, gain) for gain, _ in gains])
            return None
        visited_policies.add(redirected.tobytes())
        return compute_policy_residuals(mdp, row_sum_error, redirected, rows)

    with np.errstate(all="ignore"):  # non-finite results are rejected
        return rows.iterate_policies(actions, evaluate)


def _redirect_to_best_class(
    rows: FeasibleRows, actions: NDArray, closed_class: NDArray
) -> NDArray | None:
    """``actions``, redirected to the best of the recurrent classes that all states can reach."""
    from scipy.sparse.csgraph import breadth_first_order

    chosen = rows.select_policy(actions)
    classes = find_closed_classes(chosen.matrix)
    if len(classes) == 1:
        return actions
    reachable = [states for states in classes if np.isin(states[0], closed_class)]
    gains = _compute_class_gains(chosen, reachable)
    if gains is None:
        return None
    target = max(gains)[1]
    redirected = find_shortest_path_policy(rows, [target])
    reaching = breadth_first_order(chosen.matrix.T.tocsr(), target)[0]
    redirected[reaching] = actions[reaching]
    return redirected


def _compute_class_gains(
    chosen: FeasibleRows, classes: list[NDArray]
) -> list[tuple[float, int]] | None:
    """(gain of a policy in a recurrent class, a state of it)."""
    gains = []
    for states in classes:
        factors = EliminationFactors.factorise(chosen.matrix[states][:, states])
        if factors is None:
            return None
        gains.append((factors.solve(chosen.reward[states])[1], int(states[0])))
    return gains


def refine_values(
    residuals: NDArray,
    solve: Callable[[NDArray], NDArray],
    compute_residuals: Callable[[DoubleDouble], NDArray],
    measure: Callable[[NDArray], float],
) -> DoubleDouble | None:
    """Values by iterative refinement, from the ``residuals`` of 0; None where they are not finite.

    ``solve`` gives a correction, as long as that halves the ``measure`` of the residuals.
    """
    value = np.zeros(len(residuals)), np.zeros(len(residuals))
    smallest = np.inf
    for _ in range(REFINEMENT_MAX_PASSES):
        high, low = two_sum(value[0], solve(residuals))
        refined = two_sum(high, low + value[1])
        residuals = compute_residuals(refined)
        if not measure(residuals) < smallest / 2:
            break
        value = refined
        smallest = measure(residuals)
    return value if np.isfinite(smallest) else None


class FeasibleRows(NamedTuple):
    """Rows of some states and actions."""

    state: NDArray[np.intp]  # (K,)
    action: NDArray[np.intp]  # (K,)
    matrix: csr_array  # (K, S)
    reward: NDArray[np.float64]  # (K,)
    end: NDArray[np.float64]  # (K,) chance that the process ends

    @staticmethod
    def from_model(mdp: MDP) -> FeasibleRows:
        """Of all states and actions that are allowed."""
        from scipy.sparse import csr_array, vstack

        matrices = [csr_array(matrix) for matrix in mdp.dynamics.to_sparse()]
        action, state = np.nonzero(mdp.feasible_mask.T)
        rows = csr_array(vstack(matrices, format="csr"))[action * mdp.n_states + state]
        rows.sum_duplicates()
        rows.eliminate_zeros()
        missing = 1 - rows.sum(axis=1)
        end = np.where(missing > ENDING_MIN_DEFICIT, missing, 0.0)
        return FeasibleRows(state, action, rows, mdp.reward[state, action], end)

    def select_policy(self, actions: NDArray) -> FeasibleRows:
        """Those of a policy, one for each state."""
        chosen = np.flatnonzero(self.action == actions[self.state])
        k = chosen[np.argsort(self.state[chosen])]
        return FeasibleRows(
            self.state[k], self.action[k], self.matrix[k], self.reward[k], self.end[k]
        )

    @property
    def n_states(self) -> int:
        return int(self.matrix.shape[1])  # type: ignore[index]

    @property
    def reachability(self) -> csr_array:
        """(S, S) positive where some action may lead."""
        from scipy.sparse import coo_array, csr_array

        entries = self.matrix.tocoo()
        positions = self.state[entries.row], entries.col
        n = self.n_states
        return csr_array(coo_array((np.ones(entries.nnz), positions), shape=(n, n)))

    def compute_residuals(
        self,
        h: DoubleDouble,
        saved_rounding: ModelRounding = NO_ROUNDING,
        row_sum_error: float = 0.0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """((K,) r + sum_j p_j (h_j - h_s) - end h_s, a bound on its error).

        Rows and rewards have the error ``saved_rounding``, and the sums of rows ``row_sum_error``.
        """
        rows = self.matrix
        high, low = h
        lengths = np.diff(rows.indptr)
        source = np.repeat(self.state, lengths)
        target = rows.indices
        difference, difference_error = two_sum(high[target], -high[source])
        product, product_error = two_product(rows.data, difference)
        product_error += rows.data * (difference_error + (low[target] - low[source]))
        sums, sum_errors, _ = sum_rows(rows.indptr, product)
        total, total_error = two_sum(self.reward, sums)
        row = np.repeat(np.arange(len(lengths)), lengths)
        product_errors = np.bincount(row, product_error, minlength=len(lengths))
        residuals = total + (total_error + sum_errors + product_errors)
        product_sizes = np.bincount(row, abs(product), minlength=len(lengths))
        second_order = (((lengths.max() + 8) * EPS) ** 2) * 4 * abs(high).max()
        error = 4 * EPS * abs(residuals) + second_order + saved_rounding.reward_error
        error += (saved_rounding.row_error + EPS**2) * product_sizes
        # A row that sums to 1 + x is meant to be divided by that: x / (1 + x) of the sum is wrong.
        error += row_sum_error / (1 - row_sum_error) * abs(residuals - self.reward)
        current = high[self.state]
        error += np.where(self.end > 0, EPS * (lengths + 8), 0.0) * abs(current)
        return residuals - self.end * current, error * (1 + 8 * EPS)

    def max_by_state(self, numbers: NDArray) -> NDArray[np.float64]:
        """(S,) the largest of each state."""
        largest = np.full(self.n_states, -np.inf)
        np.maximum.at(largest, self.state, numbers)
        return largest

    def iterate_policies(
        self, actions: NDArray, evaluate: Callable[[NDArray], PolicyResiduals | None]
    ) -> PolicyResiduals | None:
        """The residuals of a policy that none of them improves, by policy iteration.

        ``evaluate`` may take other actions instead. None where it gives None, or for too many
        policies.
        """
        for _ in range(MAX_POLICIES):
            evaluated = evaluate(actions)
            if evaluated is None:
                return None
            actions = self.improve(evaluated.actions, evaluated.residuals, evaluated.error)
            if (actions == evaluated.actions).all():
                return evaluated
        return None

    def improve(self, actions: NDArray, residuals: NDArray, error: NDArray) -> NDArray[np.int32]:
        """``actions``, with the best where its residual is surely larger."""
        is_chosen = self.action == actions[self.state]
        current = self.max_by_state(np.where(is_chosen, residuals + error, -np.inf))
        best = self.max_by_state(residuals - error)
        is_better = (residuals - error == best[self.state]) & (best > current)[self.state]
        better = actions.copy()
        better[self.state[is_better]] = self.action[is_better]
        return better


class PolicyResiduals(NamedTuple):
    """The residuals of rows at the value of a policy."""

    rows: FeasibleRows
    actions: NDArray  # (S,) of the policy
    value: Any  # an array or a double-double
    residuals: NDArray[np.float64]  # (K,)
    error: NDArray[np.float64]  # (K,) bounds on the errors of the residuals

    def enclose_gain(self, table: NDArray | None = None) -> tuple[float, float]:
        """Bounds on the gain of ``table``, or without one on the best."""
        low = self.residuals - self.error
        high = self.residuals + self.error
        if table is None:
            return float(self.rows.max_by_state(low).min()), float(high.max())
        is_chosen = self.rows.action == table.ravel()[self.rows.state]
        return float(low[is_chosen].min()), float(high[is_chosen].max())


class BandOrder(NamedTuple):
    """The states of a chain in an order in which transitions are short."""

    order: NDArray[np.intp]  # (S,)
    row: NDArray[np.intp]  # positions that the entries of the chain lead from ...
    column: NDArray[np.intp]  # ... and to
    band: int  # the longest of them

    @staticmethod
    def find(chain: csr_array, last: int) -> BandOrder:
        """The order of a search from the state ``last``, which comes last."""
        from scipy.sparse.csgraph import breadth_first_order

        order = breadth_first_order(chain, last, directed=False)[0][::-1]
        position = np.argsort(order)
        entries = chain.tocoo()
        row = position[entries.row]
        column = position[entries.col]
        return BandOrder(order, row, column, max(int(abs(row - column).max(initial=0)), 1))


class EliminationFactors(NamedTuple):
    """A chain with one recurrent class, eliminated state by state.

    States are in the order of elimination, the last recurrent; transitions connect
    states that are at most ``band`` apart.
    """

    order: NDArray[np.intp]
    forward: NDArray[np.float64]  # (n, n) probabilities of moving on, of which a band is stored
    exit_probability: NDArray[np.float64]  # (n,) to leave it for a later one
    band: int

    @staticmethod
    def factorise(
        chain: csr_array, max_products: float = ELIMINATION_MAX_PRODUCTS
    ) -> EliminationFactors | None:
        """None if that takes more than ``max_products``, or if a probability vanishes."""
        last = int(find_closed_classes(chain)[0][0])
        factors = EliminationFactors._eliminate_towards(last, chain, max_products)
        if factors is None:
            return None
        shares = factors.stationary_distribution()
        if shares[last] >= REFERENCE_MIN_VISIT_SHARE * shares.max():
            return factors
        # Values relative to a rarely visited state would lose digits.
        return EliminationFactors._eliminate_towards(int(shares.argmax()), chain, max_products)

    @staticmethod
    def _eliminate_towards(
        last: int, chain: csr_array, max_products: float
    ) -> EliminationFactors | None:
        order, row, column, band = BandOrder.find(chain, last)
        n = len(order)
        if n * band * band > max_products:
            return None
        # Entry (i, j) of the band is at i (2 band + 1) + (j - i + band): a stride of 2 band.
        flat = np.zeros(n * (2 * band + 1) + 2 * band)
        flat[row * 2 * band + column + band] = chain.tocoo().data
        entry_bytes = flat.itemsize
        forward = as_strided(flat[band:], (n, n), (2 * band * entry_bytes, entry_bytes))
        exit_probability = np.ones(n)
        for k in range(n - 1):
            after = slice(k + 1, min(k + band + 1, n))
            probabilities = forward[k, after]
            exit_probability[k] = probabilities.sum()
            if not exit_probability[k] > 0:
                return None
            probabilities /= exit_probability[k]
            forward[after, after] += np.multiply.outer(forward[after, k], probabilities)
        return EliminationFactors(order, forward, exit_probability, band)

    def stationary_distribution(self) -> NDArray[np.float64]:
        """(n,) the shares of time in the long run, each to nearly all digits."""
        n = len(self.order)
        shares = np.ones(n)
        for k in range(n - 2, -1, -1):
            after = slice(k + 1, min(k + self.band + 1, n))
            shares[k] = self.forward[after, k] @ shares[after] / self.exit_probability[k]
            if shares[k] > RESCALE_ABOVE:
                shares[k:] /= shares[k]
        return (shares / shares.sum())[np.argsort(self.order)]

    def solve(self, reward: NDArray) -> tuple[NDArray[np.float64], float]:
        """(relative values, 0 in the last state; gain): h = reward - gain + P h."""
        n = len(self.order)
        forward = self.forward
        exit_probability = self.exit_probability
        total_reward = reward[self.order]
        total_time = np.ones(n)
        for k in range(n - 1):
            after = slice(k + 1, min(k + self.band + 1, n))
            visits = forward[after, k] / exit_probability[k]
            total_reward[after] += visits * total_reward[k]
            total_time[after] += visits * total_time[k]
        gain = total_reward[-1] / total_time[-1]
        h = (total_reward - gain * total_time) / exit_probability
        h[-1] = 0.0
        for k in range(n - 2, -1, -1):
            after = slice(k + 1, min(k + self.band + 1, n))
            h[k] += forward[k, after] @ h[after]
        return h[np.argsort(self.order)], float(gain)


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
    """Reject a model, or a fixed policy, whose chains do not fit the criterion."""
    criterion = mdp.criterion
    is_checked = criterion.requires_absorption or criterion.has_gain
    if mdp.n_states > CLASSES_MAX_STATES or not is_checked:
        return
    chain = mdp.dynamics.policy_matrix(table)
    if criterion.requires_absorption:
        reward = np.take_along_axis(mdp.reward, table.reshape(-1, 1), axis=1)[:, 0]
        paid = [states for states in find_endless_classes(chain) if reward[states].any()]
        if paid:
            subject = "this policy" if evaluates_policy else "the best policy found so far"
            raise ModelError(
                "the total reward needs policies that end",
                value=f"{subject} stays forever among {len(paid[0]):,} states, one of which is "
                f"{mdp.grid.describe(int(paid[0][0]))}",
            )
        return
    classes = find_closed_classes(chain)
    if len(classes) == 1:
        return
    if evaluates_policy:
        unknown_gains = [(-np.inf, np.inf)] * len(classes)
        require_one_gain(mdp, classes, unknown_gains, evaluates_policy=True)
    raise NotConverged(
        f"many iterations brought nothing: the policy has {len(classes)} recurrent classes, and "
        "the model is too large to find out whether a better one has one average"
    )


def require_one_gain(
    mdp: MDP,
    classes: Sequence[NDArray],
    gain_intervals: Sequence[tuple[float, float]],
    *,
    error: float = 0.0,
    evaluates_policy: bool = False,
    only_if_proven: bool = False,
) -> None:
    """Reject a model, or a fixed policy, whose average depends on where it starts.

    ``gain_intervals`` (within ``error``) enclose the average in each of the closed ``classes``;
    where they overlap, the model is rejected unless ``only_if_proven``.
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
