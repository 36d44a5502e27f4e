"""Models from arrays: the layouts of pymdptoolbox and QuantEcon, checked on arrival.

ASS     transition[a, s, s'], or a list of A sparse matrices     reward (S,), (S, A), (A, S, S)
SAS     transition[s, a, s']                                     reward (S,), (S, A), (S, A, S)
pairs   transition[i, s'] for the i-th feasible (state, action)  reward (L,)

Without ``feasible``, a reward of -inf makes an action infeasible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from tessella.mdp.tabular.rows import count_max_repeats
from tessella.mdp.tabular.tabular import Outcomes, Tabular
from tessella.rounding import EPS, ModelRounding, bound_expectation_error

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
) -> ModelParts:
    """See ``MDP.from_arrays``."""
    if layout not in ("ASS", "SAS"):
        raise ArgumentError("layout must be 'ASS' or 'SAS'", value=f"got {layout!r}")
    matrices = _read_matrices(transition, layout)
    n_actions = len(matrices)
    n_states = len(matrices[0].indptr) - 1
    space = _make_space(grid, actions, action_name, n_states, n_actions)
    given = _read_rewards(space, reward, layout)
    if feasible is None:
        mask = _find_feasible_pairs(matrices, given)
        require_feasible_actions(space.grid, mask)
    else:
        mask = build_feasible_mask(space, feasible)
    pairs = Pairs(space, *select_feasible_rows(matrices, mask))
    check_rows(pairs)
    merged = _count_max_repeats(transition)
    if isinstance(given, list):
        outcomes = _make_outcomes(pairs, given)
        expected = outcomes.expected_reward[pairs.pair_indices]
        error = outcomes.rounding(factors=merged).reward_error + _bound_merging_error(reward)
    else:
        outcomes = None
        error = 0.0
        expected = check_rewards(pairs, given[mask])
    build_rounding = ModelRounding(EPS * merged if merged > 1 else 0.0, error)
    return build_tabular(pairs, expected, outcomes, build_rounding)


def from_pairs(
    states: ArrayLike,
    choices: ArrayLike,
    transition: Any,
    reward: ArrayLike,
    grid: StateGrid | Mapping[str, Sequence] | None,
    actions: Actions | None,
    action_name: str,
) -> ModelParts:
    """See ``MDP.from_pairs``."""
    state = _read_indices(states, "states")
    action = _read_indices(choices, "choices")
    rows = _read_matrix(transition, "transition")
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
    expected = as_numbers(reward, "rewards", lambda place, _: pairs.describe(place[0]))
    kept = np.flatnonzero(~np.isneginf(expected))
    if len(kept) < len(expected):
        pairs = Pairs(space, state[kept], action[kept], rows[kept])
        expected = expected[kept]
    require_feasible_actions(space.grid, np.isin(np.arange(n_states), pairs.states)[:, None])
    check_rows(pairs)
    check_rewards(pairs, expected)
    merged = _count_max_repeats([transition])
    build_rounding = ModelRounding(EPS * merged if merged > 1 else 0.0)
    return build_tabular(pairs, expected, None, build_rounding)


def _require_distinct(pairs: Pairs) -> None:
    """Reject a pair that is listed twice."""
    counts = np.bincount(pairs.pair_indices)[pairs.pair_indices]
    repeated = np.flatnonzero(counts > 1)
    first = np.unique(pairs.pair_indices[repeated], return_index=True)[1]
    bad = np.zeros(len(counts), dtype=bool)
    bad[repeated[first]] = True
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


def negate_costs(costs: Any) -> Any:
    """The negated costs, in the form in which they were given."""
    if sp.issparse(costs):
        return -1 * costs
    if isinstance(costs, list | tuple) and any(sp.issparse(part) for part in costs):
        return [-part for part in costs]
    return -as_numbers(costs, "costs")


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


def _read_matrices(transition: Any, layout: ArrayLayout) -> list[sp.csr_array]:
    """A matrices (S, S), from a dense array of three axes or a list."""
    if sp.issparse(transition):
        raise ModelError("transition must be a list of A sparse (S, S) matrices, not one matrix")
    if _has_sparse(transition):
        if layout != "ASS":
            requirement = "a list of sparse matrices has layout 'ASS'"
            raise ArgumentError(requirement, value=f"got {layout!r}")
        given = enumerate(transition)
        matrices = [_read_matrix(m, f"the transition of action {a}") for a, m in given]
    else:
        matrices = [sp.csr_array(m) for m in _dense_by_action(transition, layout)]
    n = len(matrices[0].indptr) - 1
    for action, matrix in enumerate(matrices):
        if matrix.shape != (n, n):
            requirement = "transition must hold square matrices of one size"
            value = f"has shape {matrix.shape}"
            raise ModelError(requirement, location=f"action {action}", value=value)
    return matrices


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


def _count_max_repeats(matrices: Any) -> int:
    """The largest number of entries that share one position of a sparse matrix and are added up."""
    return max((count_max_repeats(m.row, m.col) for m in _as_coordinates(matrices)), default=1) or 1


def _bound_merging_error(matrices: Any) -> float:
    """Bound on the rounding of adding up entries that share one position."""
    error = 0.0
    for m in _as_coordinates(matrices):
        merged = count_max_repeats(m.row, m.col)
        if merged > 1:
            sizes = sp.csr_array((np.abs(m.data), (m.row, m.col)), shape=m.shape)
            error = max(error, bound_expectation_error(merged, sizes.data))
    return error


def _as_coordinates(matrices: Any) -> list[Any]:
    """Sparse matrices whose entries may share a position, as float64 in coordinate form."""
    if not _has_sparse(matrices):
        return []
    unsorted = [m for m in matrices if sp.issparse(m) and not _is_canonical(m)]
    return [sp.coo_array(m, dtype=float) for m in map(sp.coo_array, unsorted)]


def _is_canonical(matrix: Any) -> bool:
    """Whether a sparse matrix is compressed by rows, its columns ascending and each one once."""
    if matrix.format != "csr" or type(matrix.data) is not np.ndarray:
        return False
    copy = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    return bool(copy.has_canonical_format)  # SciPy would store the flag on ``matrix`` itself


def _read_matrix(matrix: Any, subject: str) -> sp.csr_array:
    """A dense matrix, or a sparse one of any format, as a new matrix of compressed rows."""
    matrix = matrix if sp.issparse(matrix) else as_numbers(matrix, subject)
    if matrix.ndim != 2:
        raise ModelError(f"{subject} must be a matrix", value=f"has shape {matrix.shape}")
    if isinstance(matrix, np.ndarray):
        return sp.csr_array(matrix)
    if _is_canonical(matrix) and matrix.dtype == np.float64 and np.isfinite(matrix.data).all():
        csr = sp.csr_array(matrix, copy=True)
        csr.eliminate_zeros()
        return csr
    given = matrix.tocoo()

    def entry(k: tuple, _: tuple) -> str:
        return f"entry ({given.row[k[0]]}, {given.col[k[0]]})"

    # Converted before they are added up: short integers overflow, short floats lose precision.
    data = as_numbers(given.data, subject, entry)
    csr = sp.csr_array((data, (given.row, given.col)), shape=given.shape)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


def _read_sparse_rewards(reward: Any, n: int, n_actions: int) -> list[NDArray | sp.csr_array]:
    by_action: list[NDArray | sp.csr_array] = [_read_matrix(m, "reward") for m in reward]
    if [m.shape for m in by_action] != [(n, n)] * n_actions:
        raise ModelError(f"reward must hold {n_actions} matrices of shape ({n}, {n})")
    return by_action


def _read_rewards(
    space: StateActionSpace, reward: Any, layout: ArrayLayout
) -> NDArray[np.float64] | list[NDArray | sp.csr_array]:
    """(S, A) rewards, or A matrices (S, S) when they are by transition."""
    n = space.grid.size
    n_actions = len(space.actions)
    if _has_sparse(reward):
        return _read_sparse_rewards(reward, n, n_actions)

    def describe(index: tuple, shape: tuple) -> str:
        return space.describe_pair(
            *(index[:2] if len(shape) < 3 or layout == "SAS" else index[1::-1])
        )

    full = (n_actions, n, n) if layout == "ASS" else (n, n_actions, n)
    shape = read_shape(reward, "reward")
    if shape not in ((n,), (n, n_actions), full):
        requirement = f"reward must have shape ({n},), ({n}, {n_actions}) or {full}"
        raise ModelError(requirement, value=f"has shape {shape}")
    if shape == (n,):
        numbers = as_numbers(reward, "rewards", lambda place, _: space.grid.describe(place[0]))
        return np.repeat(numbers[:, None], n_actions, axis=1)
    numbers = as_numbers(reward, "rewards", describe)
    if shape == (n, n_actions):
        return numbers
    return list(numbers if layout == "ASS" else np.moveaxis(numbers, 1, 0))


def _find_feasible_pairs(
    matrices: list[sp.csr_array], given: NDArray[np.float64] | list[NDArray | sp.csr_array]
) -> NDArray[np.bool_]:
    """(S, A) the pairs that the rewards do not mark as infeasible by -inf."""
    if not isinstance(given, list):
        return ~np.isneginf(given)
    both = zip(matrices, given, strict=True)
    return np.stack([~_find_infeasible_rows(rows, paid) for rows, paid in both], axis=1)


def _find_infeasible_rows(rows: sp.csr_array, paid: NDArray | sp.csr_array) -> NDArray[np.bool_]:
    """(S,) whether all transitions of a row pay -inf; of an empty row, those to all states."""
    n = len(rows.indptr) - 1
    is_infeasible = sp.csr_array(
        np.isneginf(paid) if isinstance(paid, np.ndarray) else paid == -np.inf
    )
    if not is_infeasible.nnz:
        return np.zeros(n, dtype=bool)
    row, column = rows.nonzero()
    n_transitions = np.bincount(row, minlength=n)
    n_infeasible = np.bincount(row, np.isneginf(_take_entries(paid, row, column)), minlength=n)
    return np.where(
        n_transitions > 0, n_infeasible == n_transitions, is_infeasible.sum(axis=1) == n
    )


def _make_outcomes(pairs: Pairs, by_action: list[NDArray | sp.csr_array]) -> Outcomes:
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
    """``matrix[row, column]``; scipy returns different types for many, one and no entries."""
    if isinstance(matrix, np.ndarray):
        return matrix[row, column]
    n = len(matrix.indptr) - 1
    stored_keys = np.repeat(np.arange(n), np.diff(matrix.indptr)) * n + matrix.indices
    keys = row * n + column
    index = np.searchsorted(stored_keys, keys)
    is_stored = np.append(stored_keys, -1)[index] == keys
    return np.where(is_stored, np.append(matrix.data, 0.0)[index], 0.0)


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
