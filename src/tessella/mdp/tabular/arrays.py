"""Models from arrays: the layouts of pymdptoolbox and QuantEcon, checked on arrival.

ASS     transition[a, s, s'], or a list of A sparse matrices     reward (S,), (S, A), (A, S, S)
SAS     transition[s, a, s']                                     reward (S,), (S, A), (S, A, S)
pairs   transition[i, s'] for the i-th feasible (state, action)  reward (L,)

Without ``feasible``, a reward of -inf makes an action infeasible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, ModelError, raise_for_first
from tessella.grid import StateGrid, require_unmasked
from tessella.mdp.actions import Actions, as_action_list
from tessella.mdp.checks import FunctionChecks, as_numbers, read_shape
from tessella.mdp.dynamics import Dynamics, ModelParts, Payment
from tessella.mdp.measures import check_measure_name
from tessella.mdp.state_action_space import (
    Feasible,
    StateActionSpace,
    build_feasible_mask,
    make_state_action_space,
    require_feasible_actions,
)
from tessella.mdp.tabular.pairs import (
    ArrayLayout,
    Pairs,
    build_tabular,
    check_rewards,
    check_rows,
    select_feasible_rows,
)
from tessella.mdp.tabular.rows import count_max_repeats, find_first
from tessella.mdp.tabular.tabular import Outcomes, Tabular
from tessella.rounding import EPS, ModelRounding, bound_expectation_error
from tessella.support.sense import Sense

# Largest number of actions that indices may imply without names; more are taken for a mistake.
UNNAMED_MAX_ACTIONS = 2**20


def from_arrays(
    transition: Any,
    reward: Any,
    layout: ArrayLayout,
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Actions | None,
    feasible: Feasible,
    action_name: str,
    sense: Sense,
) -> ModelParts:
    """See ``MDP.from_arrays``; ``reward`` holds costs where the ``sense`` is that of costs."""
    if layout not in ("ASS", "SAS"):
        raise ArgumentError("layout must be 'ASS' or 'SAS'", value=f"got {layout!r}")
    matrices, max_repeats = _read_matrices(transition, layout)
    n_actions = len(matrices)
    n_states = len(matrices[0].indptr) - 1
    space = _make_space(grid, actions, action_name, n_states, n_actions)
    given, reward_error = _read_rewards(space, reward, layout, sense)
    if feasible is None:
        mask = _find_feasible_pairs(matrices, given)
        require_feasible_actions(space.grid, mask)
    else:
        mask = build_feasible_mask(space, feasible)
    pairs = Pairs(space, *select_feasible_rows(matrices, mask))
    check_rows(pairs)
    if isinstance(given, list):
        outcomes = _make_outcomes(pairs, given)
        expected = outcomes.expected_reward[pairs.pair_indices]
        reward_error += outcomes.rounding(factors=max_repeats).reward_error
    else:
        outcomes = None
        expected = check_rewards(pairs, given[mask])
    build_rounding = ModelRounding(EPS * max_repeats if max_repeats > 1 else 0.0, reward_error)
    return build_tabular(pairs, expected, outcomes, build_rounding)


def from_pairs(
    states: ArrayLike,
    choices: ArrayLike,
    transition: Any,
    reward: ArrayLike,
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Actions | None,
    action_name: str,
    sense: Sense,
) -> ModelParts:
    """See ``MDP.from_pairs``; ``reward`` holds costs where the ``sense`` is that of costs."""
    state = _read_indices(states, "states")
    action = _read_indices(choices, "choices")
    rows, max_repeats, _ = _read_matrix(transition, "transition")
    n_rows = len(rows.indptr) - 1
    n_states = int(np.asarray(rows.shape)[1])
    if not len(state) == len(action) == n_rows:
        requirement = "states, choices and transition rows must be equally many"
        raise ModelError(requirement, value=f"got {len(state)}, {len(action)} and {n_rows}")
    actions = None if actions is None else as_action_list(actions)
    if actions is None:
        n_actions = min(max(int(action.max()) + 1, 1), UNNAMED_MAX_ACTIONS)
    else:
        n_actions = len(actions)
    space = _make_space(grid, actions, action_name, n_states, n_actions)
    state = _check_range(state, n_states, "state")
    action = _check_range(action, n_actions, "action")
    pairs = Pairs(space, state, action, rows)
    _require_distinct(pairs)
    shape = read_shape(reward, "reward")
    if shape != state.shape:
        raise ModelError(f"reward must have shape {state.shape}", value=f"has shape {shape}")
    given = as_numbers(reward, sense.rewards_noun, lambda place, _: pairs.describe(place[0]))
    expected = sense.sign * given
    kept = np.flatnonzero(~np.isneginf(expected))
    if len(kept) < len(expected):
        pairs = Pairs(space, state[kept], action[kept], rows[kept])
        expected = expected[kept]
    require_feasible_actions(space.grid, np.isin(np.arange(n_states), pairs.states)[:, None])
    check_rows(pairs)
    check_rewards(pairs, expected)
    build_rounding = ModelRounding(EPS * max_repeats if max_repeats > 1 else 0.0)
    return build_tabular(pairs, expected, None, build_rounding)


def _require_distinct(pairs: Pairs) -> None:
    """Reject a pair that is listed twice."""
    counts = np.bincount(pairs.pair_indices)[pairs.pair_indices]
    first, _ = find_first(pairs.pair_indices)
    bad = np.zeros(len(counts), dtype=bool)
    bad[first] = counts[first] > 1
    requirement = "state-action pairs must differ from one another"
    pairs.raise_for_pairs(requirement, bad, lambda i: f"occurs {counts[i]} times")


def count_in_table(
    dynamics: Dynamics, feasible: NDArray[np.bool_], name: str, given: Any
) -> Tabular:
    """The table with a further count: an array (S,) or (S, A), or a function."""
    check_measure_name(name)
    if not isinstance(dynamics, Tabular):
        requirement = "with_measures takes new counts for a table without a horizon"
        if dynamics.is_table:
            advice = "has a horizon; count before with_criterion"
        else:
            advice = "is made of stages, which count with counts={...}"
        raise ModelError(requirement, location=f"{name!r}:", value=f"the model {advice}")
    space = dynamics.space
    checks = FunctionChecks(space, f"the count {name!r}")
    shape = feasible.shape
    if callable(given):
        mesh = checks.read_numbers(checks.call(given), checks.subject)[..., 0]
        given = np.broadcast_to(mesh, (shape[1], *space.grid.shape)).reshape(shape[::-1]).T
    table = as_numbers(given, checks.subject)
    table = table[:, None] if table.ndim == 1 else table
    if table.shape not in (shape, (shape[0], 1)):
        raise ModelError(f"{checks.subject} must have shape {shape}", value=f"has {table.shape}")
    amounts = np.where(feasible, table, 0.0)
    raise_for_first(
        f"{checks.subject} must be finite",
        ~np.isfinite(amounts),
        lambda place: space.describe_pair(*map(int, place)),
        lambda place: f"is {amounts[place]}",
        "pairs",
    )
    return replace(dynamics, counted={**dynamics.counted, name: Payment(amounts)})


def _make_space(
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Actions | None,
    action_name: str,
    n_states: int,
    n_actions: int,
) -> StateActionSpace:
    space = make_state_action_space(
        {"state": range(n_states)} if grid is None else grid,
        range(n_actions) if actions is None else actions,
        action_name,
    )
    if space.grid.size != n_states:
        raise ModelError(f"the grid has {space.grid.size} states, the arrays have {n_states}")
    if len(space.actions) != n_actions:
        raise ModelError(f"{len(space.actions)} actions are named, the arrays have {n_actions}")
    return space


def _read_matrices(transition: Any, layout: ArrayLayout) -> tuple[list[sp.csr_array], int]:
    """A matrices (S, S), from a dense array of three axes or a list; the most repeats of one."""
    if sp.issparse(transition):
        raise ModelError("transition must be a list of A sparse (S, S) matrices, not one matrix")
    if _has_sparse(transition):
        if layout != "ASS":
            requirement = "a list of sparse matrices has layout 'ASS'"
            raise ArgumentError(requirement, value=f"got {layout!r}")
        given = enumerate(transition)
        read = [_read_matrix(m, f"the transition of action {a}") for a, m in given]
        matrices = [matrix.rows for matrix in read]
        repeats = max(matrix.repeats for matrix in read)
    else:
        matrices = [sp.csr_array(m) for m in _dense_by_action(transition, layout)]
        repeats = 1
    n = len(matrices[0].indptr) - 1
    for action, matrix in enumerate(matrices):
        if matrix.shape != (n, n):
            requirement = "transition must hold square matrices of one size"
            value = f"has shape {matrix.shape}"
            raise ModelError(requirement, location=f"action {action}", value=value)
    return matrices, repeats


def _dense_by_action(transition: Any, layout: ArrayLayout) -> NDArray[np.float64]:
    """(A, S, S)."""
    dense = as_numbers(transition, "transition")
    if dense.ndim != 3 or 0 in dense.shape:
        requirement = f"transition must have three axes ({layout})"
        raise ModelError(requirement, value=f"has shape {dense.shape}")
    shape = dense.shape
    fits: dict[ArrayLayout, bool] = {"ASS": shape[1] == shape[2], "SAS": shape[0] == shape[2]}
    if not fits[layout]:
        other = "".join(f", which is layout={name!r}" for name in fits if fits[name])
        requirement = f"with layout={layout!r}, transition must have shape ({', '.join(layout)})"
        raise ModelError(requirement, value=f"has shape {shape}{other}")
    return dense if layout == "ASS" else np.moveaxis(dense, 1, 0)


def _has_sparse(arrays: Any) -> bool:
    """Whether this is a sequence with sparse matrices in it, as a list or an object array."""
    objects = isinstance(arrays, np.ndarray) and arrays.ndim == 1 and arrays.dtype == object
    return (objects or isinstance(arrays, list | tuple)) and any(sp.issparse(m) for m in arrays)


class MatrixRead(NamedTuple):
    """A matrix of compressed rows, and what adding up entries that shared a position did to it."""

    rows: sp.csr_array
    repeats: int = 1  # the most entries that shared one position
    error: float = 0.0  # bound on the rounding of their sums


def _is_canonical(matrix: Any) -> bool:
    """Whether a sparse matrix is compressed by rows, its columns ascending and each one once."""
    if matrix.format != "csr" or type(matrix.data) is not np.ndarray:
        return False
    copy = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    return bool(copy.has_canonical_format)  # SciPy would store the flag on ``matrix`` itself


def _read_matrix(matrix: Any, subject: str) -> MatrixRead:
    """A dense matrix, or a sparse one of any format, as a new matrix of compressed rows."""
    matrix = matrix if sp.issparse(matrix) else as_numbers(matrix, subject)
    if matrix.ndim != 2:
        raise ModelError(f"{subject} must be a matrix", value=f"has shape {matrix.shape}")
    if isinstance(matrix, np.ndarray):
        return MatrixRead(sp.csr_array(matrix))
    if _is_canonical(matrix) and matrix.dtype == np.float64 and np.isfinite(matrix.data).all():
        csr = sp.csr_array(matrix, copy=True)
        csr.eliminate_zeros()
        return MatrixRead(csr)
    given = matrix.tocoo()

    def entry(k: tuple, _: tuple) -> str:
        return f"entry ({given.row[k[0]]}, {given.col[k[0]]})"

    # Converted before they are added up: short integers overflow, short floats lose precision.
    data = as_numbers(given.data, subject, entry)
    csr = sp.csr_array((data, (given.row, given.col)), shape=given.shape)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    repeats = count_max_repeats(given.row, given.col)
    if repeats <= 1:
        return MatrixRead(csr)
    sizes = sp.csr_array((np.abs(data), (given.row, given.col)), shape=given.shape)
    return MatrixRead(csr, repeats, bound_expectation_error(repeats, sizes.data))


Rewards = NDArray[np.float64] | list[NDArray] | list[sp.csr_array]


def _read_rewards(
    space: StateActionSpace, reward: Any, layout: ArrayLayout, sense: Sense
) -> tuple[Rewards, float]:
    """(S, A) rewards, or A matrices (S, S) when they are by transition; a bound on their error."""
    n = space.grid.size
    n_actions = len(space.actions)
    if _has_sparse(reward):
        read = [_read_matrix(m, "reward") for m in reward]
        if [m.rows.shape for m in read] != [(n, n)] * n_actions:
            raise ModelError(f"reward must hold {n_actions} matrices of shape ({n}, {n})")
        return [sense.sign * m.rows for m in read], max(m.error for m in read)

    def describe(index: tuple, shape: tuple) -> str:
        if len(shape) == 1:
            return space.grid.describe(index[0])
        return space.describe_pair(
            *(index[:2] if len(shape) == 2 or layout == "SAS" else index[1::-1])
        )

    full = (n_actions, n, n) if layout == "ASS" else (n, n_actions, n)
    shape = read_shape(reward, "reward")
    if shape not in ((n,), (n, n_actions), full):
        requirement = f"reward must have shape ({n},), ({n}, {n_actions}) or {full}"
        raise ModelError(requirement, value=f"has shape {shape}")
    numbers = sense.sign * as_numbers(reward, sense.rewards_noun, describe)
    if shape == (n,):
        return np.repeat(numbers[:, None], n_actions, axis=1), 0.0
    if shape == (n, n_actions):
        return numbers, 0.0
    return list(numbers if layout == "ASS" else np.moveaxis(numbers, 1, 0)), 0.0


def _find_feasible_pairs(matrices: list[sp.csr_array], given: Rewards) -> NDArray[np.bool_]:
    """(S, A) the pairs that the rewards do not mark as infeasible.

    By transition, all that a row can do pays -inf; of an empty row, the ways to all states.
    """
    if not isinstance(given, list):
        return ~np.isneginf(given)
    n = len(matrices[0].indptr) - 1
    mask = np.ones((n, len(matrices)), dtype=bool)
    for action, (rows, paid) in enumerate(zip(matrices, given, strict=True)):
        is_closed = sp.csr_array(paid == -np.inf)
        if is_closed.nnz:
            row, column = rows.nonzero()
            n_ways = np.bincount(row, minlength=n)
            n_closed = np.bincount(row, _take_entries(is_closed, row, column), minlength=n)
            mask[:, action] = np.where(n_ways, n_closed < n_ways, is_closed.sum(axis=1) < n)
    return mask


def _make_outcomes(pairs: Pairs, by_action: list[NDArray] | list[sp.csr_array]) -> Outcomes:
    """One outcome for each stored transition; rewards of other transitions are ignored."""
    rows = pairs.rows
    pair_of_entry = pairs.pair_of_entry
    paid = np.empty(len(rows.data))
    for action, reward in enumerate(by_action):
        own = np.flatnonzero(pairs.choices[pair_of_entry] == action)
        paid[own] = _take_entries(reward, pairs.states[pair_of_entry[own]], rows.indices[own])

    def entry(i: int) -> str:
        text = f"pays {paid[i]} on the way to {pairs.space.grid.describe(int(rows.indices[i]))}"
        return f"{text}; what cannot be done pays -inf on every way" if paid[i] == -np.inf else text

    pairs.raise_for_entries("rewards must be finite", ~np.isfinite(paid), entry)
    return Outcomes.from_list(
        pairs.pair_indices[pair_of_entry],
        pairs.space.grid.size * len(pairs.space.actions),
        rows.indices,
        rows.data,
        paid,
    )


def _take_entries(matrix: NDArray | sp.csr_array, row: NDArray, column: NDArray) -> NDArray:
    """``matrix[row, column]``; SciPy returns another type for no entries."""
    return np.asarray(matrix[row, column]) if len(row) else np.zeros(0)


def _read_indices(array: ArrayLike, subject: str) -> NDArray:
    indices = np.asarray(require_unmasked(array, subject))
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not indices.size:
        value = f"got {indices.dtype} of shape {indices.shape}"
        raise ModelError(f"{subject} must be a list of indices", value=value)
    return indices


def _check_range(index: NDArray, count: int, subject: str) -> NDArray[np.int64]:
    """``index``, checked to lie in 0..count - 1."""
    raise_for_first(
        f"{subject} indices must lie in 0..{count - 1}",
        (index < 0) | (index >= count),
        lambda pair: f"pair {pair}",
        lambda pair: f"has {index[pair]}",
        "pairs",
    )
    return index.astype(np.int64)
