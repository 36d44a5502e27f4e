"""Staged dynamics: one period as a list of events, never a matrix over states.

With stages 1..m in the order of events, E_i the expectation of stage i and r_i its reward,

    backup(w) = r_1 + E_1[ r_2 + E_2[ ... r_m + E_m[ w ] ] ]

where r_i is the stage's expected reward given the state at its moment. Memory is linear in states.

``as_rows`` multiplies the stages out to the rows of a table, P = E_1 E_2 ... E_m under an action.
Each factor has the rows of those states alone that the stages before it can reach: a scratch axis
that an action sets has one value then, not all of them. The product starts from the last stage, so
that no entry adds up more terms than a stage has. Which of the two forms a solve uses is a choice
of its execution plan (``solvers.execution_plan``), by the counts given here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import require_product
from tessella.mdp.dynamics import (
    PLAIN_FORMS,
    Backend,
    BackendModel,
    CompileOptions,
    Dynamics,
    StepResult,
    TileSizes,
)
from tessella.mdp.stages.operation import (
    CompiledOperation,
    Displacement,
    Operation,
    Reshape,
    action_slice,
)
from tessella.mdp.stages.stage import (
    BuiltStage,
    Function,
    Pay,
    Stage,
    add_scratch_axes,
    bound_reward,
    require_list,
    restrict_scratch_axes,
)
from tessella.mdp.state_action_space import TIME, StateActionSpace, call_by_name
from tessella.mdp.tabular.rows import find_unique_rows
from tessella.mdp.tabular.tabular import Tabular
from tessella.rounding import EPS, ModelRounding, RoundingBounds, RowSumBounds


@dataclass(frozen=True, eq=False)
class Staged(Dynamics):
    """Dynamics given as stages; build it with ``MDP.staged``."""

    space: StateActionSpace
    stages: tuple[BuiltStage, ...]

    has_stages = True
    offers_rows = True

    @staticmethod
    def build(
        space: StateActionSpace,
        stages: Sequence[Stage],
        feasible: NDArray[np.bool_] | None = None,
        scratch: Mapping[str, Sequence] | None = None,
        build_stage: Callable[[Stage, StateActionSpace], BuiltStage] | None = None,
    ) -> Staged:
        """Compile the stages, by ``build_stage`` if it is given.

        ``feasible`` (S, A) says which pairs can occur; ``scratch`` axes exist within a period only.
        """
        stages = as_stages(stages)
        require_product(space.grid, "a model of stages", error=ModelError)
        wide = add_scratch_axes(space, scratch) if scratch is not None else space
        masked = wide.with_feasible(feasible, space.grid.shape)
        compiled = []
        for stage in stages:
            compiled.append(build_stage(stage, masked) if build_stage else stage.build(masked))
            # The mask holds for states at the start of a period, and any stage but Pay moves them.
            masked = masked if isinstance(stage, Pay) else wide
        if scratch is not None:
            compiled = restrict_scratch_axes(wide.grid, space.grid, compiled)
        return Staged(space, tuple(compiled))

    @property
    def counts(self) -> frozenset[str]:
        return frozenset().union(*(stage.counts for stage in self.stages))

    def with_reward(self, weights: Mapping[str, float]) -> Staged:
        weighted = Staged(self.space, tuple(stage.with_reward(weights) for stage in self.stages))
        rows = self.__dict__.get("_rows")
        if rows is not None:  # the same rows, which take long to build
            reward = weighted.expected_reward()
            rows = replace(rows, reward=reward, build_rounding=weighted.rounding.in_file)
            object.__setattr__(weighted, "_rows", rows)
        return weighted

    def compute_row_sums(self) -> RowSumBounds:
        return reduce(RowSumBounds.compose, (stage.operation.row_sums for stage in self.stages))

    @property
    def stage_outcomes(self) -> list[int]:
        """Number of outcomes of each stage under one action, over all its states."""
        return [
            math.prod(operation.shape) * operation.max_outcomes for operation in self._operations
        ]

    @cached_property
    def max_row_entries(self) -> int:  # type: ignore[override]
        """Upper bound on the probabilities in its table, and in each product of later stages."""
        largest = 0
        outcomes = 1
        copies = 1
        for operation in reversed(self._operations):
            outcomes = min(outcomes * operation.max_outcomes, self.space.grid.size)
            copies = self.n_actions if operation.depends_on_action else copies
            largest = max(largest, math.prod(operation.shape) * outcomes * copies)
        return max(largest, self.space.grid.size * self.n_actions * self.longest_row)

    def count_sweep_products(self, n_actions: int) -> int:
        """Products of a sweep over some actions, each stage on the axes that matter to it."""
        first_shared = self._first_shared_stage
        total = 0
        for i, length in self._intermediate_sizes():
            once = length * self.stages[i].operation.max_outcomes
            total += once * (n_actions if i < first_shared else 1)
        return total

    def estimate_row_entries(self, n_states: int, n_actions: int) -> int:
        """Probabilities of its table, by rows of random states, the same in every process."""
        n = self.space.grid.size
        rng = np.random.default_rng(0)
        states = rng.choice(n, min(n_states, n), replace=False)
        actions = rng.choice(self.n_actions, min(n_actions, self.n_actions), replace=False)
        counts = [multiply_stages(self._operations, a, reachable=states).nnz for a in actions]
        return math.ceil(sum(counts) / (len(states) * len(actions)) * n * self.n_actions)

    def count_distinct_rows(self) -> int:
        """Distinct rows of its table, at most: where stages that actions share begin alike."""
        n = self.space.grid.size
        if not self._first_shared_move:
            return n
        if not self._moves_are_certain:
            return n * self.n_actions
        return len(np.unique(self._build_moves().indices))

    def as_rows(self, max_entries: float = math.inf) -> Tabular | None:
        """The same dynamics by rows, each entry a rounded sum of products over the stages."""
        if "_rows" not in self.__dict__:
            rows = self._build_rows(max_entries)
            if rows is None:
                return None
            object.__setattr__(self, "_rows", rows)
        return self.__dict__["_rows"].as_rows(max_entries)

    def _build_rows(self, max_entries: float) -> Tabular | None:
        """The table; None where it turns out to have more probabilities than these."""
        import scipy.sparse as sp

        n = self.space.grid.size
        n_actions = self.n_actions
        if self._first_shared_move > 1 and not self._moves_are_certain:
            moves = self._operations[: self._first_shared_move]
            later = self._operations[self._first_shared_move :]
            later_rows = multiply_stages(later, 0) if later else None
            parts = []
            entries = 0
            for action in range(n_actions):
                parts.append(multiply_stages(moves, action, later_rows))
                entries += parts[-1].nnz
                if entries > max_entries:
                    return None
            rows = sp.vstack(parts, format="csr")
            row_of = np.arange(n * n_actions)
        else:  # few distinct moves, each followed by the same rest of the period
            rows, row_of = find_unique_rows(self._build_moves())
            later = self._operations[max(self._first_shared_move, 1) :]
            rows = sp.csr_array(rows @ multiply_stages(later, 0) if later else rows)
            if rows.nnz > max_entries:
                return None
        row_of = np.resize(row_of, n * n_actions).reshape(n_actions, n).T
        return Tabular.build(
            self.space,
            sp.csr_array(rows),
            row_of,
            self.expected_reward(),
            build_rounding=self.rounding.in_file,
        )

    @cached_property
    def rounding(self) -> RoundingBounds:  # type: ignore[override]
        # Two more for each stage: the products, and the addition of the reward.
        terms = sum(operation.rounding_terms + 2 for operation in self._operations)
        rows = sum(operation.relative_rounding for operation in self._operations)
        rows *= 1 + EPS * terms
        # The reward of a later stage is weighted by the rows of those before it.
        reward = sum(stage.paid.error for stage in self.stages)
        reward = (reward + rows * self.reward_scale) * (1 + rows)
        # Each entry of a row, and each reward, is a sum of this many terms over the stages.
        sums = EPS / 2 * (terms + 2)
        in_file = ModelRounding(rows + sums, reward + sums * self.reward_scale)
        return RoundingBounds(ModelRounding(rows, reward), in_file, terms)

    @cached_property
    def adjoint_rounding_terms(self) -> int:  # type: ignore[override]
        return sum(operation.adjoint_rounding_terms + 2 for operation in self._operations)

    @property
    def is_interpolated(self) -> bool:
        return any(stage.operation.relative_rounding > 0 for stage in self.stages)

    @property
    def longest_row(self) -> int:
        outcomes = math.prod(stage.operation.max_outcomes for stage in self.stages)
        return min(outcomes, self.space.grid.size)

    @cached_property
    def reward_scale(self) -> float:  # type: ignore[override]
        paid = (stage.reward for stage in self.stages if stage.reward is not None)
        return float(sum(map(bound_reward, paid)))

    def compile(self, options: CompileOptions = PLAIN_FORMS) -> BackendModel:
        from tessella.mdp.compilation import to_device

        backend = build_stage_backend(self.stages, options.tiles, self.n_actions)
        arrays = [stage.arrays() for stage in self.stages]
        if options.tiles is not None:
            from tessella.mdp.stages.gpu_kernels import fuse_inner_shifts

            operations, arrays = fuse_inner_shifts(backend.operations, arrays)
            backend = StageBackend(operations, self.n_actions)
        return BackendModel(backend, to_device(arrays))

    def max_displacement(self, axis: int) -> Displacement | None:
        below = 0
        above = 0
        for operation in self._operations:
            displacement = operation.max_displacement(axis)
            if displacement is None:
                return None
            below += displacement[0]
            above += displacement[1]
        return below, above

    @property
    def largest_intermediate(self) -> int:
        """Number of entries of the largest array in a backward pass."""
        return max(math.prod(self.shape), *(length for _, length in self._intermediate_sizes()))

    def _intermediate_sizes(self) -> Iterator[tuple[int, int]]:
        """Indices of stages, the last first, and the entries of the array before each of them."""
        lengths = self.shape
        first_shared = self._first_shared_stage
        for i in reversed(range(len(self.stages))):
            operation = self.stages[i].operation
            reward = self.stages[i].reward
            lengths = operation.input_shape(lengths)
            if reward is not None:
                lengths = np.broadcast_shapes(lengths, reward.shape[1:])
            if i == first_shared:  # the result of the stages that actions share has all states
                lengths = operation.shape
            yield i, math.prod(lengths)

    @property
    def _first_shared_stage(self) -> int:
        """Index of the first stage from which on no stage depends on the action."""
        return _count_to_last([stage.depends_on_action for stage in self.stages])

    def to_sparse(self) -> list:
        return cast(Tabular, self.as_rows()).to_sparse()

    def policy_matrix(self, policy: NDArray):
        return cast(Tabular, self.as_rows()).policy_matrix(policy)

    @property
    def _moves_are_certain(self) -> bool:
        """Whether the stages up to the last that an action moves have one outcome each."""
        moves = self._operations[: self._first_shared_move]
        return all(operation.max_outcomes == 1 for operation in moves)

    def _build_moves(self):
        """(S or A S, ...) rows of the stages up to the last that an action moves, or of the first.

        One action after the other, or of one where no action moves anything.
        """
        import scipy.sparse as sp

        first_shared = self._first_shared_move
        operations = self._operations[: max(first_shared, 1)]
        actions = range(self.n_actions if first_shared else 1)
        moves = [multiply_stages(operations, action) for action in actions]
        return sp.csr_array(sp.vstack(moves, format="csr"))

    @property
    def _operations(self) -> list[Operation]:
        return [stage.operation for stage in self.stages]

    @property
    def _first_shared_move(self) -> int:
        """Index of the first stage from which on no operation depends on the action."""
        return _count_to_last([operation.depends_on_action for operation in self._operations])

    def __getstate__(self) -> dict:
        return {key: value for key, value in super().__getstate__().items() if key != "_rows"}

    def action_reward(self, action: int) -> NDArray[np.float64]:
        w: NDArray | None = None  # nothing is paid after the last stage
        for stage in reversed(self.stages):
            expected = np.zeros(stage.operation.shape)
            if w is not None:
                flat = w.ravel()
                for target, p in stage.operation.outcomes(action):
                    expected += p * flat[target]
                w = expected
            if stage.reward is not None:
                w = action_slice(np.asarray(stage.reward), action) + expected
        return (np.zeros(self.shape) if w is None else w).ravel()

    def step(self, states, actions, rng) -> StepResult:
        paid = np.zeros(len(states))
        grid = self.space.grid
        for stage in self.stages:
            before = states
            states, noise_index = stage.operation.sample(before, actions, rng)
            pays = stage.paid.function
            if pays is not None:
                names = grid.coordinates(before)
                if stage.noise is not None:
                    names[stage.noise.name] = stage.noise.values[noise_index]
                paid = paid + self._compute_payment(pays, names, actions)
            if isinstance(stage.operation, Reshape):
                grid = stage.operation.grid or grid
        return StepResult(states, paid, np.zeros(len(states), dtype=bool))

    def _compute_payment(self, pays: Function, names: dict, actions) -> NDArray[np.float64]:
        """(n,) what a stage pays n walkers, at the coordinates and the noise by ``names``."""
        names |= {n: values[actions] for n, values in self.space.action_values.items()}
        if self.space.time is not None:
            names[TIME] = np.int64(self.space.time)
        paid = np.asarray(call_by_name(pays, names, "a reward"), dtype=float)
        if paid.shape not in ((), actions.shape):
            raise ModelError(
                "a reward must be worked out elementwise from what it names",
                value=f"{len(actions)} states are paid an array of shape {paid.shape}",
            )
        return paid


@dataclass(frozen=True)
class StageBackend(Backend):
    """The compiled side: operations in the order of events.

    The backward pass runs through them from the last. It is linear apart from the rewards,
    so ``jax.linear_transpose`` of a pass without reward is the forward (occupancy) pass.
    """

    operations: tuple[CompiledOperation, ...]
    n_actions: int

    @property
    def first_shared(self) -> int:
        """Operations from here to the end depend on no action."""
        return _count_to_last([operation.depends_on_action for operation in self.operations])

    def _run_backward(self, arrays, w, action, include_reward, indices):
        """``w`` before the operations with these indices; in between it may be an open mesh."""
        import jax.numpy as jnp

        shape = w.shape
        for i in reversed(indices):
            operation = self.operations[i]
            if jnp.ndim(action) or not operation.operation_type.accepts_broadcast_input:
                w = jnp.broadcast_to(w, shape)
            operation_action = action
            n_scratch_axes = jnp.ndim(w) - jnp.ndim(action)
            if jnp.ndim(action) and n_scratch_axes:
                policy = action[(..., *(None,) * n_scratch_axes)]
                operation_action = jnp.broadcast_to(policy, w.shape)
            if include_reward and "reward" in arrays[i]:
                w = operation.apply_with_reward(arrays[i], w, operation_action)
            else:
                w = operation.apply(arrays[i], w, operation_action)
            shape = operation.shape
        return jnp.broadcast_to(w, shape)

    def shared_backup(self, arrays, w_S, include_reward):
        return self._run_backward(
            arrays, w_S, 0, include_reward, range(self.first_shared, len(self.operations))
        )

    def action_backup(self, arrays, w, action, include_reward):
        return self._run_backward(arrays, w, action, include_reward, range(self.first_shared))

    def supports_policy_arrays(self, arrays) -> bool:
        # A policy is indexed by the state at the start, so only the last operation may move it.
        *earlier, last = range(self.first_shared) or (None,)
        if last is None:
            return True
        keeps_state = all(self.operations[i].operation_type is Reshape for i in earlier)
        return keeps_state and self.operations[last].supports_policy_arrays(arrays[last])

    def finish_policy_backup(self, arrays, w, policy, include_reward):
        return self.action_backup(arrays, w, policy, include_reward)


def build_stage_backend(
    stages: Sequence[BuiltStage],
    tiles: TileSizes | None,
    n_actions: int,
    for_any_block: bool = False,
) -> StageBackend:
    """The backend of a list of stages; with ``for_any_block`` the same for any block of them."""
    operations = [(stage.operation, stage.depends_on_action) for stage in stages]
    if tiles is None:
        compiled = [operation.compile(depends) for operation, depends in operations]
    else:
        from tessella.mdp.stages.gpu_kernels import build_tiled_operation

        compiled = [build_tiled_operation(*one, tiles, for_any_block) for one in operations]
    return StageBackend(tuple(compiled), n_actions)


def _count_to_last(flags: Sequence[bool]) -> int:
    """Number of flags up to the last one that is True."""
    return max((i + 1 for i, flag in enumerate(flags) if flag), default=0)


def as_stages(given: object) -> tuple[Stage, ...]:
    """The stages of a model in the order of events, each a stage."""
    stages = require_list(given, "a staged model", "stage")
    for stage in stages:
        if not isinstance(stage, Stage):
            requirement = "a stage is Pay, Decide, Shift, Move or Jump"
            raise ModelError(requirement, value=f"got {stage!r}")
    return stages


def multiply_stages(
    operations: Sequence[Operation],
    action: int,
    later=None,
    reachable: NDArray[np.integer] | None = None,
):
    """Sparse matrix of at least one stage under an action, times that of the stages ``later``.

    With its rows for all states, or for the ``reachable`` ones.
    """
    matrices = []
    for operation in operations[:-1]:
        matrix, reachable = _drop_empty_columns(_build_stage_matrix(operation, action, reachable))
        matrices.append(matrix)
    last = _build_stage_matrix(operations[-1], action, reachable)
    rows = last if later is None else last @ later
    for matrix in reversed(matrices):
        rows = matrix @ rows
    return rows


def _drop_empty_columns(matrix):
    """A sparse matrix without its empty columns, and the indices of the others."""
    import scipy.sparse as sp

    reached = np.zeros(matrix.shape[1], dtype=bool)
    reached[matrix.indices] = True
    kept = np.flatnonzero(reached)
    position = np.cumsum(reached) - 1
    parts = matrix.data, position[matrix.indices], matrix.indptr
    return sp.csr_array(parts, shape=(matrix.shape[0], len(kept))), kept


def _build_stage_matrix(operation: Operation, action: int, reachable: NDArray | None):
    """Sparse matrix of one stage, from the ``reachable`` states before it (or all)."""
    import scipy.sparse as sp

    n = math.prod(operation.shape) if reachable is None else len(reachable)
    data = []
    source = []
    target = []
    for target_k, p in operation.outcomes(action):
        target_k, p = (
            a.ravel() if reachable is None else a.ravel()[reachable] for a in (target_k, p)
        )
        positive = np.flatnonzero(p)
        data.append(p[positive])
        source.append(positive)
        target.append(target_k[positive])
    entries = (np.concatenate(source), np.concatenate(target))
    shape = n, math.prod(operation.output_shape)
    return sp.csr_array((np.concatenate(data), entries), shape=shape)
