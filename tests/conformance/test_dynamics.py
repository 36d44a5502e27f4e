"""Dynamics written outside of the package are checked by comparing their forms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import tessella as ts
from tessella.conformance import check_dynamics
from tessella.mdp.dynamics import Backend, BackendModel
from tessella.rounding import RowSumBounds


def tabular():
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(5), size=(2, 5))
    return ts.MDP.from_arrays(rows, rng.normal(size=(5, 2)), 0.9).dynamics


@pytest.mark.parametrize(
    "mdp",
    [
        ts.inventory(max_stock=6, max_regime=3, max_demand=5),
        ts.queue_admission(max_queue=5, max_regime=3, max_arrivals=4, max_service=4),
    ],
    ids=lambda mdp: mdp.name,
)
def test_staged_dynamics_say_one_thing_in_all_their_forms(mdp):
    check_dynamics(mdp.dynamics)


def test_tabular_dynamics_say_one_thing_in_all_their_forms():
    check_dynamics(tabular())


def altered(**methods):
    """Tabular dynamics with something changed, as an author may get it wrong."""
    dynamics = tabular()
    kind = type(dynamics)
    changed = dataclass(frozen=True, eq=False)(type("Mine", (kind,), methods))
    return changed(*(getattr(dynamics, name) for name in kind.__dataclass_fields__))


@dataclass(frozen=True)
class Shy(Backend):
    """A backend that forgets the second action's reward."""

    program: Backend

    @property
    def n_actions(self):
        return self.program.n_actions

    def shared_backup(self, arrays, w_S, include_reward):
        return self.program.shared_backup(arrays, w_S, include_reward)

    def action_backup(self, arrays, w, action, include_reward):
        return self.program.action_backup(arrays, w, action, include_reward and action != 1)


def forgetful(self):
    lowered = tabular().compile()
    return replace(lowered, backend=Shy(lowered.backend))


def hasty(self, states, actions, rng):
    steps = tabular().step(states, actions, rng)
    return replace(steps, next_states=np.minimum(steps.next_states, 3))


def generous(self, states, actions, rng):
    steps = tabular().step(states, actions, rng)
    return replace(steps, rewards=steps.rewards + 0.5)


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (
            {"compute_row_sums": lambda self: RowSumBounds(0.0, -0.5)},
            "row_sums states that rows sum to",
        ),
        ({"reward_scale": property(lambda self: 0.1)}, "reward_scale 0.1 must not be less"),
        ({"longest_row": property(lambda self: 2)}, "longest_row 2 must not be less than the 5"),
        ({"compile": forgetful}, "the backend's backup under action 1 is"),
        ({"step": hasty}, "next states: the mean"),
        ({"step": generous}, "rewards: the mean"),
        ({"to_sparse": lambda self: []}, "to_sparse must give 2 matrices of shape"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_dynamics_that_contradict_themselves_are_told_where(methods, said):
    with pytest.raises(AssertionError, match=said):
        check_dynamics(altered(**methods))


def test_a_policy_backup_of_its_own_is_compared_too():
    class Lazy(Shy):
        def action_backup(self, arrays, w, action, include_reward):
            return self.program.action_backup(arrays, w, action, include_reward)

        def supports_policy_arrays(self, arrays):
            return True

        def finish_policy_backup(self, arrays, w, policy, include_reward):
            return self.program.action_backup(arrays, w, 0, include_reward)

    def compile(self):
        lowered = tabular().compile()
        return BackendModel(Lazy(lowered.backend), lowered.arrays)

    with pytest.raises(AssertionError, match="backup under a policy"):
        check_dynamics(altered(compile=compile))
