"""Models whose expected rewards are kept as factors, as those of very large grids are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import tessella as ts
from tessella.mdp.checks import FunctionChecks
from tessella.mdp.dynamics import REWARD
from tessella.mdp.stages.operation import RandomOperation
from tessella.mdp.stages.stage import BuiltStage, compute_payment
from tessella.mdp.stages.staged import Staged
from tessella.mdp.state_action_space import NoiseTable, StateActionSpace


def keep_factors(mdp: ts.MDP) -> ts.MDP:
    """The model with each expected reward as its factors, where these are much smaller."""
    dynamics = mdp.dynamics
    assert isinstance(dynamics, Staged)
    stages = tuple(_keep_factors(stage, dynamics.space) for stage in dynamics.stages)
    return replace(mdp, dynamics=replace(dynamics, stages=stages))


def _keep_factors(stage: BuiltStage, space: StateActionSpace) -> BuiltStage:
    function = stage.paid.function
    if function is None or stage.noise is None:
        return stage
    assert isinstance(stage.operation, RandomOperation)
    probs = np.moveaxis(stage.operation.probs, 1, -1)
    assert probs.shape[-1] == len(stage.noise.values), "one outcome for each value of the noise"
    checks = FunctionChecks(space, "the reward", NoiseTable(stage.noise, probs))
    factored = compute_payment(checks, function, max_entries=0)
    return replace(stage, payments={**stage.payments, REWARD: factored})
