"""Stages as one sparse matrix: the product of theirs under an action, P = E_1 E_2 ... E_m.

Each factor has the rows of those states alone that the stages before it can reach: a scratch axis
that an action sets has one value then, not all of them. The product is made from the last stage on,
so that no entry adds up more terms than a stage has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.stages.operation import Operation


def stage_product(operations: Sequence[Operation], action: int, later=None):
    """Sparse matrix of some stages under an action, and of what comes later."""
    if not operations:
        assert later is not None
        return later.copy()
    matrices = []
    reachable = None
    for operation in operations[:-1]:
        matrix, reachable = _drop_empty_columns(_stage_matrix(operation, action, reachable))
        matrices.append(matrix)
    last = _stage_matrix(operations[-1], action, reachable)
    rows = last if later is None else last @ later
    for matrix in reversed(matrices):
        rows = matrix @ rows
    return rows


def rows_of_states(operations: Sequence[Operation], action: int, states: NDArray[np.integer]):
    """Sparse rows of some states under an action, one stage after the other."""
    import scipy.sparse as sp

    rows = sp.csr_array(sp.eye_array(len(states)))
    live = states
    for operation in operations:
        matrix, live = _drop_empty_columns(_stage_matrix(operation, action, live))
        rows = sp.csr_array(rows @ matrix)
    return rows


def count_outcomes(operation: Operation) -> int:
    """States and outcomes of a stage under one action: all are looked at to make its matrix."""
    return math.prod(operation.shape) * max(operation.rounding_terms, 1)


def _drop_empty_columns(matrix):
    """A sparse matrix without its empty columns, and where the others stood."""
    import scipy.sparse as sp

    reached = np.zeros(matrix.shape[1], dtype=bool)
    reached[matrix.indices] = True
    live = np.flatnonzero(reached)
    place = np.cumsum(reached) - 1
    parts = matrix.data, place[matrix.indices], matrix.indptr
    return sp.csr_array(parts, shape=(matrix.shape[0], len(live))), live


def _stage_matrix(operation: Operation, action: int, live: NDArray | None):
    """Sparse matrix of one stage, from the ``live`` states before it (or all) to those after it."""
    import scipy.sparse as sp

    n = math.prod(operation.shape) if live is None else len(live)
    data = []
    source = []
    target = []
    for to, p in operation.outcomes(action):
        to, p = (a.ravel() if live is None else a.ravel()[live] for a in (to, p))
        kept = np.flatnonzero(p)
        data.append(p[kept])
        source.append(kept)
        target.append(to[kept])
    entries = (np.concatenate(source), np.concatenate(target))
    shape = n, math.prod(operation.output_shape)
    return sp.csr_array((np.concatenate(data), entries), shape=shape)
