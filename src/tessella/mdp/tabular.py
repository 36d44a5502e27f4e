"""Tabular dynamics: rows ``P(. | s, a)``, identical rows stored once.

With U the distinct rows and ``row_of[s, a]`` the one that (s, a) uses,

    backup(w)[s, a] = r(s, a) + (U w)[row_of[s, a]].

A row may sum to less than 1 where the process can end: what is missing goes nowhere and earns 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.chance import draw
from tessella.mdp.dynamics import Dynamics, Lowered, Steps
from tessella.mdp.rounding import EPS, EXACT, Built, Mass, expected_error, mass_of_rows
from tessella.mdp.scope import Scope

if TYPE_CHECKING:
    import scipy.sparse as sp

DENSE = 0.25  # rows with at least this share of non-zeros are multiplied as a dense matrix
WIDEST = 64  # widest chunk of a sparse row, when row lengths differ much


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Single outcomes of each (state, action), for models that pay by outcome or can end.

    Those of pair ``s * A + a`` stand at ``start[pair]:start[pair + 1]``.
    """

    start: NDArray[np.int64]
    state: NDArray[np.int64]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    ended: NDArray[np.bool_]

    @staticmethod
    def of(
        pair: NDArray,
        n_pairs: int,
        state: NDArray,
        probability: NDArray,
        reward: NDArray,
        ended: NDArray | None = None,
    ) -> Outcomes:
        """From a list of outcomes in any order; ``pair`` says whose each of them is."""
        order = np.argsort(pair, kind="stable")
        count = np.bincount(pair, minlength=n_pairs)
        ended = np.zeros(len(pair), dtype=bool) if ended is None else ended
        return Outcomes(
            np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            state[order].astype(np.int64),
            probability[order],
            reward[order],
            ended[order],
        )

    @property
    def pair(self) -> NDArray[np.int64]:
        """Whose each outcome is."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @property
    def expected_reward(self) -> NDArray[np.float64]:
        """(S * A,) expected over the outcomes, 0 for a pair without any."""
        return self._expected(self.reward)

    def built(self, factors: int = 1) -> Built:
        """What it costs to add up the outcomes that reach one state, and expected rewards.

        Each probability is a product of so many given ``factors``.
        """
        most = int(np.diff(self.start).max(initial=0)) + factors - 1
        merged = most_merged(self.pair, self.state) + factors - 1
        sizes = self._expected(np.abs(self.reward))
        return Built(EPS * merged if merged > 1 else 0.0, expected_error(most, sizes))

    def _expected(self, paid: NDArray) -> NDArray[np.float64]:
        total = np.bincount(self.pair, self.probability * paid, minlength=len(self.start) - 1)
        return total.astype(float)


@dataclass(frozen=True, eq=False)
class Tabular(Dynamics):
    """Dynamics given as arrays; build it with ``MDP.from_arrays`` and its kin."""

    scope: Scope
    rows: sp.csr_array  # (n_rows, S) distinct rows
    row_of: NDArray[np.int32]  # (S, A); 0 where the action is infeasible
    reward: NDArray[np.float64]  # (S, A); 0 where the action is infeasible
    outcomes: Outcomes | None = None
    rounding: Built = EXACT

    @staticmethod
    def build(
        scope: Scope,
        rows: sp.csr_array,
        row_of: NDArray,
        reward: NDArray,
        outcomes: Outcomes | None = None,
        built: Built = EXACT,
    ) -> Tabular:
        """Store each distinct row once; ``row_of`` is -1 where the action is infeasible."""
        distinct, index = unique_rows(rows)
        shared = np.where(row_of < 0, 0, index[row_of]).astype(np.int32)
        return Tabular(scope, distinct, shared, reward, outcomes, built)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scope.grid.shape

    @property
    def n_actions(self) -> int:
        return len(self.scope.actions)

    def row_mass(self) -> Mass:
        return mass_of_rows(self.rows)

    @property
    def built(self) -> Built:
        return self.rounding

    @property
    def written(self) -> Built:
        return self.rounding

    @property
    def longest_row(self) -> int:
        return int(np.diff(self.rows.indptr).max())

    @property
    def terms(self) -> int:
        return self.longest_row + 2

    @property
    def adjoint_terms(self) -> int:
        shared = max(int(np.bincount(rows).max()) for rows in self.row_of.T)
        reached = int(np.bincount(self.rows.indices, minlength=1).max())
        return shared + reached + 2

    @property
    def reward_scale(self) -> float:
        return float(np.abs(self.reward).max())

    def lower(self) -> Lowered:
        from tessella.mdp import programs
        from tessella.mdp.engine import on_device

        rows, arrays = _lower_rows(self.rows, self.scope.grid.size)
        arrays["row_of"] = np.ascontiguousarray(self.row_of.T)
        arrays["reward"] = np.ascontiguousarray(self.reward.T)
        program = programs.TabularProgram(rows, self.n_actions, self.shape)
        return Lowered(program, on_device(arrays))

    def worth(self, policy: NDArray, discount: float) -> NDArray[np.float64]:
        """(S,) value of a policy by a sparse LU solve, where iterations get nowhere."""
        from scipy.sparse.linalg import splu

        s, a = np.arange(len(self.row_of)), policy.ravel()
        return splu(self.system(policy, discount)).solve(self.reward[s, a])

    def system(self, policy: NDArray, discount: float) -> sp.csc_array:
        """(S, S) ``I - discount P_pi``."""
        from scipy.sparse import csc_array, eye_array

        n = len(self.row_of)
        rows = self.rows[self.row_of[np.arange(n), policy.ravel()]]
        return csc_array(eye_array(n, format="csr") - discount * rows)

    def to_sparse(self) -> list[sp.csr_array]:
        return [self.rows[self.row_of[:, a]] for a in range(self.n_actions)]

    def expected_reward(self) -> NDArray[np.float64]:
        return self.reward.copy()

    def step(self, states, actions, rng) -> Steps:
        if self.outcomes is None:
            which = self.row_of[states, actions]
            entry = draw_entries(self.rows.indptr, self.rows.data, which, rng)
            ended = np.zeros(len(states), dtype=bool)
            next_states = self.rows.indices[entry].astype(np.int64)
            return Steps(next_states, self.reward[states, actions], ended)
        o = self.outcomes
        entry = draw_entries(o.start, o.probability, states * self.n_actions + actions, rng)
        return Steps(o.state[entry], o.reward[entry], o.ended[entry])


def most_merged(row: NDArray, column: NDArray) -> int:
    """How many entries at most stand at one place of a matrix."""
    if not len(row):
        return 0
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    new = np.concatenate([[True], (row[1:] != row[:-1]) | (column[1:] != column[:-1])])
    return int(np.diff(np.append(np.flatnonzero(new), len(row))).max())


def draw_entries(start: NDArray, p: NDArray, which: NDArray, rng: np.random.Generator) -> NDArray:
    """For each row in ``which``, the position of one of its entries, drawn by its probability."""
    lengths = start[which + 1] - start[which]
    width = int(lengths.max())
    column = np.arange(width)
    inside = column < lengths[:, None]
    entry = np.where(inside, start[which][:, None] + column, start[which][:, None])
    rows = np.where(inside, p[entry], 0.0)
    k = np.minimum(draw(rows, rng), lengths - 1)
    return start[which] + k


def unique_rows(rows: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Distinct rows, and for each row the position of its like among them."""
    rows.sum_duplicates()
    keys = _row_hashes(rows)
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    distinct = rows[first]
    if not _same(rows, distinct, index):  # two rows met in one hash: keep all
        return rows, np.arange(len(keys))
    return distinct, index


def _row_hashes(rows: sp.csr_array) -> NDArray[np.uint64]:
    """A 64-bit hash of each row's columns and probability bits."""
    with np.errstate(over="ignore"):
        bits = (rows.data + 0.0).view(np.uint64)
        column = (rows.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (bits ^ column) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * (column | np.uint64(1))
        mixed ^= mixed >> np.uint64(32)
        lengths = np.diff(rows.indptr)
        total = np.zeros(len(lengths), dtype=np.uint64)
        filled = lengths > 0
        if filled.any():
            total[filled] = np.add.reduceat(mixed, rows.indptr[:-1][filled])
        return total * np.uint64(3) + lengths.astype(np.uint64)


def _same(rows: sp.csr_array, distinct: sp.csr_array, index: NDArray) -> bool:
    lengths = np.diff(rows.indptr)
    if not np.array_equal(lengths, np.diff(distinct.indptr)[index]):
        return False
    starts = np.repeat(distinct.indptr[index] - rows.indptr[:-1], lengths)
    entry = np.arange(rows.nnz) + starts
    return bool(
        np.array_equal(rows.indices, distinct.indices[entry])
        and np.array_equal(rows.data, distinct.data[entry])
    )


def bucket(n: int) -> int:
    """The next size of a coarse scale, so that models of nearly one size share compiled code."""
    step = 1 << max(n.bit_length() - 4, 0)
    return max(-(-n // step) * step, 8)


def _padded(rows: sp.csr_array, n_states: int) -> sp.csr_array:
    """``rows`` with empty rows below, up to the next size of the scale."""
    import scipy.sparse as sp

    n_rows = len(rows.indptr) - 1
    full = bucket(n_rows)
    indptr = np.concatenate([rows.indptr, np.full(full - n_rows, rows.indptr[-1])])
    return sp.csr_array((rows.data, rows.indices, indptr), shape=(full, n_states))


def _lower_rows(rows: sp.csr_array, n_states: int):
    """The compiled form of (n_rows, S) rows, and its arrays."""
    from tessella.mdp import programs

    rows = _padded(rows, n_states)
    n_rows = len(rows.indptr) - 1
    if rows.nnz >= DENSE * n_rows * n_states:
        return programs.DenseRows(), {"rows": rows.toarray()}
    lengths = np.diff(rows.indptr)
    longest = int(lengths.max())
    even = longest * n_rows <= 2 * rows.nnz
    width = bucket(longest) if even else min(longest, WIDEST, max(1, int(np.ceil(lengths.mean()))))
    chunks = np.maximum(-(-lengths // width), 1)
    if not even:
        chunks[-1] += bucket(int(chunks.sum())) - chunks.sum()
    row_of_chunk = np.repeat(np.arange(n_rows), chunks)
    first = np.concatenate([[0], np.cumsum(chunks)])
    entry_row = np.repeat(np.arange(n_rows), lengths)
    within = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
    chunk, place = first[entry_row] + within // width, within % width
    columns = np.zeros((len(row_of_chunk), width), dtype=np.int32)
    probs = np.zeros((len(row_of_chunk), width))
    columns[chunk, place] = rows.indices
    probs[chunk, place] = rows.data
    arrays = {"columns": columns, "probs": probs}
    split = bool((chunks > 1).any())
    if split:
        arrays["row_of_chunk"] = row_of_chunk.astype(np.int32)
    return programs.SparseRows(n_rows, split), arrays
