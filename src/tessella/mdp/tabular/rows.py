"""Rows of probabilities: stored once each, drawn from, and multiplied by compiled code.

Sparse rows are cut into chunks of equal width, and rows that are nearly full multiplied as a dense
matrix. Their number is rounded up, so that models of nearly one size share compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.grid import index_type
from tessella.mdp.sampling import draw_indices

if TYPE_CHECKING:
    import scipy.sparse as sp

# Rows with at least this share of non-zeros are multiplied as a dense matrix.
DENSE_MIN_SHARE = 0.25
CHUNK_MAX_ENTRIES = 64  # widest chunk of a sparse row, when row lengths differ much


def max_repeats(row: NDArray, column: NDArray) -> int:
    """How many entries at most stand at one place of a matrix."""
    if not len(row):
        return 0
    order = np.lexsort((column, row))
    row = row[order]
    column = column[order]
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
    k = np.minimum(draw_indices(rows, rng), lengths - 1)
    return start[which] + k


def unique_rows(rows: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Distinct rows in the order in which they first stand, and for each row its equal's place.

    Equal rows have equal products with any vector, to the last bit, so that a random one tells
    nearly all others apart at the cost of one product; those it does not are found by comparing.
    """
    rows.sum_duplicates()
    keys = rows @ np.random.default_rng(0).random(int(np.asarray(rows.shape)[1]))
    everyone = np.arange(len(keys))
    ordered = np.sort(keys)
    if (ordered[1:] != ordered[:-1]).all():
        return rows, everyone
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first = first[order]
    index = place[index]
    distinct = rows[first]
    if not _rows_equal(rows, distinct, index):  # two rows met in one product: keep all
        return rows, everyone
    return distinct, index


def _rows_equal(rows: sp.csr_array, distinct: sp.csr_array, index: NDArray) -> bool:
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


def _pad_rows(rows: sp.csr_array, n_states: int) -> sp.csr_array:
    """``rows`` with empty rows below, up to the next size of the scale."""
    import scipy.sparse as sp

    n_rows = len(rows.indptr) - 1
    full = round_up_size(n_rows)
    indptr = np.concatenate([rows.indptr, np.full(full - n_rows, rows.indptr[-1])])
    return sp.csr_array((rows.data, rows.indices, indptr), shape=(full, n_states))


def compile_rows(rows: sp.csr_array, n_states: int):
    """The compiled form of (n_rows, S) rows, and its arrays."""
    rows = _pad_rows(rows, n_states)
    n_rows = len(rows.indptr) - 1
    if rows.nnz >= DENSE_MIN_SHARE * n_rows * n_states:
        return DenseRows(), {"rows": rows.toarray()}
    lengths = np.diff(rows.indptr)
    longest = int(lengths.max())
    even = longest * n_rows <= 2 * rows.nnz
    width = (
        round_up_size(longest)
        if even
        else min(longest, CHUNK_MAX_ENTRIES, max(1, int(np.ceil(lengths.mean()))))
    )
    chunks = np.maximum(-(-lengths // width), 1)
    if not even:
        chunks[-1] += round_up_size(int(chunks.sum())) - chunks.sum()
    row_of_chunk = np.repeat(np.arange(n_rows), chunks)
    first = np.concatenate([[0], np.cumsum(chunks)])
    entry_row = np.repeat(np.arange(n_rows), lengths)
    within = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
    chunk = first[entry_row] + within // width
    place = within % width
    columns = np.zeros((len(row_of_chunk), width), dtype=index_type(n_states))
    probs = np.zeros((len(row_of_chunk), width))
    columns[chunk, place] = rows.indices
    probs[chunk, place] = rows.data
    arrays = {"columns": columns, "probs": probs}
    split = bool((chunks > 1).any())
    if split:
        arrays["row_of_chunk"] = row_of_chunk.astype(index_type(n_rows))
    return SparseRows(n_rows, split), arrays


@dataclass(frozen=True)
class DenseRows:
    """The compiled side: ``rows @ w`` with (n_rows, S) dense rows."""

    def product(self, arrays, flat):
        return arrays["rows"] @ flat


@dataclass(frozen=True)
class SparseRows:
    """The compiled side of rows cut into chunks; ``split`` when some row needs several."""

    n_rows: int
    split: bool

    def product(self, arrays, flat):
        import jax
        import jax.numpy as jnp

        chunks = (arrays["probs"] * jnp.take(flat, arrays["columns"], mode="clip")).sum(axis=1)
        if not self.split:
            return chunks
        return jax.ops.segment_sum(
            chunks, arrays["row_of_chunk"], self.n_rows, indices_are_sorted=True
        )
