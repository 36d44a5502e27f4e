"""Quick evaluation of many candidate rules: the losses that a search compares.

    loss L = A_pi^-1 l_pi,   visits d = mu A_pi^-1,   A_pi = I - discount P_pi,

with the action loss l(s, a) = max_b Q*(s, b) - Q*(s, a), 0 where it is a tie. In a small model
M = A_*^-1 of the optimal policy is computed once; a rule that differs from it in k states, with
rows that differ by D = discount (P_pi - P_*), costs one system of order k (Woodbury):

    L = M_k (I - D M_k)^-1 l_k,   d = mu M + z D M,   z = mu M_k (I - D M_k)^-1,

and the rows of D M, one for each state and action, are computed when a rule first needs them.

For an average, A_pi = I - P_pi + 1 mu with mu the same for all states, and d the long-run shares:
d l_pi = g* - g_pi, the same from every start. A rule must have one recurrent class then; with a
total reward it must end, and where the process has ended the rows of P are 0. A large model goes
through the package's own loops, only as far as losses must be distinguished: its mean loss is
d l_pi, so that the visits are all that is computed, beginning with those of the optimal policy.
Before that, d >= mu makes mu l_pi a bound from below, with what every action surely loses.

Every loss has a bound on its error. With l* the exact action losses, V* - V_pi = A_pi^-1 l*_pi. So
a computed L, of residual r = l + discount P_pi L - L, has

    |V* - V_pi - L| <= max(A_pi^-1 1) (|l* - l| + |r|),

|l* - l| being what ties and rounding hide. For an average min r <= g* - g_pi <= max r, but for
|l* - l| and the errors of both ends of g*. The loss that is stated in the end rests on a
certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import block_array, csr_array, diags_array, eye_array, issparse
from scipy.sparse.linalg import splu, spsolve

from tessella.errors import ModelError, NotConverged
from tessella.mdp.policy import Policy
from tessella.rounding import EPS, bound_expectation_error
from tessella.solvers.absorbing import find_absorbing_states
from tessella.solvers.elimination import (
    EliminationFactors,
    FeasibleRows,
    compute_policy_residuals,
    find_endless_classes,
)
from tessella.solvers.policy_evaluation import Evaluation, Occupancy, compute_occupancy, evaluate
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.solution import Solution

TIE_ERROR_MULTIPLE = 8  # errors of the gain: a tie where the values have no bound
SPARSE_MAX_DENSITY = 0.1  # share of entries that are not 0, up to which rows are kept as sparse
UPDATE_MAX_STATES = 300  # states in which a rule of sparse rows differs from the optimum
VISITS_MIN_TOLERANCE = 1e-9  # total error of the visits in a large model, at the finest
VISITS_MAX_TOLERANCE = 1e-3  # total error of the visits in a large model, at the coarsest
AVERAGE_SHARES_TOLERANCE = 1e-4  # total error of the long-run shares of an average
LOSS_RELATIVE_TOLERANCE = 1e-8  # of the values: smaller differences of losses are ignored


@dataclass(frozen=True, eq=False)
class PolicyLoss:
    """What a rule loses.

    Attributes:
        table: (S,) its actions.
        loss: (S,) V* - V_pi; for an average, g* - g_pi and what a start loses beyond it. None in a
            large model.
        visits: (S,) expected discounted visits, from the start or from the state that loses most;
            for an average, shares of time. In single precision in a large model.
        mean_loss: from the start.
        worst_loss: from the state that loses most; NaN in a large model unless requested.
        error: bound on the error of ``worst_loss`` if the evaluator is about the worst case, else
            of ``mean_loss``.
    """

    table: NDArray[np.int32]
    loss: NDArray[np.float64] | None
    visits: NDArray
    mean_loss: float
    worst_loss: float
    error: float


class PolicyEvaluator:
    """What rules lose in the model of a solution, from one start.

    With ``is_worst_case``, visits of a rule of a small model begin in the state that loses most.
    ``loss_tolerance`` is the least difference of losses that matters, for large models.
    """

    def __init__(
        self, solution: Solution, start: NDArray[np.float64], is_worst_case: bool = False
    ) -> None:
        self.is_worst_case = is_worst_case
        self.loss_tolerance = 0.0
        self.solution = solution
        self.mdp = solution.mdp
        self.start = start.ravel()
        self.is_average = self.mdp.criterion.has_gain
        self.is_total = self.mdp.criterion.requires_absorption
        if self.is_average:  # the start is forgotten
            self.start = self.mdp.criterion.occupancy_rhs(self.start)
        self._cache: dict[bytes, PolicyLoss | None] = {}

    @cached_property
    def action_loss(self) -> NDArray[np.float64]:
        """(S, A) max Q* - Q*, 0 where that is a tie, inf where infeasible."""
        if self.is_average and self.tie_tolerance > self._average_loss_tolerance:
            extended = self._compute_extended_action_loss()
            if extended is not None:
                return extended
        # Not V - q: differences of action values may be known better than V (``policy_proof``).
        q = self.solution.q.reshape(self.mdp.n_states, -1)
        action_loss = q.max(axis=1, keepdims=True) - q
        return np.where(action_loss <= self.tie_tolerance, 0.0, action_loss)

    @cached_property
    def action_loss_below(self) -> NDArray[np.float64]:
        """(S, A) what every action surely loses, inf where infeasible.

        Differences of action values are known within the tie tolerance: l* >= l - tolerance.
        """
        if np.isfinite(self.solution.tie_tolerance):
            return np.maximum(self.action_loss - self.solution.tie_tolerance, 0.0)
        return np.where(self.feasible, 0.0, np.inf)  # nothing is known of any loss

    def _compute_extended_action_loss(self) -> NDArray[np.float64] | None:
        """The same from double-double relative values, where float64 rounding hides the losses."""
        table = self.solution.policy.table
        extended = compute_policy_residuals(self.mdp, self._row_sum_error, table, self._rows)
        if extended is None:
            return None
        entries = extended.rows.state, extended.rows.action
        residuals = np.full(self.feasible.shape, -np.inf)
        error = np.zeros(self.feasible.shape)
        residuals[entries] = extended.residuals
        error[entries] = extended.error
        best = residuals.argmax(axis=1)[:, None]
        action_loss = np.take_along_axis(residuals, best, axis=1) - residuals
        is_tie = action_loss <= 2 * (error + np.take_along_axis(error, best, axis=1))
        return np.where(is_tie, 0.0, action_loss)

    @cached_property
    def _row_sum_error(self) -> float:
        return PreparedModel(self.solution.policy_plan).row_sum_bounds.deviation

    @cached_property
    def _rows(self) -> FeasibleRows:
        return FeasibleRows.from_model(self.mdp)

    @property
    def _average_loss_tolerance(self) -> float:
        """How exactly losses per period of a small model are computed."""
        return LOSS_RELATIVE_TOLERANCE * self.mdp.dynamics.reward_scale

    @property
    def second_best_loss(self) -> NDArray[np.float64]:
        """(S,) what the second-best action loses; 0 where there is none."""
        second = np.sort(self.action_loss, axis=1)[:, min(1, self.mdp.n_actions - 1)]
        return np.where(np.isfinite(second), second, 0.0)

    @property
    def tie_tolerance(self) -> float:
        """Losses up to this are ties; without a bound on the values, an estimate of rounding."""
        tolerance = self.solution.tie_tolerance
        if np.isfinite(tolerance):
            return tolerance
        terms = self.mdp.dynamics.rounding.backup_terms + 8
        rounding = EPS * terms * float(np.ptp(self.solution.value))
        return TIE_ERROR_MULTIPLE * (self.solution.error_bound + rounding)

    @property
    def _action_loss_error(self) -> float:
        """By how much an action loss may be off: a tie counts as 0, and values are rounded."""
        return 2 * self.tie_tolerance

    @property
    def _tie_error(self) -> float:
        """By how much a loss may be off if only action losses are."""
        return self.mdp.criterion.value_of_constant_reward(self._action_loss_error)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        return self.mdp.feasible_mask

    @property
    def is_small(self) -> bool:
        """Whether the transition matrices are small enough to be dense."""
        return self.solution.policy_plan.rule_evaluation == "dense"

    @cached_property
    def _absorbing_mask(self) -> NDArray[np.bool_]:
        """(S,) where a process of total rewards has ended."""
        if not self.is_total:
            return np.zeros(self.mdp.n_states, dtype=bool)
        return find_absorbing_states(PreparedModel(self.solution.policy_plan)).ravel()

    @cached_property
    def transition(self) -> NDArray[np.float64]:
        """(A, S, S) transition probabilities of a small model, 0 where it has ended."""
        dense = np.stack([matrix.toarray() for matrix in self.mdp.to_sparse().transition])
        dense[:, self._absorbing_mask] = 0.0
        return dense

    def _build_policy_matrix(self, table: NDArray) -> csr_array:
        """(S, S) the rows of a table, 0 where the process has ended."""
        if self.is_small:
            rows = table * np.int64(len(table)) + np.arange(len(table))
            return csr_array(self._stacked_transition[rows])
        continuing = diags_array((~self._absorbing_mask).astype(float))
        chain = csr_array(continuing @ self.mdp.dynamics.policy_matrix(table))
        chain.eliminate_zeros()
        return chain

    @property
    def n_evaluated(self) -> int:
        """How many rules have been evaluated."""
        return len(self._cache)

    def is_feasible(self, table: NDArray) -> bool:
        """Whether a table takes feasible actions."""
        return bool(self.feasible[np.arange(len(table)), table].all())

    def evaluate(self, table: NDArray) -> PolicyLoss | None:
        """What a feasible table of actions loses; None if its chains are such that it has no loss.

        An average needs one recurrent class, and a total reward an end.
        """
        table = np.ascontiguousarray(table.ravel(), dtype=np.int32)
        key = blake2b(table.tobytes()).digest()
        if key not in self._cache:
            self._cache[key] = self._evaluate(table)
        return self._cache[key]

    def _evaluate(self, table: NDArray) -> PolicyLoss | None:
        if self.is_total or (self.is_average and self.is_small):
            chain = self._build_policy_matrix(table)
            if len(find_endless_classes(chain)) != int(self.is_average):
                return None
            if self.is_average:
                return self._evaluate_chain(table, chain)
        if self.is_small and not self._is_quicker_to_factorise(table):
            return self._evaluate_by_update(table)
        if self.is_total or self.is_small:
            return self._evaluate_by_factorisation(table)
        return self._evaluate_iteratively(table)

    def _is_quicker_to_factorise(self, table: NDArray) -> bool:
        """Whether a rule differs from the optimum in many states, and rows have few entries."""
        n_changed = int(np.count_nonzero(table != self.solution.policy.table.ravel()))
        return n_changed > UPDATE_MAX_STATES and issparse(self._stacked_transition)

    def _evaluate_chain(self, table: NDArray, chain: csr_array) -> PolicyLoss | None:
        """What a rule loses per period: by its gain, where action losses are not exact enough."""
        tolerance = self._average_loss_tolerance
        if self.tie_tolerance <= tolerance and np.isfinite(self.solution.tie_tolerance):
            policy_loss = self._evaluate_by_update(table)
            if policy_loss.error <= tolerance:
                return policy_loss
        return self._evaluate_by_elimination(table, chain) or self._evaluate_average(table, 0.0)

    def _evaluate_by_elimination(self, table: NDArray, chain: csr_array) -> PolicyLoss | None:
        """The difference of the gains, the rule's from double-double relative values."""
        rows = self._rows.select_policy(table)
        extended = compute_policy_residuals(self.mdp, self._row_sum_error, table, rows)
        factors = EliminationFactors.factorise(chain, np.inf)
        if extended is None or factors is None:
            return None
        low, high = extended.enclose_gain()
        loss = max((self.solution.gain or 0.0) - (low + high) / 2, 0.0)
        value_difference = self.solution.value.ravel() - extended.value[0]
        state_loss = value_difference - value_difference.mean() + loss
        error = self.solution.error_bound + (high - low) / 2 + 2 * EPS * abs(high)
        visits = factors.stationary_distribution()
        return PolicyLoss(table, state_loss, visits, loss, loss, error)

    @cached_property
    def _fundamental_matrix(self) -> NDArray[np.float64]:
        """(S, S) M: expected discounted visits under the optimal policy, from each state."""
        optimal = self.solution.policy.table.ravel()
        all_states = np.arange(len(optimal))
        system = np.eye(len(optimal)) - self.mdp.discount * self.transition[optimal, all_states]
        if self.is_average:
            system = system + self.start
        return np.asarray(np.linalg.inv(system), dtype=np.float64)

    def _evaluate_by_update(self, table: NDArray) -> PolicyLoss:
        optimal = self.solution.policy.table.ravel()
        changed = np.flatnonzero(table != optimal)
        visit_changes = self._compute_visit_changes(changed, table[changed])
        columns = self._fundamental_matrix[:, changed]
        factors = lu_factor(np.eye(len(changed)) - visit_changes[:, changed], check_finite=False)
        action_loss = self.action_loss[changed, table[changed]]
        loss = columns @ lu_solve(factors, action_loss, check_finite=False)
        start = self._choose_visit_origin(loss)
        z = lu_solve(factors, start @ columns, trans=1, check_finite=False)
        visits = start @ self._fundamental_matrix + z @ visit_changes
        rows = self._stacked_transition[table * np.int64(len(table)) + np.arange(len(table))]
        periods = None
        if self.is_total:
            periods = self.compute_discounted_sums(table, np.ones(len(table)))
        return self._make_loss(table, loss, visits, self._bound_error(table, rows, loss, periods))

    @cached_property
    def _visit_changes(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """(A, S, S) rows D M, and which of them (A, S) are known."""
        return np.empty_like(self.transition), np.zeros(self.transition.shape[:2], dtype=bool)

    def _compute_visit_changes(self, states: NDArray, actions: NDArray) -> NDArray[np.float64]:
        """(k, S) how the visits move with one period of other actions, D M of these states."""
        changes, is_known = self._visit_changes
        is_missing = ~is_known[actions, states]
        if is_missing.any():
            s = states[is_missing]
            a = actions[is_missing]
            optimal = self.solution.policy.table.ravel()[s]
            row_change = self.mdp.discount * (self.transition[a, s] - self.transition[optimal, s])
            changes[a, s] = row_change @ self._fundamental_matrix
            is_known[a, s] = True
        return changes[actions, states]

    def compute_discounted_sums(self, table: NDArray, payments: NDArray) -> NDArray[np.float64]:
        """(S,) A_pi^-1 payments: discounted sums under a table, in a small model."""
        changed = np.flatnonzero(table != self.solution.policy.table.ravel())
        base = self._fundamental_matrix @ payments
        visit_changes = self._compute_visit_changes(changed, table[changed])
        system = np.eye(len(changed)) - visit_changes[:, changed]
        correction = np.linalg.solve(system, visit_changes @ payments)
        return base + self._fundamental_matrix[:, changed] @ correction

    def compute_expected_next(self, values: NDArray) -> NDArray[np.float64]:
        """(S, A) expectations of values (S,) in the next state of a small model."""
        return np.asarray(self._stacked_transition @ values).reshape(self.mdp.n_actions, -1).T

    @cached_property
    def _stacked_transition(self) -> NDArray[np.float64] | csr_array:
        """(A x S, S) all transition rows; sparse where most entries are 0."""
        flat = self.transition.reshape(-1, self.mdp.n_states)
        return csr_array(flat) if np.count_nonzero(flat) < SPARSE_MAX_DENSITY * flat.size else flat

    def _choose_visit_origin(self, loss: NDArray) -> NDArray[np.float64]:
        """(S,) where visits are counted from: the start, or the state that loses most."""
        if not self.is_worst_case or self.is_average or not loss.any():
            return self.start
        return np.eye(1, len(loss), int(loss.argmax()))[0]

    def _make_loss(
        self, table: NDArray, loss: NDArray, visits: NDArray, error: float
    ) -> PolicyLoss:
        mean = float(self.start @ loss)
        worst = mean if self.is_average else float(loss.max())
        return PolicyLoss(table, loss, visits, mean, worst, error)

    def _bound_error(
        self,
        table: NDArray,
        rows: NDArray | csr_array,
        loss: NDArray,
        periods: NDArray | None = None,
    ) -> float:
        """Bound on the error of computed losses (S,) of a rule with transition ``rows`` (S, S).

        ``periods`` (S,) are those until a total has ended.
        """
        immediate = self.action_loss[np.arange(len(table)), table]
        terms = self.mdp.dynamics.longest_row + 4
        residuals = immediate + self.mdp.discount * (rows @ loss) - loss
        rounding = bound_expectation_error(terms, float(np.abs(loss).max(initial=0.0)))
        if self.is_average:
            error = float(np.ptp(residuals)) + rounding
            error += self._action_loss_error + 2 * self.solution.error_bound
            return error if np.isfinite(error) else np.inf
        horizon = self.mdp.criterion.value_of_constant_reward(1.0)
        if periods is not None:
            longest = float(periods.max())
            missing = float((1 + rows @ periods - periods).max())
            missing += bound_expectation_error(terms, longest)
            horizon = longest / (1 - missing) if missing < 0.5 else np.inf
        residual = float(np.abs(residuals).max()) + rounding + self._action_loss_error
        return horizon * residual

    def compute_policy_action_loss(self, policy_loss: PolicyLoss) -> NDArray[np.float64]:
        """(S, A) max_a Q_pi - Q_pi of a rule of a small model: what it could gain once."""
        assert policy_loss.loss is not None, "only small models have the loss of every state"
        expected_loss = self.compute_expected_next(policy_loss.loss)
        action_loss = np.where(self.feasible, self.action_loss, 0.0)
        q = -action_loss - self.mdp.discount * expected_loss  # less V*
        q[~self.feasible] = -np.inf
        return q.max(axis=1, keepdims=True) - q

    @cached_property
    def _value_scale(self) -> float:
        """The magnitude of values and losses."""
        largest_loss = float(self.action_loss[np.isfinite(self.action_loss)].max())
        return max(float(np.abs(self.solution.value).max()), largest_loss) or 1.0

    def _evaluate_iteratively(self, table: NDArray) -> PolicyLoss | None:
        """The loss of a rule of a large model, as exact as losses must be distinguished."""
        immediate = self.action_loss[np.arange(len(table)), table]
        is_optimal = np.array_equal(table, self.solution.policy.table.ravel())
        if not (is_optimal or self.is_average or immediate.any()):
            return PolicyLoss(table, None, self.optimal.visits, 0.0, 0.0, self._tie_error)
        tol = max(LOSS_RELATIVE_TOLERANCE * self._value_scale, self.loss_tolerance)
        if self.is_average:
            return self._evaluate_average(table, tol)
        policy = self._make_policy(table)
        guess = None if is_optimal else self.optimal.visits
        shares = self._compute_visit_shares(policy, guess, tol, float(immediate.max()))
        value_of_constant = self.mdp.criterion.value_of_constant_reward
        policy_visits = np.asarray(value_of_constant(shares.share)).ravel()
        mean = float(policy_visits @ immediate)
        error = self._tie_error + value_of_constant(shares.error_bound) * float(immediate.max())
        error += bound_expectation_error(len(table), mean)
        worst = np.nan
        if self.is_worst_case:
            evaluation = self._evaluate_policy(policy, tol)
            worst = float(np.maximum(self.solution.value - evaluation.value, 0.0).max())
            error = self.solution.error_bound + evaluation.error_bound
        return PolicyLoss(table, None, policy_visits.astype(np.float32), mean, worst, error)

    def _make_policy(self, table: NDArray) -> Policy:
        return Policy.from_table(self.mdp.grid, self.mdp.actions, table)

    def _evaluate_policy(self, policy: Policy, tol: float | None) -> Evaluation:
        best = self.solution
        return evaluate(
            self.mdp, policy, tol=tol, guess=best.value, partial=True, plan=best.policy_plan
        )

    def _compute_occupancy(
        self, policy: Policy, tol: float, guess: NDArray | None = None
    ) -> Occupancy:
        """Shares of time from the start."""
        start = self.start.reshape(self.mdp.grid.shape)
        plan = self.solution.policy_plan
        return compute_occupancy(self.mdp, policy, start, tol=tol, guess=guess, plan=plan)

    def _compute_visit_shares(
        self, policy: Policy, guess: NDArray | None, tol: float, largest_loss: float
    ) -> Occupancy:
        """Visits from the start as shares, so exact that ``largest_loss`` in each adds ``tol``."""
        criterion = self.mdp.criterion
        max_loss = criterion.value_of_constant_reward(largest_loss)
        visits_tolerance = VISITS_MAX_TOLERANCE
        if max_loss and not self.is_worst_case:
            visits_tolerance = float(
                np.clip(tol / max_loss, VISITS_MIN_TOLERANCE, VISITS_MAX_TOLERANCE)
            )
        initial_shares = None
        if guess is not None:
            initial_shares = criterion.equivalent_constant_reward(guess.astype(float))
        return self._compute_occupancy(policy, visits_tolerance, initial_shares)

    def _evaluate_average(self, table: NDArray, tol: float) -> PolicyLoss | None:
        """The difference of the gains; an upper bound on it where they have not converged."""
        best = self.solution
        policy = self._make_policy(table)
        try:
            evaluation = self._evaluate_policy(policy, tol or None)
            share = self._compute_occupancy(policy, AVERAGE_SHARES_TOLERANCE).share.ravel()
        except (ModelError, NotConverged):
            return None
        loss = max((best.gain or 0.0) - (evaluation.gain or 0.0), 0.0)
        error = best.error_bound + evaluation.error_bound
        if not (best.converged and evaluation.converged):
            loss += error
            error *= 2
        value_difference = (best.value - evaluation.value).ravel()
        state_loss = value_difference - value_difference.mean() + loss if self.is_small else None
        return PolicyLoss(table, state_loss, share.astype(np.float32), loss, loss, error)

    def _evaluate_by_factorisation(self, table: NDArray) -> PolicyLoss:
        """By the factors of I - discount P_pi."""
        rows = self._build_policy_matrix(table)
        factors = splu((eye_array(len(table)) - self.mdp.discount * rows).tocsc())
        loss = np.maximum(factors.solve(self.action_loss[np.arange(len(table)), table]), 0.0)
        periods = factors.solve(np.ones(len(table))) if self.is_total else None
        error = self._bound_error(table, rows, loss, periods)
        visits = factors.solve(self._choose_visit_origin(loss), trans="T")
        return self._make_loss(table, loss, visits, error)

    @cached_property
    def optimal(self) -> PolicyLoss:
        """The optimal policy: its visits are where a search begins."""
        policy_loss = self.evaluate(self.solution.policy.table)
        if policy_loss is None:
            raise ModelError("the optimal policy must have one recurrent class, or end")
        return policy_loss

    def compute_effective_horizon(self) -> float:
        """Approximately the loss under the optimal policy if every period lost 1."""
        if not self.is_total:
            return self.mdp.criterion.value_of_constant_reward(1.0)
        if not self.is_worst_case:
            return float(self.optimal.visits.sum())
        optimal = self.solution.policy.table.ravel()
        system = eye_array(len(optimal)) - self._build_policy_matrix(optimal)
        return float(np.asarray(spsolve(system.tocsc(), np.ones(len(optimal)))).max())

    def compute_optimal_value(self) -> float:
        """The optimal value from the start, or the gain."""
        gain = self.solution.gain
        return float(self.start @ self.solution.value.ravel()) if gain is None else float(gain)

    def compute_random_value(self) -> float:
        """The value from the start of taking every feasible action as often."""
        share = self.feasible / self.feasible.sum(axis=1, keepdims=True)
        model = self.mdp.to_sparse()
        continuing = np.where(self._absorbing_mask[:, None], 0.0, share)
        rows = sum(p.multiply(continuing[:, a : a + 1]) for a, p in enumerate(model.transition))
        reward = (share * np.where(self.feasible, model.reward, 0.0)).sum(axis=1)
        system = eye_array(len(reward)) - self.mdp.discount * rows
        if not self.is_average:
            return float(self.start @ spsolve(system.tocsc(), reward))
        bordered = block_array([[system, np.ones((len(reward), 1))], [self.start[None], None]])
        return float(np.asarray(spsolve(bordered.tocsc(), np.append(reward, 0.0)))[-1])

    def bound_losses_below(self, tables: list[NDArray]) -> NDArray[np.float64]:
        """(B,) lower bounds on the losses of tables of actions (S,), but for rounding of sums.

        By the loss of the first period. Of an average nothing is known but that it loses no less
        than 0.
        """
        if self.is_average:
            return np.zeros(len(tables))
        first = [self.action_loss_below[np.arange(len(table)), table.ravel()] for table in tables]
        return np.array([loss.max() if self.is_worst_case else self.start @ loss for loss in first])
