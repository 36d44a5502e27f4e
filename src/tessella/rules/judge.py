"""What many candidate rules lose, found quickly: the figures that a search goes by.

    loss L = A_pi^-1 gap_pi,   visits d = mu A_pi^-1,   A_pi = I - discount P_pi,

with gap(s, a) = V*(s) - Q*(s, a), 0 where it is a tie. In a small model M = A_*^-1 of the optimal
policy is made once; a rule that differs from it in k states, with rows that differ by
D = discount (P_pi - P_*), costs one system of order k (Woodbury):

    L = M_k (I - D M_k)^-1 gap_k,   d = mu M + z D M,   z = mu M_k (I - D M_k)^-1,

and the rows of D M, one for each state and action, are made when a rule first needs them.

For an average, gap(s, a) = max_b Q*(s, b) - Q*(s, a), A_pi = I - P_pi + 1 mu with mu the same for
all states, and d the long-run shares: d gap_pi = g* - g_pi, the same from every start. A rule must
have one recurrent class then; with a total reward it must end, and where the process has ended the
rows of P are 0. A large model goes through the package's own loops, only as far as losses must be
told apart: its mean loss is d gap_pi, so that the visits are all that is computed, beginning with
those of the optimal policy. Before that, d >= mu makes mu gap_pi a bound from below. What is
promised in the end rests on a certificate, or on bounds that residuals prove, never on these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import block_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu, spsolve

from tessella.criteria.average import ENDS, Average
from tessella.criteria.total import Total
from tessella.errors import ModelError, NotConverged
from tessella.mdp.policy import Policy
from tessella.rounding import EPS
from tessella.solvers.driver import Engine
from tessella.solvers.elimination import Factors
from tessella.solvers.ending import ending_states
from tessella.solvers.evaluate import evaluate
from tessella.solvers.occupancy import visits
from tessella.solvers.solution import Solution

SMALL = 2_000  # states of a model whose rows are written out
ENTRIES = 60_000_000  # of all rows together
TIE = 8  # errors of the gain, within which gaps are 0 where the values have no bound
SPARSE = 0.1  # share of rows that is not 0, up to which they are kept as sparse
SWEEPS = 40  # of many rules at once, which bound their losses from below
FINEST, ROUGHEST = 1e-9, 1e-3  # total errors of the visits of a large model ...
SHARES = 1e-4  # ... and of an average
DIGITS = 1e-8  # losses of a large model are told apart by this share of the values, or by more


@dataclass(frozen=True, eq=False)
class Judged:
    """What a rule loses.

    Attributes:
        table: (S,) its actions.
        loss: (S,) V* - V_pi; for an average, g* - g_pi and what a start loses beyond it. None in a
            large model.
        visits: (S,) expected discounted visits, from the start or from the state that loses most;
            for an average, shares of time. In single precision in a large model.
        mean: the loss from the start.
        worst: the loss from the state that loses most; NaN in a large model where nobody asked.
    """

    table: NDArray[np.int32]
    loss: NDArray[np.float64] | None
    visits: NDArray
    mean: float
    worst: float


class Judge:
    """What rules lose in the model of a solution, from one start.

    With ``worst``, visits of a rule of a small model are those from the state that loses most.
    ``apart`` is the least difference of losses that matters, which large models make use of.
    """

    def __init__(self, solution: Solution, start: NDArray[np.float64], worst: bool = False) -> None:
        self.worst, self.apart = worst, 0.0
        self.solution, self.mdp, self.start = solution, solution.mdp, start.ravel()
        self.lasting = isinstance(self.mdp.criterion, Average)
        self.ending = isinstance(self.mdp.criterion, Total)
        if self.lasting:  # the start is forgotten
            self.start = self.mdp.criterion.source(self.start)
        self._known: dict[bytes, Judged | None] = {}

    @cached_property
    def gap(self) -> NDArray[np.float64]:
        """(S, A) V* - Q*, 0 where that is a tie, inf where infeasible."""
        q = self.solution.q.reshape(self.mdp.n_states, -1)
        best = q.max(axis=1) if self.lasting else self.solution.value.ravel()
        gap = best[:, None] - q
        return np.where(gap <= self.tie, 0.0, gap)

    @property
    def stakes(self) -> NDArray[np.float64]:
        """(S,) what the second-best action loses; 0 where there is none."""
        second = np.sort(self.gap, axis=1)[:, min(1, self.mdp.n_actions - 1)]
        return np.where(np.isfinite(second), second, 0.0)

    @property
    def tie(self) -> float:
        """Gaps up to this are taken for 0; where nothing bounds the values, what rounding makes."""
        known = self.solution.tie_tolerance
        if np.isfinite(known):
            return known
        rounding = EPS * (self.mdp.dynamics.terms + 8) * float(np.ptp(self.solution.value))
        return TIE * (self.solution.error_bound + rounding)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        return self.mdp.feasible_mask

    @property
    def small(self) -> bool:
        """Whether the rows are few enough to be written out."""
        n = self.mdp.n_states
        return n <= SMALL and n * n * self.mdp.n_actions <= ENTRIES

    @cached_property
    def _ends(self) -> NDArray[np.bool_]:
        """(S,) where a process of total rewards has ended."""
        if not self.ending:
            return np.zeros(self.mdp.n_states, dtype=bool)
        return ending_states(Engine(self.mdp, None)).ravel()

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """(A, S, S) transition probabilities of a small model, 0 where it has ended."""
        made = np.stack([matrix.toarray() for matrix in self.mdp.to_sparse().transition])
        made[:, self._ends] = 0.0
        return made

    def _chain(self, table: NDArray) -> csr_array:
        """(S, S) the rows of a table, 0 where the process has ended."""
        if self.small:
            return csr_array(self.rows[table, np.arange(len(table))])
        parts = self.mdp.to_sparse().transition
        taken = [diags_array(((table == a) & ~self._ends).astype(float)) for a in range(len(parts))]
        return csr_array(sum(t @ p for t, p in zip(taken, parts, strict=True)))

    @property
    def count(self) -> int:
        """How many rules have been judged."""
        return len(self._known)

    def fits(self, table: NDArray) -> bool:
        """Whether a table takes feasible actions, and its chains are such that it has a loss."""
        if not self.feasible[np.arange(len(table)), table].all():
            return False
        return not (self.lasting or self.ending) or self._found(table) is not None

    def _goes_on(self, chain: csr_array) -> int:
        """How many sets of states a chain never leaves, once there, and does not end in."""
        chain.eliminate_zeros()
        count, of = connected_components(chain, directed=True, connection="strong")
        step = chain.tocoo()
        left = np.zeros(count, dtype=bool)
        left[of[step.row[of[step.row] != of[step.col]]]] = True
        left[of[np.asarray(chain.sum(axis=1)).ravel() < 1 - ENDS]] = True
        return int((~left).sum())

    def __call__(self, table: NDArray) -> Judged:
        """What a table of actions that ``fits`` loses."""
        judged = self._found(table)
        if judged is None:
            raise ModelError("a rule that is judged must have a loss")
        return judged

    def _found(self, table: NDArray) -> Judged | None:
        table = np.ascontiguousarray(table.ravel(), dtype=np.int32)
        key = blake2b(table.tobytes()).digest()
        if key not in self._known:
            self._known[key] = self._judged(table)
        return self._known[key]

    def _judged(self, table: NDArray) -> Judged | None:
        """What a feasible table loses; None if it has no loss."""
        chain = self._chain(table) if self.ending or (self.lasting and self.small) else None
        if chain is not None and self._goes_on(chain) != int(self.lasting):
            return None
        if self.lasting and chain is not None:
            return self._of_chain(table, chain)
        if self.small:
            return self._directly(table)
        return self._by_factors(table) if self.ending else self._by_loop(table)

    def _of_chain(self, table: NDArray, chain: csr_array) -> Judged | None:
        """What a rule loses per period: by its gain, where gaps or rounding do not tell that."""
        aim = DIGITS * self.mdp.dynamics.reward_scale
        if self.tie <= aim and np.isfinite(self.solution.tie_tolerance):
            judged = self._directly(table)
            loss = judged.loss
            assert loss is not None
            rise = self.gap[np.arange(len(table)), table] + chain @ loss - loss  # encloses the loss
            off = np.ptp(rise) + EPS * (len(table) + 8) * np.abs(loss).max()
            if off <= aim and np.isfinite(off):
                return judged
        return self._by_gain(Policy.of(self.mdp.grid, self.mdp.actions, table), 0.0, chain)

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        """(S, S) expected discounted visits under the optimal policy, from each state."""
        best = self.solution.policy.table.ravel()
        everyone = np.arange(len(best))
        system = np.eye(len(best)) - self.mdp.discount * self.rows[best, everyone]
        if self.lasting:
            system = system + self.start
        return np.asarray(np.linalg.inv(system), dtype=np.float64)

    def _directly(self, table: NDArray) -> Judged:
        best = self.solution.policy.table.ravel()
        differs = np.flatnonzero(table != best)
        moved, columns = self._moved(differs, table[differs]), self._inverse[:, differs]
        factors = lu_factor(np.eye(len(differs)) - moved[:, differs], check_finite=False)
        loss = columns @ lu_solve(factors, self.gap[differs, table[differs]], check_finite=False)
        start = self._from(loss)
        z = lu_solve(factors, start @ columns, trans=1, check_finite=False)
        return self._told(table, loss, start @ self._inverse + z @ moved)

    @cached_property
    def _moves(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """(A, S, S) rows D M, and which of them (A, S) have been made."""
        return np.empty_like(self.rows), np.zeros(self.rows.shape[:2], dtype=bool)

    def _moved(self, states: NDArray, actions: NDArray) -> NDArray[np.float64]:
        """(k, S) how the visits move with one period of other actions, D M of these states."""
        made, known = self._moves
        new = ~known[actions, states]
        if new.any():
            s, a = states[new], actions[new]
            best = self.solution.policy.table.ravel()[s]
            change = self.mdp.discount * (self.rows[a, s] - self.rows[best, s])
            made[a, s], known[a, s] = change @ self._inverse, True
        return made[actions, states]

    def sums(self, table: NDArray, paid: NDArray) -> NDArray[np.float64]:
        """(S,) discounted sums A_pi^-1 of what a table pays in each state of a small model."""
        differs = np.flatnonzero(table != self.solution.policy.table.ravel())
        plain = self._inverse @ paid
        moved = self._moved(differs, table[differs])
        system = np.eye(len(differs)) - moved[:, differs]
        return plain + self._inverse[:, differs] @ np.linalg.solve(system, moved @ paid)

    def after(self, worth: NDArray) -> NDArray[np.float64]:
        """(S, A) what is expected of (S,) in the next state of a small model."""
        return np.asarray(self._steps @ worth).reshape(self.mdp.n_actions, -1).T

    @cached_property
    def _steps(self) -> NDArray[np.float64] | csr_array:
        """(A x S, S) all rows, without what is 0 where that is most."""
        flat = self.rows.reshape(-1, self.mdp.n_states)
        return csr_array(flat) if np.count_nonzero(flat) < SPARSE * flat.size else flat

    def _from(self, loss: NDArray) -> NDArray[np.float64]:
        """(S,) where visits are counted from: the start, or the state that loses most."""
        if not self.worst or self.lasting or not loss.any():
            return self.start
        return np.eye(1, len(loss), int(loss.argmax()))[0]

    def _told(self, table: NDArray, loss: NDArray, visits: NDArray) -> Judged:
        mean = float(self.start @ loss)
        return Judged(table, loss, visits, mean, mean if self.lasting else float(loss.max()))

    def own_gaps(self, judged: Judged) -> NDArray[np.float64]:
        """(S, A) max_a Q_pi - Q_pi of a rule of a small model: what it could gain once."""
        assert judged.loss is not None, "the loss of every state is known in small models alone"
        after = self.after(judged.loss)
        q = -np.where(self.feasible, self.gap, 0.0) - self.mdp.discount * after  # up to V*(s)
        q[~self.feasible] = -np.inf
        return q.max(axis=1, keepdims=True) - q

    @cached_property
    def _scale(self) -> float:
        """How large values and gaps are."""
        gaps = self.gap[np.isfinite(self.gap)]
        return max(float(np.abs(self.solution.value).max()), float(gaps.max())) or 1.0

    def floor(self, table: NDArray) -> float:
        """What a table surely loses at least: in the first period, or in the state itself."""
        gaps = self.gap[np.arange(len(table)), table.ravel()]
        if self.lasting:
            return 0.0
        return float(gaps.max() if self.worst else self.start @ gaps)

    def _by_loop(self, table: NDArray) -> Judged | None:
        """A rule of a large model, as far as losses must be told apart."""
        gaps = self.gap[np.arange(len(table)), table]
        best = np.array_equal(table, self.solution.policy.table.ravel())
        if not (best or self.lasting or gaps.any()):
            return Judged(table, None, self.optimal.visits, 0.0, 0.0)
        policy = Policy.of(self.mdp.grid, self.mdp.actions, table)
        tol = max(DIGITS * self._scale, self.apart)
        if self.lasting:
            return self._by_gain(policy, tol)
        seen = self._seen(policy, None if best else self.optimal.visits, tol, float(gaps.max()))
        mean, worst = float(seen @ gaps), np.nan
        if self.worst:
            worth = evaluate(self.mdp, policy, tol=tol, guess=self.solution.value, partial=True)
            worst = float(np.maximum(self.solution.value - worth.value, 0.0).max())
        return Judged(table, None, seen.astype(np.float32), mean, worst)

    def _seen(
        self, policy: Policy, guess: NDArray | None, tol: float, largest: float
    ) -> NDArray[np.float64]:
        """(S,) visits from the start, so near that a loss of ``largest`` each is off by ``tol``."""
        criterion = self.mdp.criterion
        most = criterion.forever(largest)
        near = min(max(tol / most, FINEST), ROUGHEST) if most and not self.worst else ROUGHEST
        start = self.start.reshape(self.mdp.grid.shape)
        begin = None if guess is None else criterion.per_period(guess.astype(float))
        found = visits(self.mdp, policy, start, tol=near, guess=begin)
        return np.asarray(criterion.forever(found.share)).ravel()

    def _by_gain(self, policy: Policy, tol: float, chain: csr_array | None = None) -> Judged | None:
        """By the gains; where those are not known well, what a rule loses at most."""
        best, start = self.solution, self.start.reshape(self.mdp.grid.shape)
        try:
            worth = evaluate(self.mdp, policy, tol=tol or None, guess=best.value, partial=True)
            factors = None if chain is None else Factors.of(chain, np.inf)
            if factors is None:
                share = visits(self.mdp, policy, start, tol=SHARES).share.ravel()
            else:
                share = factors.shares()
        except (ModelError, NotConverged):
            return None
        lost = max((best.gain or 0.0) - (worth.gain or 0.0), 0.0)
        if not (best.converged and worth.converged):
            lost += best.error_bound + worth.error_bound
        apart = (best.value - worth.value).ravel()
        loss = None if chain is None else apart - apart.mean() + lost
        return Judged(policy.table.ravel(), loss, share.astype(np.float32), lost, lost)

    def _by_factors(self, table: NDArray) -> Judged:
        """A large model that ends, by the factors of I - P_pi."""
        factors = splu((eye_array(len(table)) - self._chain(table)).tocsc())
        loss = factors.solve(self.gap[np.arange(len(table)), table])
        return self._told(table, np.maximum(loss, 0.0), factors.solve(self.start, trans="T"))

    @cached_property
    def optimal(self) -> Judged:
        """The optimal policy: its visits are where a search begins."""
        return self(self.solution.policy.table)

    def longest(self) -> float:
        """How much a loss of 1 in every period adds up to, about: that of the optimal policy."""
        return float(self.optimal.visits.sum()) if self.ending else self.mdp.criterion.forever(1.0)

    def best(self) -> float:
        """The optimal value from the start, or the gain."""
        gain = self.solution.gain
        return float(self.start @ self.solution.value.ravel()) if gain is None else float(gain)

    def random(self) -> float:
        """The value from the start of taking every feasible action as often."""
        share = self.feasible / self.feasible.sum(axis=1, keepdims=True)
        model = self.mdp.to_sparse()
        going_on = np.where(self._ends[:, None], 0.0, share)
        rows = sum(p.multiply(going_on[:, a : a + 1]) for a, p in enumerate(model.transition))
        reward = (share * np.where(self.feasible, model.reward, 0.0)).sum(axis=1)
        system = eye_array(len(reward)) - self.mdp.discount * rows
        if not self.lasting:
            return float(self.start @ spsolve(system.tocsc(), reward))
        whole = block_array([[system, np.ones((len(reward), 1))], [self.start[None], None]])
        return float(np.asarray(spsolve(whole.tocsc(), np.append(reward, 0.0)))[-1])

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
