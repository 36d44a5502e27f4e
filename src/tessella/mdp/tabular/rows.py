"""Rows of probabilities: each stored once, sampled, and multiplied, compiled or by NumPy.

Compiled code cuts sparse rows into chunks of equal width, and multiplies rows that are nearly full
as a dense matrix. Their number is rounded up, so that models of nearly one size share compiled
code.

``RowBackend`` multiplies rows by NumPy and SciPy, on a CPU, without compilation. With U the
distinct rows, a sweep over all actions is one product U w, from which every action selects its
entries. A sweep of one policy needs the rows of that policy only: they are selected once, and kept
while the policy stays the same. Where there are fewer distinct rows than states, all of them are
multiplied instead. A run begins at w = 0, where U w is 0. A call of NumPy takes as long as some
hundred products, so the actions of a small table are compared in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.grid import index_type
from tessella.mdp.dynamics import Backend, draw_indices

if TYPE_CHECKING:
    import scipy.sparse as sp

# Rows with at least this share of non-zeros are multiplied as a dense matrix.
DENSE_MIN_SHARE = 0.25
CHUNK_MAX_ENTRIES = 64  # widest chunk of a sparse row, when row lengths differ much


def count_max_repeats(row: NDArray, column: NDArray) -> int:
    """The largest number of entries that share one position of a matrix."""
    positions = row.astype(np.int64) * (1 + int(column.max(initial=0))) + column
    return int(np.unique(positions, return_counts=True)[1].max(initial=0))


def draw_entries(
    row_starts: NDArray, probs: NDArray, row_indices: NDArray, rng: np.random.Generator
) -> NDArray:
    """For each of ``row_indices``, the position of one of its entries, drawn by its probability."""
    lengths = row_starts[row_indices + 1] - row_starts[row_indices]
    width = int(lengths.max())
    column = np.arange(width)
    is_entry = column < lengths[:, None]
    entry = np.where(
        is_entry, row_starts[row_indices][:, None] + column, row_starts[row_indices][:, None]
    )
    rows = np.where(is_entry, probs[entry], 0.0)
    k = np.minimum(draw_indices(np.cumsum(rows, axis=-1), rng), lengths - 1)
    return row_starts[row_indices] + k


def find_first(keys: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each distinct key first occurs, ascending, and which of these each key equals."""
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[index]


def find_unique_rows(rows: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Distinct rows in the order of their first occurrence, and which of them each row equals.

    Equal rows have equal products with any vector, to the last bit, so that a random vector
    distinguishes nearly all others at the cost of one product; a comparison finds the rest.
    """
    rows.sum_duplicates()
    keys = rows @ np.random.default_rng(0).random(int(np.asarray(rows.shape)[1]))
    identity = np.arange(len(keys))
    ordered = np.sort(keys)
    if (ordered[1:] != ordered[:-1]).all():
        return rows, identity
    first, index = find_first(keys)
    distinct = rows[first]
    if not _are_rows_equal(rows, distinct, index):  # two different rows have the same product
        return rows, identity
    return distinct, index


def _are_rows_equal(rows: sp.csr_array, distinct: sp.csr_array, index: NDArray) -> bool:
    lengths = np.diff(rows.indptr)
    if not np.array_equal(lengths, np.diff(distinct.indptr)[index]):
        return False
    starts = np.repeat(distinct.indptr[index] - rows.indptr[:-1], lengths)
    entry = np.arange(rows.nnz) + starts
    return bool(
        np.array_equal(rows.indices, distinct.indices[entry])
        and np.array_equal(rows.data, distinct.data[entry])
    )


def round_up_size(n: int) -> int:
    """The next size of a coarse scale, so that models of nearly one size share compiled code."""
    step = 1 << max(n.bit_length() - 4, 0)
    return max(-(-n // step) * step, 8)


def compile_rows(given: sp.csr_array, n_states: int) -> dict[str, NDArray]:
    """The arrays of (n_rows, S) rows for ``CompiledRowBackend``, with empty rows at the end."""
    import scipy.sparse as sp

    n_rows = round_up_size(len(given.indptr) - 1)
    indptr = np.pad(given.indptr, (0, n_rows + 1 - len(given.indptr)), mode="edge")
    rows = sp.csr_array((given.data, given.indices, indptr), shape=(n_rows, n_states))
    if rows.nnz >= DENSE_MIN_SHARE * n_rows * n_states:
        return {"rows": rows.toarray()}
    lengths = np.diff(rows.indptr)
    max_length = int(lengths.max())
    is_even = max_length * n_rows <= 2 * rows.nnz
    width = (
        round_up_size(max_length)
        if is_even
        else min(max_length, CHUNK_MAX_ENTRIES, max(1, int(np.ceil(lengths.mean()))))
    )
    chunks = np.maximum(-(-lengths // width), 1)
    if not is_even:
        chunks[-1] += round_up_size(int(chunks.sum())) - chunks.sum()
    row_of_chunk = np.repeat(np.arange(n_rows), chunks)
    first_chunk = np.cumsum(chunks) - chunks
    first_entry = width * (np.arange(len(row_of_chunk)) - first_chunk[row_of_chunk])
    arrays = fill_chunks(rows, np.clip(lengths[row_of_chunk] - first_entry, 0, width), width)
    if (chunks > 1).any():
        arrays["row_of_chunk"] = row_of_chunk.astype(index_type(n_rows))
    return arrays


def fill_chunks(rows: sp.csr_array, lengths: NDArray, width: int) -> dict[str, NDArray]:
    """The entries of ``rows``, cut into chunks of these ``lengths`` that are filled up by zeros."""
    is_entry = np.arange(width) < lengths[:, None]
    columns = np.zeros(is_entry.shape, dtype=index_type(int(np.asarray(rows.shape)[1])))
    probs = np.zeros(is_entry.shape)
    columns[is_entry] = rows.indices
    probs[is_entry] = rows.data
    return {"columns": columns, "probs": probs}


@dataclass(frozen=True)
class CompiledRowBackend(Backend):
    """The compiled side: each distinct row once, looked up by state and action."""

    n_rows: int
    n_actions: int
    shape: tuple[int, ...]

    def shared_backup(self, arrays, w_S, include_reward):
        import jax
        import jax.numpy as jnp

        flat = w_S.ravel()
        if "rows" in arrays:
            return arrays["rows"] @ flat
        chunks = (arrays["probs"] * jnp.take(flat, arrays["columns"], mode="clip")).sum(axis=1)
        if "row_of_chunk" not in arrays:
            return chunks
        row = arrays["row_of_chunk"]
        return jax.ops.segment_sum(chunks, row, self.n_rows, indices_are_sorted=True)

    def action_backup(self, arrays, w, action, include_reward):
        from jax import lax

        def select(array):
            return lax.dynamic_index_in_dim(array, action, 0, keepdims=False)

        return self._look_up(arrays, w, select, include_reward)

    def supports_policy_arrays(self, arrays) -> bool:
        return True

    def finish_policy_backup(self, arrays, w, policy, include_reward):
        import jax.numpy as jnp

        actions = policy.ravel()[None]

        def select(array):
            return jnp.take_along_axis(array, actions, 0, mode="clip")[0]

        return self._look_up(arrays, w, select, include_reward)

    def _look_up(self, arrays, w, select, include_reward):
        """The products of the rows that ``select`` takes, and the rewards."""
        import jax.numpy as jnp

        q_S = jnp.take(w, select(arrays["row_of"]), mode="clip")
        if include_reward:
            q_S = q_S + select(arrays["reward"])
        return q_S.reshape(self.shape)


@dataclass(frozen=True)
class RowLayout:
    """How rows are stored, and how their linear systems are solved: an execution plan decides."""

    dense: bool = False  # rows are a dense matrix
    sweeps_are_cheap: bool = False  # sweeps over all actions hold all action values at once
    has_long_rows: bool = False  # the factors of a linear system would fill up
    dense_solve_max_states: int = 0  # states up to which a linear system is solved as a dense one


LayoutRule = Callable[[Any, int], RowLayout]  # sparse rows, pairs of states and actions -> layout


@dataclass(eq=False)
class RowArrays:
    """The rows and rewards of a model, as NumPy multiplies them."""

    rows: Any  # (U, S) sparse or dense
    row_of: NDArray[np.integer]  # (A, S)
    reward: NDArray[np.float64]  # (A, S)
    row_slices: tuple[slice, ...] | None  # each action's rows, if their indices are regular
    layout: RowLayout
    _last: tuple[bytes, PolicyRows] | None = field(default=None, init=False, repr=False)

    @staticmethod
    def build(rows: Any, row_of: NDArray, reward: NDArray, layout: RowLayout) -> RowArrays:
        """From distinct sparse rows (U, S), and row indices and rewards (S, A)."""
        index_dtype = np.intp if layout.sweeps_are_cheap else None
        row_by_action = np.ascontiguousarray(row_of.T, dtype=index_dtype)
        reward_by_action = np.ascontiguousarray(reward.T)
        stored_rows = rows.toarray() if layout.dense else rows
        return RowArrays(
            stored_rows, row_by_action, reward_by_action, _find_regular_slices(row_of), layout
        )

    def policy_rows(self, policy: NDArray) -> PolicyRows:
        """The rows of one policy; those of the last policy are kept."""
        content = policy.tobytes()
        if self._last is None or self._last[0] != content:
            self._last = content, self._select_rows(policy.ravel())
        return self._last[1]

    def _select_rows(self, actions: NDArray) -> PolicyRows:
        """The rows of (S,) actions."""
        states = np.arange(len(actions))
        row_index = self.row_of[actions, states]
        reward = self.reward[actions, states]
        if self.rows.shape[0] <= len(actions):
            return PolicyRows(self.rows, row_index, reward, self.layout)
        return PolicyRows(self.rows[row_index], None, reward, self.layout)


def _find_regular_slices(row_of: NDArray) -> tuple[slice, ...] | None:
    """The slice of each action's rows, if the rows are those of all pairs in order; else None."""
    n, n_actions = row_of.shape
    pair_index = np.arange(row_of.size)
    if (row_of.ravel() == pair_index).all():
        return tuple(slice(a, None, n_actions) for a in range(n_actions))
    if (row_of.T.ravel() == pair_index).all():
        return tuple(slice(a * n, (a + 1) * n) for a in range(n_actions))
    return None


@dataclass(frozen=True, eq=False)
class PolicyRows:
    """The rows of one policy, or all distinct rows with the index of the policy's row."""

    rows: Any
    row_index: NDArray[np.integer] | None
    reward: NDArray[np.float64]
    layout: RowLayout = RowLayout()

    def expect(self, w: NDArray) -> NDArray[np.float64]:
        """(S,) P_pi w."""
        expected = self.rows @ w
        return expected if self.row_index is None else expected[self.row_index]

    def solve_system(self, rhs: NDArray, discount: float) -> NDArray[np.float64]:
        """(S,) the solution of (I - discount P_pi) x = rhs."""
        import scipy.sparse as sp
        from scipy.sparse.linalg import splu

        rows = self.rows if self.row_index is None else self.rows[self.row_index]
        n = len(rhs)
        is_dense = isinstance(rows, np.ndarray)
        if n <= self.layout.dense_solve_max_states or (
            is_dense and np.count_nonzero(rows) >= DENSE_MIN_SHARE * rows.size
        ):
            system = -discount * (rows if is_dense else rows.toarray())
            system.ravel()[:: n + 1] += 1
            return np.asarray(np.linalg.solve(system, rhs), dtype=np.float64)
        # Rows of I - discount P, with the 1 of I first, are the columns of its transpose.
        rows = sp.csr_array(rows) if is_dense else rows
        states = np.arange(n + 1, dtype=np.int32)
        first = rows.indptr[:-1]
        entries = np.insert(-discount * rows.data, first, 1.0)
        columns = np.insert(rows.indices, first, states[:-1])
        system = sp.csc_array((entries, columns, rows.indptr + states), shape=(n, n))
        return splu(system).solve(rhs, "T")

    def adjoint(self, x: NDArray) -> NDArray[np.float64]:
        """(S,) P_pi' x."""
        if self.row_index is not None:
            x = np.bincount(self.row_index, x, minlength=self.rows.shape[0])
        return self.rows.T @ x


@dataclass(frozen=True)
class RowBackend(Backend):
    """The backward pass of a table."""

    n_actions: int
    shape: tuple[int, ...]
    is_compiled: ClassVar[bool] = False
    has_direct_solve: ClassVar[bool] = True
    has_separate_reward: ClassVar[bool] = True

    def shared_backup(self, arrays: RowArrays, w_S, include_reward):
        if not w_S.any():
            return np.zeros(arrays.rows.shape[0])
        return arrays.rows @ w_S.ravel()

    def action_backup(self, arrays: RowArrays, w, action, include_reward):
        slices = arrays.row_slices
        q_S = w[arrays.row_of[action] if slices is None else slices[action]]
        return (q_S + arrays.reward[action] if include_reward else q_S).reshape(self.shape)

    def sweeps_are_cheap(self, arrays: RowArrays) -> bool:
        return arrays.layout.sweeps_are_cheap

    def has_long_rows(self, arrays: RowArrays) -> bool:
        return arrays.layout.has_long_rows

    def all_action_values(self, arrays: RowArrays, w_S):
        if not arrays.layout.sweeps_are_cheap:
            return None
        q_AS = (arrays.rows @ w_S.ravel()).take(arrays.row_of)
        q_AS += arrays.reward
        return q_AS.reshape(self.n_actions, *self.shape)

    def policy_backup(self, arrays: RowArrays, w_S, policy, include_reward):
        policy_rows = arrays.policy_rows(policy)
        expected = policy_rows.expect(w_S.ravel())
        return (expected + policy_rows.reward if include_reward else expected).reshape(self.shape)

    def solve_policy_system(self, arrays: RowArrays, rhs, policy, discount):
        rows = arrays.policy_rows(policy)
        return rows.solve_system(rhs.ravel(), discount).reshape(self.shape)

    def policy_adjoint(self, arrays: RowArrays, policy, template):
        rows = arrays.policy_rows(policy)
        return lambda x: rows.adjoint(x.ravel()).reshape(self.shape)
