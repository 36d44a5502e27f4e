"""A model as plain arrays, in the layouts that ``MDP.from_arrays`` and ``MDP.from_pairs`` read.

Rows of infeasible actions are empty. A model that can end has rows that sum to less than 1, which
those builders refuse: what is missing earns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp

    from tessella.mdp.model import MDP

Layout = Literal["ASS", "SAS"]


@dataclass(frozen=True, eq=False)
class SparseModel:
    """One sparse matrix for each action."""

    transition: list[sp.csr_array]  # A matrices (S, S)
    reward: NDArray[np.float64]  # (S, A), -inf where infeasible
    feasible: NDArray[np.bool_]  # (S, A)
    discount: float


@dataclass(frozen=True, eq=False)
class DenseModel:
    """One dense array, (A, S, S) or (S, A, S)."""

    transition: NDArray[np.float64]
    reward: NDArray[np.float64]  # (S, A), -inf where infeasible
    feasible: NDArray[np.bool_]  # (S, A)
    discount: float


@dataclass(frozen=True, eq=False)
class PairModel:
    """The L feasible pairs, in the order of states and then of actions."""

    states: NDArray[np.int64]  # (L,)
    choices: NDArray[np.int64]  # (L,)
    transition: sp.csr_array  # (L, S)
    reward: NDArray[np.float64]  # (L,)
    discount: float


def to_sparse(mdp: MDP) -> SparseModel:
    """See ``MDP.to_sparse``."""
    import scipy.sparse as sp

    mask = mdp.feasible_mask
    matrices = mdp.dynamics.to_sparse()
    if mdp.feasible is not None:
        kept = [sp.diags_array(column.astype(float)) for column in mask.T]
        matrices = [sp.csr_array(keep @ m) for keep, m in zip(kept, matrices, strict=True)]
        for matrix in matrices:
            matrix.eliminate_zeros()
    return SparseModel(matrices, np.where(mask, mdp.reward, -np.inf), mask, mdp.discount)


def to_arrays(mdp: MDP, layout: Layout) -> DenseModel:
    """See ``MDP.to_arrays``."""
    sparse = to_sparse(mdp)
    dense = np.stack([m.toarray() for m in sparse.transition], axis=0 if layout == "ASS" else 1)
    return DenseModel(dense, sparse.reward, sparse.feasible, sparse.discount)


def to_pairs(mdp: MDP) -> PairModel:
    """See ``MDP.to_pairs``."""
    import scipy.sparse as sp

    sparse = to_sparse(mdp)
    states, choices = np.nonzero(sparse.feasible)
    stacked = sp.csr_array(sp.vstack(sparse.transition, format="csr"))
    rows = stacked[choices * mdp.n_states + states]
    return PairModel(states, choices, rows, sparse.reward[states, choices], sparse.discount)
