"""Descriptions of a model in words: the events of a period in order, and the size of its arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.grid import StateGrid
from tessella.mdp.dynamics import Dynamics
from tessella.mdp.exogenous import varies_along
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.model import MDP
from tessella.mdp.stages.move import AxisMatrix
from tessella.mdp.stages.operation import NO_DISPLACEMENT, Operation, Reshape
from tessella.mdp.stages.shift import AxisShift
from tessella.mdp.stages.stage import BuiltStage, ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.tabular import Tabular

NEGLIGIBLE_REWARD_SHARE = 1e-12  # of the largest reward: smaller ones are rounding errors


def describe_events(mdp: MDP) -> list[str]:
    """One sentence for each event of a period."""
    dynamics = mdp.dynamics
    name = mdp.action_name
    axes = mdp.grid.axes
    time = ""
    periods: Sequence[Dynamics] = [dynamics]
    if isinstance(dynamics, FiniteHorizonDynamics):
        periods = dynamics.distinct_periods
        time = axes[0]
        axes = axes[1:]
    if not isinstance(periods[0], Staged):
        rows = periods[0].rows if isinstance(periods[0], Tabular) else None
        entries = "" if rows is None else f" ({rows.nnz:,} entries)"
        return [f"the next state is drawn from the row of state and {name}{entries}"]
    sentences = []
    for stages in zip(*(p.stages for p in periods if isinstance(p, Staged)), strict=False):
        event = _EventDescription(tuple(dict.fromkeys(stages)), axes, name, time)
        sentences.append(str(event))
        axes = event.axes_after
    return sentences


def describe_exogenous(mdp: MDP) -> list[str]:
    """A sentence on the axes that nothing else influences; none where there are none."""
    if mdp.exogenous is None:
        return []
    names = mdp.exogenous.names
    verb = _plural(names, "depends", "depend")
    own_values = _plural(names, "its own value", "their own values")
    count = f"{mdp.exogenous.n_slices:,} values"
    return [f"{_join_names(names)} ({count}) {verb} on {own_values} alone, whatever is done"]


@dataclass(frozen=True)
class _EventDescription:
    """A sentence on a stage, given in all its forms over time; ``axes`` include scratch axes."""

    stages: tuple[BuiltStage, ...]
    axes: tuple[str, ...]
    action: str
    time: str

    @property
    def operation(self) -> Operation:
        return self.stages[0].operation

    @property
    def axes_after(self) -> tuple[str, ...]:
        grid = self.operation.grid if isinstance(self.operation, Reshape) else None
        return self.axes if grid is None else grid.axes

    def __str__(self) -> str:
        if isinstance(self.operation, Reshape):
            if self.operation.grid is None:
                return f"{self._describe_payment()}; the state stays"
            return self._describe_scratch_axes(self.operation.grid)
        subject = self._describe_change()
        signs = self._payment_verbs()
        return f"{subject}; it {' or '.join(signs)}" if signs else subject

    def _payment_verbs(self) -> list[str]:
        """Whether it pays, costs, or both, each in some state."""
        paid = [_reward_factors(stage)[0] for stage in self.stages if stage.reward is not None]
        low = min((float(np.min(numbers)) for numbers in paid), default=0.0)
        high = max((float(np.max(numbers)) for numbers in paid), default=0.0)
        small = NEGLIGIBLE_REWARD_SHARE * max(-low, high)
        return ["pays"] * (high > small) + ["costs"] * (low < -small)

    def _describe_payment(self) -> str:
        """Of a stage that moves nothing: its payment."""
        verbs = [{"pays": "paid", "costs": "charged"}[sign] for sign in self._payment_verbs()]
        inputs = self._find_dependencies(_reward_factors)
        dependence = _clause(" that depends on ", inputs)
        return f"an amount{dependence} is {' or '.join(verbs)}" if verbs else "nothing is paid"

    def _describe_scratch_axes(self, grid: StateGrid) -> str:
        """Of scratch axes, which begin or end."""
        forgotten = self.axes[grid.ndim :]
        if forgotten:
            return f"{_join_names(forgotten)} {_plural(forgotten, 'is', 'are')} forgotten"
        n_known = len(self.axes)
        new_axes = zip(grid.axes[n_known:], grid.values[n_known:], strict=True)
        beginnings = _join_names([f"{axis} begins at {values[0]}" for axis, values in new_axes])
        return f"{beginnings}, known within the period only"

    def _describe_change(self) -> str:
        """Which coordinates change, and whether by chance, the action or other coordinates."""
        moved = self._moved_axes()
        noise = self.stages[0].noise
        if noise is not None and len(noise.values) > 1:
            return self._describe_noise(noise.name, len(noise.values), moved)
        if not moved:
            return "the state stays"
        if noise is None and isinstance(self.operation, AxisMatrix | AxisShift):
            return self._describe_chain(moved)
        return f"{_join_names(moved)} {self._describe_assignment(moved)}"

    def _describe_noise(self, noise: str, count: int, moved: list[str]) -> str:
        """Of a noise: what its probabilities depend on, what it changes, and what else changes."""
        random = self._select_axes(_is_random_along, moved)
        certain = self._select_axes(_can_move_along, [axis for axis in moved if axis not in random])
        chances = _clause(", chances by ", self._probability_inputs())
        subject = f"changes {_join_names(random)}" if random else "is drawn"
        clauses = [f"{noise} ({count} outcomes{chances}) {subject}"]
        if self.action in self._coordinate_inputs(random):
            clauses.append(f"depending on {self.action}")
        if certain:
            clauses.append(f"while {_join_names(certain)} {self._describe_move(certain)}")
        if not (random or certain):
            clauses.append("the state stays")
        return ", ".join(clauses)

    def _describe_move(self, axes: list[str]) -> str:
        """Of coordinates that change without chance: by themselves, or by others."""
        if set(self._coordinate_inputs(axes)) <= set(axes):
            return _plural(axes, "moves on", "move on")
        return self._describe_assignment(axes)

    def _describe_chain(self, moved: list[str]) -> str:
        """Of a Markov chain, whose rows may depend on other coordinates."""
        inputs = [name for name in self._probability_inputs() if name not in moved]
        dependence = _clause(", depending on ", inputs)
        probabilities = [stage.operation.noise_probabilities() for stage in self.stages]
        chance = " by chance" * any(((p > 0) & (p < 1)).any() for p in probabilities)
        return f"{_join_names(moved)} moves on{chance}{dependence}"

    def _describe_assignment(self, axes: list[str]) -> str:
        inputs = self._coordinate_inputs(axes)
        value = _plural(axes, "gets a new value", "get new values")
        return value + _clause(", from ", inputs)

    def _probability_inputs(self) -> list[str]:
        """Names on which the probabilities depend."""
        return self._find_dependencies(
            lambda stage: [np.moveaxis(stage.operation.noise_probabilities(), 1, -1)]
        )

    def _coordinate_inputs(self, axes: list[str]) -> list[str]:
        """Names on which new coordinates depend, apart from the noise."""

        def list_positions(stage: BuiltStage) -> list[NDArray]:
            positions = [stage.operation.noise_positions(self.axes.index(axis)) for axis in axes]
            return [np.moveaxis(along, 1, -1) for along in positions]

        return self._find_dependencies(list_positions)

    def _select_axes(self, test: Callable[[Operation, int], bool], axes: list[str]) -> list[str]:
        """Those of ``axes`` along which the test holds for a stage."""
        operations = [stage.operation for stage in self.stages]
        return [
            a for a in axes if any(test(operation, self.axes.index(a)) for operation in operations)
        ]

    def _moved_axes(self) -> list[str]:
        operations = [stage.operation for stage in self.stages]
        return [
            axis
            for k, axis in enumerate(self.axes)
            if any(operation.max_displacement(k) != NO_DISPLACEMENT for operation in operations)
        ]

    def _find_dependencies(self, numbers: Callable[[BuiltStage], list[NDArray]]) -> list[str]:
        """Axes, time and action along which the (A | 1, *broadcast, ...) numbers differ."""
        names = (self.action, *self.axes)
        first = numbers(self.stages[0])
        inputs = set()
        for arrays in map(numbers, self.stages):
            inputs |= {
                name for array in arrays for k, name in enumerate(names) if varies_along(array, k)
            }
            inputs |= set() if _same_numbers(arrays, first) else {self.time}
        return [name for name in (*self.axes, self.time, self.action) if name in inputs]


def _is_random_along(operation: Operation, axis: int) -> bool:
    """Whether possible outcomes lead from one state to different positions along an axis."""
    positions, possible = np.broadcast_arrays(
        operation.noise_positions(axis), operation.noise_probabilities() > 0
    )
    low = positions.min(axis=1, initial=positions.max(), where=possible)
    high = positions.max(axis=1, initial=positions.min(), where=possible)
    return bool((low < high).any())


def _can_move_along(operation: Operation, axis: int) -> bool:
    """Whether a possible outcome leads to another position along an axis."""
    moves = operation.noise_positions(axis) != operation.current_positions(axis)
    return bool((moves & (operation.noise_probabilities() > 0)).any())


def _reward_factors(stage: BuiltStage) -> list[NDArray]:
    """(A | 1, *broadcast, ...) the rewards of a stage, and perhaps their probabilities."""
    reward = stage.reward
    if isinstance(reward, ExpectedReward):
        return [reward.reward, reward.probs]
    return [] if reward is None else [reward]


def _same_numbers(left: list[NDArray], right: list[NDArray]) -> bool:
    """Whether open meshes hold the same numbers, whatever their lengths."""
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(bool((a == b).all()) for a, b in pairs)


def _plural(names: Sequence[str], singular: str, plural: str) -> str:
    return plural if len(names) > 1 else singular


def _clause(text: str, names: Sequence[str]) -> str:
    """``text`` followed by the names; empty without names."""
    return text + _join_names(names) if names else ""


def _join_names(names: Sequence[str]) -> str:
    """``stock, regime and order``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def count_model_bytes(dynamics: Dynamics) -> int:
    """Bytes of the arrays of a model."""
    if isinstance(dynamics, FiniteHorizonDynamics):
        return dynamics.discounted_final.nbytes + sum(
            map(count_model_bytes, dynamics.distinct_periods)
        )
    if isinstance(dynamics, Staged):
        arrays = [array for stage in dynamics.stages for array in stage.arrays().values()]
    elif isinstance(dynamics, Tabular):
        rows = dynamics.rows
        arrays = [rows.data, rows.indices, rows.indptr, dynamics.row_of, dynamics.reward]
    else:
        arrays = []
    return sum(array.nbytes for array in arrays)


def count_largest_intermediate(dynamics: Dynamics) -> int:
    """Entries of the largest array in a backup, scratch axes included."""
    if isinstance(dynamics, FiniteHorizonDynamics):
        return len(dynamics.periods) * max(
            map(count_largest_intermediate, dynamics.distinct_periods)
        )
    if isinstance(dynamics, Staged):
        return dynamics.largest_intermediate
    return math.prod(dynamics.shape)
