"""What many candidate rules lose, found quickly: the figures that a search goes by.

    loss L = (I - discount P_pi)^-1 gap_pi,   visits d = mu (I - discount P_pi)^-1,

with gap(s, a) = V*(s) - Q*(s, a), 0 where it is a tie. In a small model M = (I - discount P_*)^-1
of the optimal policy is made once; a rule that differs from it in k states, with rows that differ
by D = discount (P_pi - P_*), costs one system of order k (Woodbury):

    L = M_k (I - D M_k)^-1 gap_k,   d = (mu + z D) M,   z = mu M_k (I - D M_k)^-1.

A large model goes through the package's own loop. What is promised in the end rests on a
certificate, never on these figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import eye_array
from scipy.sparse.linalg import spsolve

from tessella.mdp.policy import Policy
from tessella.solvers.evaluate import evaluate
from tessella.solvers.occupancy import occupancy
from tessella.solvers.solution import Solution

SMALL = 1_500  # states of a model whose rows are written out
ENTRIES = 60_000_000  # of all rows together
SWEEPS = 40  # of many rules at once, which bound their losses from below


@dataclass(frozen=True, eq=False)
class Judged:
    """What a rule loses.

    Attributes:
        table: (S,) its actions.
        loss: (S,) V* - V_pi.
        visits: (S,) expected discounted visits from the start.
        mean: the loss from the start.
    """

    table: NDArray[np.int32]
    loss: NDArray[np.float64]
    visits: NDArray[np.float64]
    mean: float

    @property
    def worst(self) -> float:
        return float(self.loss.max())


class Judge:
    """What rules lose in the model of a solution, from one start."""

    def __init__(self, solution: Solution, start: NDArray[np.float64]) -> None:
        self.solution, self.mdp, self.start = solution, solution.mdp, start.ravel()
        self._known: dict[bytes, Judged] = {}

    @cached_property
    def gap(self) -> NDArray[np.float64]:
        """(S, A) V* - Q*, 0 where that is a tie, inf where infeasible."""
        q = self.solution.q.reshape(self.mdp.n_states, -1)
        gap = self.solution.value.reshape(-1, 1) - q
        return np.where(gap <= self.solution.tie_tolerance, 0.0, gap)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        return self.mdp.feasible_mask

    @property
    def small(self) -> bool:
        """Whether the rows are few enough to be written out."""
        n = self.mdp.n_states
        return n <= SMALL and n * n * self.mdp.n_actions <= ENTRIES

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """(A, S, S) transition probabilities of a small model."""
        return np.stack([matrix.toarray() for matrix in self.mdp.to_sparse().transition])

    @property
    def count(self) -> int:
        """How many rules have been judged."""
        return len(self._known)

    def fits(self, table: NDArray) -> bool:
        """Whether a table takes feasible actions only."""
        return bool(self.feasible[np.arange(len(table)), table].all())

    def __call__(self, table: NDArray) -> Judged:
        """What a feasible table of actions loses."""
        table = np.ascontiguousarray(table.ravel(), dtype=np.int32)
        key = table.tobytes()
        if key not in self._known:
            self._known[key] = self._directly(table) if self.small else self._by_loop(table)
        return self._known[key]

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        """(S, S) expected discounted visits under the optimal policy, from each state."""
        best = self.solution.policy.table.ravel()
        everyone = np.arange(len(best))
        system = np.eye(len(best)) - self.mdp.discount * self.rows[best, everyone]
        return np.asarray(np.linalg.inv(system), dtype=np.float64)

    def _directly(self, table: NDArray) -> Judged:
        z, change, columns, lost = self._changed(table, self.start)
        loss = columns @ lost
        visits = (self.start + z @ change) @ self._inverse
        return Judged(table, loss, visits, float(self.start @ loss))

    def _changed(self, table: NDArray, start: NDArray) -> tuple:
        """z, D, M_k and (I - D M_k)^-1 gap_k of a rule."""
        best = self.solution.policy.table.ravel()
        differs = np.flatnonzero(table != best)
        rows = self.rows[table[differs], differs] - self.rows[best[differs], differs]
        change, columns = self.mdp.discount * rows, self._inverse[:, differs]
        system = np.eye(len(differs)) - change @ columns
        lost = np.linalg.solve(system, self.gap[differs, table[differs]])
        return np.linalg.solve(system.T, start @ columns), change, columns, lost

    def own_gaps(self, judged: Judged) -> NDArray[np.float64]:
        """(S, A) max_a Q_pi - Q_pi of a rule of a small model: what it could gain once."""
        after = np.einsum("ast,t->sa", self.rows, judged.loss)
        q = -np.where(self.feasible, self.gap, 0.0) - self.mdp.discount * after  # up to V*(s)
        q[~self.feasible] = -np.inf
        return q.max(axis=1, keepdims=True) - q

    def visits_from(self, judged: Judged, state: int) -> NDArray[np.float64]:
        """(S,) expected discounted visits of a rule of a small model from one state."""
        start = np.eye(1, len(judged.table), state)[0]
        z, change, *_ = self._changed(judged.table, start)
        return (start + z @ change) @ self._inverse

    def _by_loop(self, table: NDArray) -> Judged:
        mdp = self.mdp
        policy = Policy.of(mdp.grid, mdp.actions, table)
        gaps = self.gap[np.isfinite(self.gap)]
        scale = max(float(np.abs(self.solution.value).max()), float(gaps.max())) or 1.0
        worth = evaluate(mdp, policy, tol=1e-8 * scale, guess=self.solution.value, partial=True)
        loss = np.maximum(self.solution.value - worth.value, 0.0).ravel()
        start = self.start.reshape(mdp.grid.shape)
        share = occupancy(mdp, policy, start, tol=1e-4).share.ravel()
        return Judged(table, loss, mdp.criterion.forever(share), float(self.start @ loss))

    @cached_property
    def optimal(self) -> Judged:
        """The optimal policy: its visits are where a search begins."""
        return self(self.solution.policy.table)

    def random(self) -> float:
        """The value from the start of taking every feasible action as often."""
        share = self.feasible / self.feasible.sum(axis=1, keepdims=True)
        model = self.mdp.to_sparse()
        rows = sum(p.multiply(share[:, a : a + 1]) for a, p in enumerate(model.transition))
        reward = (share * np.where(self.feasible, model.reward, 0.0)).sum(axis=1)
        value = spsolve((eye_array(len(reward)) - self.mdp.discount * rows).tocsc(), reward)
        return float(self.start @ value)

    def floors(self, tables: NDArray, worst: bool) -> NDArray[np.float64]:
        """(B,) lower bounds on the losses of (B, S) tables of a small model, by sweeps from 0."""
        everyone = np.arange(tables.shape[1])
        gaps = self.gap[everyone, tables].T  # (S, B)
        loss = gaps.copy()
        for _ in range(SWEEPS):
            after = np.zeros_like(loss)
            for a, rows in enumerate(self.rows):
                taken = np.equal(tables.T, a)
                states = np.flatnonzero(taken.any(axis=1))
                after[states] = np.where(taken[states], rows[states] @ loss, after[states])
            loss = gaps + self.mdp.discount * after
        return loss.max(axis=0) if worst else self.start @ loss
