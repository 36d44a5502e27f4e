"""Staged dynamics: one period as a list of events, never a matrix over states.

With stages 1..m in the order of events, E_i the expectation of stage i and r_i what it pays,

    backup(w) = r_1 + E_1[ r_2 + E_2[ ... r_m + E_m[ w ] ] ]

where r_i is the stage's expected reward given the state at its moment. Memory is linear in states.

A small model is solved as the table of its periods: multiplying a few rows takes no longer than
going through stages, and nothing has to be compiled. Its bounds then count the rounding of rows.
So is a larger one of heavy stages, if they take more products than its rows have entries, and these
are not too many to be made and held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import refuse_unordered
from tessella.mdp.dynamics import Dynamics, Factorised, Lowered, Steps
from tessella.mdp.scope import TIME, Scope, call
from tessella.mdp.stages.operation import CompiledOperation, Operation, Reach, at, paid
from tessella.mdp.stages.pay import Pay
from tessella.mdp.stages.product import product, rows_of, visited
from tessella.mdp.stages.reward import largest_reward
from tessella.mdp.stages.scratch import Resting, begun_on, fold, widened
from tessella.mdp.stages.stage import Stage, StageNumbers
from tessella.mdp.stages.tiling import Tiles, tiling
from tessella.mdp.tabular.rows import unique_rows
from tessella.mdp.tabular.tabular import Tabular
from tessella.rounding import EPS, Added, Built, Mass

SMALL = 1 << 20  # probabilities of a model that is solved as a table
HEAVY = 1 << 24  # products of one sweep through stages, from which on a table may be less work ...
LARGEST = 1 << 24  # ... of so many probabilities at most
SHORTEST = 16  # probabilities of a row, on average, with which a table must still be small enough
WIDEST = 1 << 24  # outcomes in all states of one stage, up to which rows may be made ...
VISITED = 1 << 27  # ... and of all stages and actions
SAMPLED = 256, 3  # states and actions, whose rows tell how long rows are
MISJUDGED = 2  # times as many as was judged by these, and making rows ends


@dataclass(frozen=True, eq=False)
class Staged(Dynamics):
    """Dynamics told as stages; build it with ``MDP.staged``."""

    scope: Scope
    stages: tuple[StageNumbers, ...]

    @staticmethod
    def build(
        scope: Scope,
        stages: Sequence[Stage],
        feasible: NDArray[np.bool_] | None = None,
        scratch: Mapping[str, Sequence] | None = None,
        make: Callable[[Stage, Scope], StageNumbers] | None = None,
    ) -> Staged:
        """Make numbers of the stages.

        ``feasible`` (S, A) says which pairs can occur; ``scratch`` axes exist within a period only.
        ``make`` may have the numbers of a stage already.
        """
        stages = as_stages(stages)
        wide = widened(scope, scratch) if scratch is not None else scope
        moment = wide
        if feasible is not None:
            shape = (len(scope.actions), *scope.grid.shape)
            some = (1,) * (wide.rank - len(shape))
            moment = replace(wide, allowed=feasible.T.reshape(shape + some))
        numbers = []
        for stage in stages:
            numbers.append(make(stage, moment) if make else stage.numbers(moment))
            # The mask speaks of the state at the start, which any stage but Pay leaves behind.
            moment = moment if isinstance(stage, Pay) else wide
        if scratch is not None:
            numbers = fold(wide.grid, scope.grid, numbers)
        return Staged(scope, tuple(numbers))

    def row_mass(self) -> Mass:
        return reduce(Mass.then, (stage.operation.mass for stage in self.stages))

    @cached_property
    def small(self) -> bool:
        """Whether it is solved as a table: one that must be small, or was made and is."""
        if self.entries <= SMALL:
            return True
        most = SMALL if self.products < HEAVY else min(self.products, LARGEST)
        if not self._may_be_written(most) or self.likely_entries > most:
            return False
        made = self._written_out(MISJUDGED * most)
        if made is not None:
            object.__setattr__(self, "table", made)
        return made is not None

    def _may_be_written(self, most: int) -> bool:
        """Whether looking for its rows takes little time and memory, however long they are."""
        each = [visited(operation) for operation in self._operations]
        shortest = self.scope.grid.size * self.n_actions * SHORTEST
        return shortest <= most and max(each) <= WIDEST and sum(each) * self.n_actions <= VISITED

    @property
    def entries(self) -> int:
        """Probabilities of its table and of what it is made of, counted from above."""
        largest, outcomes, copies = 0, 1, 1
        for operation in reversed(self._operations):
            outcomes = min(outcomes * max(operation.terms, 1), self.scope.grid.size)
            copies = self.n_actions if operation.acts else copies
            largest = max(largest, math.prod(operation.shape) * outcomes * copies)
        return max(largest, self.scope.grid.size * self.n_actions * self.longest_row)

    @property
    def products(self) -> int:
        """Of a sweep over all actions through the stages, by what matters to each."""
        return self._products(self.n_actions)

    @property
    def products_of_one(self) -> int:
        """The same of a sweep of one policy."""
        return self._products(1)

    def _products(self, n_actions: int) -> int:
        acting, total = self._first_acting, 0
        for i, length in self._meshes():
            once = length * max(self.stages[i].operation.terms, 1)
            total += once * (n_actions if i < acting else 1)
        return total

    @cached_property
    def likely_entries(self) -> int:
        """Probabilities of its table, judged by rows drawn at random, the same in every process."""
        n, rng = self.scope.grid.size, np.random.default_rng(0)
        states = rng.choice(n, min(SAMPLED[0], n), replace=False)
        actions = rng.choice(self.n_actions, min(SAMPLED[1], self.n_actions), replace=False)
        found = [rows_of(self._operations, a, states).nnz for a in actions]
        return math.ceil(sum(found) / (len(states) * len(actions)) * n * self.n_actions)

    @cached_property
    def table(self) -> Tabular:
        """The same dynamics by rows, each entry a rounded sum of products over the stages."""
        made = self._written_out(math.inf)
        assert made is not None
        return made

    def _written_out(self, most: float) -> Tabular | None:
        """The table; None where it turns out to have more probabilities than these."""
        import scipy.sparse as sp

        n, n_actions, operations = self.scope.grid.size, self.n_actions, self._operations
        shared = self._first_shared
        if shared > 1:
            parts, entries = [], 0
            for part in self._each_action():
                parts.append(part)
                entries += part.nnz
                if entries > most:
                    return None
            rows, row_of = sp.vstack(parts, format="csr"), np.arange(n * n_actions)
        else:  # few distinct moves, each followed by the same rest of the period
            moves = [product(operations[:1], a) for a in range(n_actions if shared else 1)]
            rows, row_of = unique_rows(sp.csr_array(sp.vstack(moves, format="csr")))
            later = operations[1:]
            rows = sp.csr_array(rows @ product(later, 0) if later else rows)
            if rows.nnz > most:
                return None
        row_of = np.resize(row_of, n * n_actions).reshape(n_actions, n).T
        return Tabular.build(
            self.scope, sp.csr_array(rows), row_of, self.expected_reward(), built=self.written
        )

    @cached_property
    def lowered(self) -> Lowered:
        """For NumPy where the model is small, and compiled otherwise."""
        return self.table.lowered if self.small else self.compiled

    @cached_property
    def compiled(self) -> Lowered:
        """Through stages, whose bounds do not count the rounding of rows."""
        return self.lower()

    @property
    def built(self) -> Built:
        return self.written if self.small else self.stored

    @cached_property
    def stored(self) -> Built:  # type: ignore[override]
        rows = sum(stage.operation.rounded for stage in self.stages)
        rows *= 1 + EPS * self.through_stages.terms
        # What a later stage pays is weighed by the rows of those before it.
        reward = sum(stage.reward_error for stage in self.stages)
        return Built(rows, (reward + rows * self.reward_scale) * (1 + rows))

    @property
    def interpolated(self) -> bool:
        return any(stage.operation.interpolates for stage in self.stages)

    @cached_property
    def written(self) -> Built:  # type: ignore[override]
        # Each entry of a row, and each reward, is a sum over stages of so many terms.
        rounding = EPS / 2 * (self.through_stages.terms + 2)
        built = self.stored
        return Built(built.rows + rounding, built.reward + rounding * self.reward_scale)

    @property
    def longest_row(self) -> int:
        outcomes = math.prod(max(stage.operation.terms, 1) for stage in self.stages)
        return min(outcomes, self.scope.grid.size)

    @property
    def terms(self) -> int:
        return self._added.terms

    @property
    def adjoint_terms(self) -> int:
        return self._added.adjoint_terms

    @cached_property
    def _added(self) -> Added:
        """On either way: a method that JAX compiles takes a small model through stages."""
        if not self.small:
            return self.through_stages
        return self.through_stages.or_else(Added(self.table.terms, self.table.adjoint_terms))

    @cached_property
    def through_stages(self) -> Added:
        """Numbers added up on the way through the stages."""
        # Two more for each stage: the products, and the reward that is added.
        operations = self._operations
        return Added(
            sum(operation.terms + 2 for operation in operations),
            sum(operation.adjoint_terms + 2 for operation in operations),
        )

    @cached_property
    def reward_scale(self) -> float:  # type: ignore[override]
        paid = (stage.reward for stage in self.stages if stage.reward is not None)
        return float(sum(map(largest_reward, paid)))

    def lower(self) -> Lowered:
        from tessella.mdp.engine import on_device

        program = program_of(self.stages, tiling(self.shape), self.n_actions)
        return Lowered(program, on_device([stage.arrays() for stage in self.stages]))

    def reach(self, axis: int) -> Reach | None:
        found = [stage.operation.reach(axis) for stage in self.stages]
        known = [reach for reach in found if reach is not None]
        return sum(known, Reach()) if len(known) == len(found) else None

    @property
    def widest(self) -> int:
        """Numbers of the largest array that a backward pass goes through, by what matters there."""
        return max(math.prod(self.shape), *(length for _, length in self._meshes()))

    def _meshes(self) -> Iterator[tuple[int, int]]:
        """Stages from the last on, and how many numbers a backward pass has before each."""
        lengths, shared = self.shape, self._first_acting
        for i in reversed(range(len(self.stages))):
            operation, reward = self.stages[i].operation, self.stages[i].reward
            lengths = operation.lengths_before(lengths)
            if reward is not None:
                lengths = np.broadcast_shapes(lengths, reward.shape[1:])
            if i == shared:  # what actions share is handed on in full
                lengths = operation.shape
            yield i, math.prod(lengths)

    @property
    def _first_acting(self) -> int:
        """From this stage on, neither moves nor rewards depend on an action."""
        return max((i + 1 for i, stage in enumerate(self.stages) if stage.acts), default=0)

    def factorised(self, policy: NDArray, discount: float) -> Factorised | None:
        return self.table.factorised(policy, discount) if self.small else None

    def to_sparse(self) -> list:
        return list(self._each_action())

    def _each_action(self) -> Iterator:
        """(S, S) the rows of one action after the other."""
        shared = self._first_shared
        end = product(self._operations[shared:], 0) if shared < len(self.stages) else None
        for action in range(self.n_actions):
            yield product(self._operations[:shared], action, end)

    @property
    def _operations(self) -> list[Operation]:
        return [stage.operation for stage in self.stages]

    @property
    def _first_shared(self) -> int:
        """From this stage on, where the state goes depends on no action."""
        return max((i + 1 for i, one in enumerate(self._operations) if one.acts), default=0)

    def __getstate__(self) -> dict:
        return {key: value for key, value in super().__getstate__().items() if key != "table"}

    def reward_under(self, action: int) -> NDArray[np.float64]:
        w: NDArray | None = None  # nothing is paid after the last stage
        for stage in reversed(self.stages):
            if w is not None:
                w = _expected(stage.operation, w, action)
            if stage.reward is not None:
                start = np.zeros(stage.operation.shape) if w is None else w
                w = at(np.asarray(stage.reward), action) + start
        return (np.zeros(self.shape) if w is None else w).ravel()

    def step(self, states, actions, rng) -> Steps:
        paid, grid = np.zeros(len(states)), self.scope.grid
        for stage in self.stages:
            now = states
            states, k = stage.operation.sample(now, actions, rng)
            if stage.pays is not None:
                paid = paid + self._payment(stage, grid.coordinates(now), actions, k)
            grid = stage.operation.grid if isinstance(stage.operation, Resting) else grid
        return Steps(states, paid, np.zeros(len(states), dtype=bool))

    def _payment(self, stage: StageNumbers, names: dict, actions, k) -> NDArray[np.float64]:
        """(n,) what a stage pays n walkers at these coordinates, on the noise that each drew."""
        names |= {n: values[actions] for n, values in self.scope.named_actions.items()}
        if self.scope.period is not None:
            names[TIME] = np.int64(self.scope.period.time)
        if stage.noise is not None:
            names[stage.noise[0]] = stage.noise[1][k]
        assert stage.pays is not None
        paid = np.asarray(call(stage.pays, names, "a reward"), dtype=float)
        if paid.shape not in ((), actions.shape):
            raise ModelError(
                "a reward must be worked out elementwise from what it names",
                value=f"{len(actions)} states are paid an array of shape {paid.shape}",
            )
        return paid


@dataclass(frozen=True)
class StagedProgram:
    """The compiled side: operations in the order of events.

    The backward pass runs through them from the last. All of it is linear apart from what is paid,
    so ``jax.linear_transpose`` of a pass with ``pay=False`` is the forward (occupancy) pass.
    """

    operations: tuple[CompiledOperation, ...]
    n_actions: int

    @property
    def first_shared(self) -> int:
        """Operations from here to the end depend on no action."""
        shared = len(self.operations)
        while shared and not self.operations[shared - 1].acts:
            shared -= 1
        return shared

    def _back(self, arrays, w, action, pay, span):
        """Through some operations; in between w is an open mesh where that is enough."""
        import jax.numpy as jnp

        shape = w.shape
        for i in reversed(span):
            operation = self.operations[i]
            if jnp.ndim(action) or not operation.takes_open:
                w = jnp.broadcast_to(w, shape)
            taken = _of_rank(action, w)
            if pay and "reward" in arrays[i]:
                w = paid(operation, arrays[i], w, taken)
            else:
                w = operation.apply(arrays[i], w, taken)
            shape = begun_on(operation, shape)
        return jnp.broadcast_to(w, shape)

    def tail(self, arrays, w_S, pay):
        return self._back(arrays, w_S, 0, pay, range(self.first_shared, len(self.operations)))

    def head(self, arrays, w, action, pay):
        return self._back(arrays, w, action, pay, range(self.first_shared))

    def follows(self, arrays) -> bool:
        # A policy speaks of the state at the start, which the first move leaves behind.
        *before, last = range(self.first_shared) or (None,)
        if last is None:
            return True
        still = all(self.operations[i].stays for i in before)
        return still and self.operations[last].follows(arrays[last])

    def head_under(self, arrays, w, policy, pay):
        return self.head(arrays, w, policy, pay)


def program_of(
    stages: Sequence[StageNumbers], tiles: Tiles | None, n_actions: int, anywhere: bool = False
) -> StagedProgram:
    """The program of a list of stages; with ``anywhere`` the same for any window of them."""
    told = [(stage.operation, stage.acts) for stage in stages]
    if tiles is None:
        return StagedProgram(tuple(operation.compiled(acts) for operation, acts in told), n_actions)
    from tessella.mdp.stages.tiled import in_tiles

    return StagedProgram(tuple(in_tiles(*one, tiles, anywhere) for one in told), n_actions)


def as_stages(told: object) -> tuple[Stage, ...]:
    """The stages of a model in the order of events, each a stage."""
    refuse_unordered(told, "stages")
    if not isinstance(told, Iterable) or isinstance(told, str):
        raise ModelError("a staged model needs a list of stages", value=f"got {told!r}")
    stages = tuple(told)
    if not stages:
        raise ModelError("a staged model needs at least one stage")
    for stage in stages:
        if not isinstance(stage, Stage):
            rule = "a stage is Pay, Decide, Shift, Move or Jump"
            raise ModelError(rule, value=f"got {stage!r}")
    return stages


def _of_rank(action, w):
    """A policy as ``w`` is counted, which may have scratch axes: they do not matter to it."""
    import jax.numpy as jnp

    extra = jnp.ndim(w) - jnp.ndim(action)
    if not jnp.ndim(action) or not extra:
        return action
    return jnp.broadcast_to(action[(..., *(None,) * extra)], w.shape)


def _expected(operation: Operation, w: NDArray, action: int) -> NDArray[np.float64]:
    flat, total = w.ravel(), np.zeros(operation.shape)
    for to, p in operation.outcomes(action):
        total += p * flat[to]
    return total
