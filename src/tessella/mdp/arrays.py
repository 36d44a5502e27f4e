"""Models from arrays: the layouts of pymdptoolbox and QuantEcon, checked at the door.

Whatever the layout, what is kept is one row ``P(. | s, a)`` for each of the L feasible pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid
from tessella.mdp.model import MDP, Feasible, _mask, assemble, make_scope
from tessella.mdp.scope import SUM_TOLERANCE, Scope, as_numbers
from tessella.mdp.tabular import Outcomes, Tabular

Layout = Literal["ASS", "SAS"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """L state-action pairs and their rows."""

    scope: Scope
    states: NDArray[np.int64]  # (L,)
    choices: NDArray[np.int64]  # (L,)
    rows: sp.csr_array  # (L, S)

    def describe(self, pair: int) -> str:
        s, a = int(self.states[pair]), int(self.choices[pair])
        return (
            f"{self.scope.grid.describe(s)}, {self.scope.action_name}={self.scope.actions[a]}"
        )

    def refuse(self, rule: str, bad: NDArray, value: str, noun: str) -> None:
        """Raise for the first of the ``bad`` pairs; ``value`` has a slot for the pair's number."""
        where = np.flatnonzero(bad)
        if where.size:
            raise ModelError(
                rule, self.describe(where[0]), value, int(where.size), len(self.states), noun
            )


def from_arrays(
    transition: Any,
    reward: Any,
    discount: float,
    layout: Layout,
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Sequence | None,
    feasible: Feasible,
    action_name: str,
    name: str,
    parameters: Mapping[str, Any] | None,
) -> MDP:
    """See ``MDP.from_arrays``."""
    if layout not in ("ASS", "SAS"):
        raise ModelError(f"layout must be 'ASS' or 'SAS'; got {layout!r}")
    matrices = _matrices(transition, layout)
    n_states, n_actions = matrices[0].shape[0], len(matrices)
    scope = _scope(grid, actions, action_name, n_states, n_actions)
    mask = np.ones((n_states, n_actions), bool) if feasible is None else _mask(scope, feasible)
    states, choices = np.nonzero(mask)
    stacked = sp.vstack(matrices, format="csr")
    rows = sp.csr_array(stacked[choices * n_states + states])
    pairs = Pairs(scope, states, choices, rows)
    check_rows(pairs)
    expected, by_outcome = _rewards(pairs, reward, layout, n_actions)
    return _model(pairs, expected, by_outcome, discount, name, parameters)


def from_pairs(
    states: ArrayLike,
    choices: ArrayLike,
    transition: Any,
    reward: ArrayLike,
    discount: float,
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Sequence | None,
    action_name: str,
    name: str,
    parameters: Mapping[str, Any] | None,
) -> MDP:
    """See ``MDP.from_pairs``."""
    s, a = _indices(states, "states"), _indices(choices, "choices")
    rows = _matrix(transition, "transition")
    if not len(s) == len(a) == rows.shape[0]:
        raise ModelError(
            "states, choices and transition rows must be equally many; "
            f"got {len(s)}, {len(a)}, {rows.shape[0]}"
        )
    n_actions = len(actions) if actions is not None else int(a.max()) + 1
    scope = _scope(grid, actions, action_name, rows.shape[1], n_actions)
    for index, count, what in ((s, scope.grid.size, "state"), (a, n_actions, "action")):
        bad = np.flatnonzero((index < 0) | (index >= count))
        if bad.size:
            raise ModelError(
                f"{what} indices must lie in 0..{count - 1}",
                f"pair {bad[0]}",
                f"has {index[bad[0]]}",
                bad.size,
                len(index),
                "pairs",
            )
    pairs = Pairs(scope, s, a, rows)
    _refuse_repeats(pairs)
    check_rows(pairs)
    expected = _numeric_reward(pairs, np.asarray(reward), (len(s),))
    return _model(pairs, expected, None, discount, name, parameters)


def check_rows(pairs: Pairs) -> None:
    """Refuse rows that are not probability distributions."""
    rows = pairs.rows
    lengths = np.diff(rows.indptr)
    owner = np.repeat(np.arange(rows.shape[0]), lengths)
    what = "transition rows must"
    for rule, bad in (("be finite", ~np.isfinite(rows.data)), ("not be negative", rows.data < 0)):
        if bad.any():
            entry = int(np.flatnonzero(bad)[0])
            broken = np.zeros(rows.shape[0], dtype=bool)
            broken[owner[bad]] = True
            to = pairs.scope.grid.describe(int(rows.indices[entry]))
            pairs.refuse(f"{what} {rule}", broken, f"has {rows.data[entry]} to {to}", "rows")
    sums = rows.sum(axis=1)
    off = np.abs(sums - 1) > SUM_TOLERANCE
    value = f"sums to {sums[off][0]:.12g}" if off.any() else ""
    pairs.refuse(f"{what} sum to 1", off, value, "rows")


def _model(
    pairs: Pairs,
    expected: NDArray,
    outcomes: Outcomes | None,
    discount: float,
    name: str,
    parameters: Mapping[str, Any] | None,
) -> MDP:
    shape = (pairs.scope.grid.size, len(pairs.scope.actions))
    mask = np.zeros(shape, dtype=bool)
    mask[pairs.states, pairs.choices] = True
    row_of = np.zeros(shape, dtype=np.int64)
    row_of[pairs.states, pairs.choices] = np.arange(len(pairs.states))
    reward = np.zeros(shape)
    reward[pairs.states, pairs.choices] = expected
    dynamics = Tabular.build(pairs.scope, pairs.rows, row_of, reward, outcomes)
    return assemble(pairs.scope, discount, dynamics, mask, name, parameters)


def _scope(
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Sequence | None,
    action_name: str,
    n_states: int,
    n_actions: int,
) -> Scope:
    scope = make_scope(
        {"state": range(n_states)} if grid is None else grid,
        range(n_actions) if actions is None else actions,
        action_name,
    )
    if scope.grid.size != n_states:
        raise ModelError(f"the grid has {scope.grid.size} states, the arrays have {n_states}")
    if len(scope.actions) != n_actions:
        raise ModelError(f"{len(scope.actions)} actions are named, the arrays have {n_actions}")
    return scope


def _matrices(transition: Any, layout: Layout) -> list[sp.csr_array]:
    """A matrices (S, S), from a dense array of three axes or a list."""
    is_list = isinstance(transition, list | tuple)
    if sp.issparse(transition):
        raise ModelError("transition must be a list of A sparse (S, S) matrices, not one matrix")
    if is_list and any(sp.issparse(m) for m in transition):
        if layout != "ASS":
            raise ModelError("a list of sparse matrices has layout 'ASS'")
        matrices = [_matrix(m, f"transition of action {a}") for a, m in enumerate(transition)]
    else:
        dense = as_numbers(transition, "transition")
        if dense.ndim != 3 or 0 in dense.shape:
            raise ModelError(f"transition must have three axes ({layout}); got shape {dense.shape}")
        dense = dense if layout == "ASS" else np.moveaxis(dense, 1, 0)
        matrices = [sp.csr_array(m) for m in dense]
    n = matrices[0].shape[0] if matrices else 0
    for a, matrix in enumerate(matrices):
        if matrix.shape != (n, n):
            raise ModelError(
                f"transition ({layout}) must hold square matrices of one size ({n}, {n}); "
                f"that of action {a} has shape {matrix.shape}"
            )
    if not n:
        raise ModelError("transition must hold at least one state and one action")
    return matrices


def _matrix(matrix: Any, what: str) -> sp.csr_array:
    if not sp.issparse(matrix):
        matrix = as_numbers(matrix, what)
        if matrix.ndim != 2:
            raise ModelError(f"{what} must be a matrix; got shape {matrix.shape}")
    csr = sp.csr_array(matrix, dtype=float, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


def _rewards(
    pairs: Pairs, reward: Any, layout: Layout, n_actions: int
) -> tuple[NDArray, Outcomes | None]:
    """(L,) expected rewards, and outcomes when rewards are paid by transition."""
    s, a, n = pairs.states, pairs.choices, pairs.scope.grid.size
    is_sparse = isinstance(reward, list | tuple) and any(sp.issparse(m) for m in reward)
    if not is_sparse:
        dense = np.asarray(reward)
        if dense.shape == (n,):
            return _numeric_reward(pairs, dense[s], (len(s),)), None
        if dense.shape == (n, n_actions):
            return _numeric_reward(pairs, dense[s, a], (len(s),)), None
        full = (n_actions, n, n) if layout == "ASS" else (n, n_actions, n)
        if dense.shape != full:
            raise ModelError(
                f"reward must have shape ({n},), ({n}, {n_actions}) or {full}; got {dense.shape}"
            )
        dense = as_numbers(dense, "reward")
        reward = dense if layout == "ASS" else np.moveaxis(dense, 1, 0)
    by_action = [_matrix(m, "reward") for m in reward]
    if [m.shape for m in by_action] != [(n, n)] * n_actions:
        raise ModelError(f"reward must hold {n_actions} matrices ({n}, {n})")
    owner = np.repeat(np.arange(len(s)), np.diff(pairs.rows.indptr))
    stacked = sp.csr_array(sp.vstack(by_action, format="csr"))
    paid = np.asarray(stacked[a[owner] * n + s[owner], pairs.rows.indices]).ravel()
    bad = np.zeros(len(s), dtype=bool)
    bad[owner[~np.isfinite(paid)]] = True
    value = f"pays {paid[~np.isfinite(paid)][0]}" if bad.any() else ""
    pairs.refuse("rewards must be finite", bad, value, "pairs")
    expected = np.bincount(owner, pairs.rows.data * paid, minlength=len(s))
    return expected, _outcomes(pairs, paid, n_actions)


def _outcomes(pairs: Pairs, paid: NDArray, n_actions: int) -> Outcomes:
    counts = np.zeros(pairs.scope.grid.size * n_actions, dtype=np.int64)
    counts[pairs.states * n_actions + pairs.choices] = np.diff(pairs.rows.indptr)
    order = np.argsort(pairs.states * n_actions + pairs.choices, kind="stable")
    rows = pairs.rows[order]
    back = sp.csr_array((np.arange(pairs.rows.nnz), pairs.rows.indices, pairs.rows.indptr))[order]
    return Outcomes(
        np.concatenate([[0], np.cumsum(counts)]),
        rows.indices.astype(np.int64),
        rows.data,
        paid[back.data],
        np.zeros(rows.nnz, dtype=bool),
    )


def _numeric_reward(pairs: Pairs, reward: NDArray, shape: tuple[int, ...]) -> NDArray:
    if reward.shape != shape:
        raise ModelError(f"reward must have shape {shape}; got {reward.shape}")
    numbers = as_numbers(reward, "reward")
    bad = ~np.isfinite(numbers)
    value = f"pays {numbers[bad][0]}" if bad.any() else ""
    if bad.any() and np.isneginf(numbers[bad]).all():
        value += "; say feasible= instead of a reward of -inf"
    pairs.refuse("rewards must be finite", bad, value, "pairs")
    return numbers


def _refuse_repeats(pairs: Pairs) -> None:
    key = pairs.states * len(pairs.scope.actions) + pairs.choices
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    repeated = np.zeros(len(key), dtype=bool)
    repeated[first[counts > 1]] = True
    value = f"stands {counts[counts > 1][0]} times" if repeated.any() else ""
    pairs.refuse("state-action pairs must differ from one another", repeated, value, "pairs")


def _indices(array: ArrayLike, what: str) -> NDArray[np.int64]:
    indices = np.asarray(array)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not indices.size:
        raise ModelError(f"{what} must be a list of indices; got {indices.dtype} {indices.shape}")
    return indices.astype(np.int64)
