"""Pay: a reward is paid and nothing moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.context import EvaluationContext
from tessella.mdp.stages.operation import Displacement, Operation, with_length
from tessella.mdp.stages.stage import CompiledStage, Function, Stage, stage_reward


@dataclass(frozen=True, eq=False)
class Pay(Stage):
    """Pay ``pays(...)``, or what ``costs(...)`` with a minus sign, and stay."""

    pays: Function | None = None
    costs: Function | None = None

    def __post_init__(self) -> None:
        if self.pays is None and self.costs is None:
            raise ModelError("a Pay stage needs what it pays, or what it costs")

    def compile(self, context: EvaluationContext) -> CompiledStage:
        paid = stage_reward(context, self.net_reward, "the reward of a Pay stage")
        return CompiledStage(Identity(context.grid.shape), paid, self.net_reward, None)


@dataclass(frozen=True, eq=False)
class Identity(Operation):
    """Every state stays where it is."""

    def restrict_to_leading_axes(self, axes: int) -> Identity:
        return Identity(self.shape[:axes])

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return after

    def max_displacement(self, axis: int) -> Displacement:
        return Displacement()

    def block(self, axis: int, first: int, count: int) -> Identity:
        return Identity(with_length(self.shape, axis, count))

    @property
    def depends_on_action(self) -> bool:
        return False

    def arrays(self) -> dict[str, NDArray]:
        return {}

    def compile(self, depends_on_action: bool) -> CompiledIdentity:
        return CompiledIdentity(depends_on_action)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        yield np.arange(int(np.prod(self.shape))).reshape(self.shape), np.ones(self.shape)

    @property
    def rounding_terms(self) -> int:
        return 0

    @property
    def adjoint_rounding_terms(self) -> int:
        return 0

    def sample(self, states, actions, rng):
        return states, None


@dataclass(frozen=True)
class CompiledIdentity:
    """The compiled side of ``Identity``."""

    depends_on_action: bool

    is_identity = True
    accepts_broadcast_input = True

    def supports_policy_arrays(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        return w
