"""A local search for good policies that draw nothing, among those that satisfy constraints.

In a small model M = (I - discount P_pi)^-1 is at hand, for an average (I - P_pi + 1 mu)^-1, and the
visits d = mu M. If a policy takes another action in one state s, with rows that differ by
D = discount (P_a - P_pi)(s), that state has the visits

    d'(s) = d(s) / (1 - D M e_s),

and every expected sum changes by d'(s) times the advantage of the action in that sum. So all
policies that differ in one state are evaluated at once, and M follows by one outer product. The
search moves to the best of them, worse or not, and changes no state again for a while (tabu
search, Glover 1989). In very small models it then starts again, a few times, near the best policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.mdp.model import MDP
from tessella.mdp.start import start_distribution

MAX_STATES = 1000  # of models that are searched
MAX_OPERATIONS = 1.5e7  # multiplications in all steps from one policy
MAX_STEPS = 100  # from one policy
TABU_STEPS = 7  # for which a state is not changed again
MAX_RESTARTS = 5  # near the best policy so far, where all their steps are within MAX_OPERATIONS
RESTART_CHANGES = 3  # states that a restart changes
TIE_TOLERANCE = 1e-9  # of the merit: the first of those nearer than this is taken, on any machine
MIN_VISITS = 1e-9  # from the start: states with less are not changed
MIN_DENOMINATOR = 1e-9  # of the visits after a change: where it is less, the chain falls apart


class SwitchSearch:
    """The search in one model.

    Args:
        amounts: (sums, S, A) the reward and the excess of each constraint, in a period.
        constants: (sums,) what is added once.
        penalties: (sums,) what a unit that is missing of a constraint costs; 0 for the reward.
    """

    def __init__(self, mdp: MDP, amounts: NDArray, constants: NDArray, penalties: NDArray) -> None:
        self.mdp = mdp
        self.amounts = amounts
        self.constants = constants
        self.penalties = penalties
        self.is_average = mdp.criterion.has_gain
        self.start = start_distribution(mdp, None).ravel()
        if self.is_average:  # the start is forgotten
            self.start = mdp.criterion.occupancy_rhs(self.start)
        self.rows = sp.csr_array(sp.vstack(mdp.to_sparse().transition))  # (A x S, S)
        self.entries = sp.coo_array(self.rows)
        self.feasible = mdp.feasible_mask
        self.found: dict[bytes, tuple[float, NDArray]] = {}
        self.affordable_steps = int(MAX_OPERATIONS / (mdp.n_states**2 + self.rows.nnz))

    @staticmethod
    def supports(mdp: MDP) -> bool:
        has_values = mdp.criterion.is_discounted or mdp.criterion.has_gain
        return has_values and mdp.dynamics.n_periods is None and mdp.n_states <= MAX_STATES

    def run(self, tables: Sequence[NDArray]) -> list[NDArray]:
        """The best policies found from these, the best first."""
        for table in tables:
            self._search_from(table.ravel().copy())
        rng = np.random.default_rng(0)
        has_time = self.affordable_steps >= MAX_RESTARTS * MAX_STEPS
        for _ in range(MAX_RESTARTS if self.found and has_time else 0):
            changed = self._sort_found()[0].copy()
            n_changes = min(RESTART_CHANGES, len(changed))
            for state in rng.choice(len(changed), size=n_changes, replace=False):
                changed[state] = rng.choice(np.flatnonzero(self.feasible[state]))
            self._search_from(changed)
        return self._sort_found()

    def _sort_found(self) -> list[NDArray]:
        return [table for _, table in sorted(self.found.values(), key=lambda found: -found[0])]

    def _search_from(self, table: NDArray) -> None:
        n_states = self.mdp.n_states
        matrix = self._invert(table)
        changed_at = np.full(n_states, -TABU_STEPS)
        best = -np.inf
        for step in range(min(MAX_STEPS, self.affordable_steps)):
            sums, denominators = self._evaluate_changes(table, matrix)
            holds = (sums[1:] >= 0).all(axis=0)
            merit = sums[0] + np.tensordot(self.penalties, np.minimum(sums, 0.0), axes=1)
            merit[denominators < MIN_DENOMINATOR] = -np.inf
            is_better = holds & (merit > best)
            if is_better.any():
                merit[~is_better] = -np.inf
            else:
                merit[step - changed_at < TABU_STEPS] = -np.inf
            highest = merit.max()
            if not np.isfinite(highest):
                return
            is_chosen = merit >= highest - TIE_TOLERANCE * abs(highest)
            state, action = divmod(int(is_chosen.argmax()), self.mdp.n_actions)
            rows = self.rows[[action * n_states + state, table[state] * n_states + state]]
            change = self.mdp.discount * (np.array([1.0, -1.0]) @ rows) @ matrix
            matrix += np.outer(matrix[:, state], change / denominators[state, action])
            table[state] = action
            changed_at[state] = step
            if is_better.any():
                best = float(merit[state, action])
                self.found[table.tobytes()] = (best, table.copy())

    def _invert(self, table: NDArray) -> NDArray[np.float64]:
        """M of a policy."""
        n_states = len(table)
        rows = self.rows[table * n_states + np.arange(n_states)].toarray()
        system = np.eye(n_states) - self.mdp.discount * rows
        return np.asarray(np.linalg.inv(system + self.start if self.is_average else system))

    def _evaluate_changes(
        self, table: NDArray, matrix: NDArray
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(sums, S, A) of all policies that differ in one state, and (S, A) denominators.

        The denominator is 0 where the action is infeasible, or changes nothing.
        """
        states = np.arange(len(table))
        shape = (-1, self.mdp.n_actions, len(table))
        paid = self.amounts[:, states, table]  # by the policy itself, in a period
        expected = self.mdp.discount * (self.rows @ (matrix @ paid.T)).T.reshape(shape)
        action_values = self.amounts + expected.transpose(0, 2, 1)
        advantages = action_values - action_values[:, states, table][..., None]
        entry_state = self.entries.row % len(table)
        weights = self.entries.data * matrix[self.entries.col, entry_state]
        returns = np.bincount(self.entries.row, weights, expected[0].size).reshape(shape)[0].T
        denominators = 1 - self.mdp.discount * (returns - returns[states, table][:, None])
        visits = self.start @ matrix
        denominators[~self.feasible] = 0.0
        denominators[states, table] = 0.0
        denominators[visits < MIN_VISITS] = 0.0
        changed_visits = visits[:, None] / np.where(denominators, denominators, 1.0)
        current_sums = paid @ visits + self.constants
        return current_sums[:, None, None] + changed_visits * advantages, denominators
