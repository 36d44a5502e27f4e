"""A backup of one policy gives the same numbers as action by action, in one pass if possible."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.mdp.compilation import in_float64, to_device

RNG = np.random.default_rng(0)
WALK = ts.Shift("y", ts.Noise("drift", [-1, 0, 1], [0.2, 0.5, 0.3]))
GRID = {"x": range(5), "y": range(3)}


def staged(*stages, actions=(0, 1, 2)):
    return ts.MDP.staged(GRID, actions, 0.9, [*stages, WALK])


def tabular():
    rows = RNG.dirichlet(np.ones(15), size=(3, 15))
    return ts.MDP.from_arrays(rows, RNG.normal(size=(15, 3)), 0.9)


HALF = ts.Noise("w", [0, 1], [0.4, 0.6])
RAISE = ts.Decide("x", to=lambda x, action: np.minimum(x + action, 4), pays=lambda action: -action)
STEP = ts.Shift("x", HALF, by=lambda w, action: -w * action)
JUMP = ts.Jump(HALF, to=lambda x, w, action: {"x": (x + w * action) % 5})
SIGN = np.array([1.0, -1.0])
LAW = ts.Noise("w", [0, 1], lambda y, action: 0.5 + 0.03 * SIGN * (y + action))
CHANCE = ts.Jump(LAW, to=lambda x, w: {"x": np.minimum(x + w, 4)})
LUCK = ts.Shift("x", LAW)
CYCLE = np.eye(5)[[1, 2, 3, 4, 0]]
FLIP = ts.Move("x", CYCLE, pays=lambda x, action: x * action)
TURN = ts.Move("x", lambda action: np.where(action > 0, CYCLE, np.eye(5)))
FEE = ts.Pay(lambda x, action: x * action)

MODELS = {
    "a table": (tabular(), True),
    "a decision first": (staged(RAISE), True),
    "a fee, then a decision": (staged(FEE, RAISE), True),
    "a fee alone": (staged(FEE), True),
    "a shift by the action": (staged(STEP), False),
    "a jump by the action": (staged(JUMP), True),
    "a jump with a law by the action": (staged(CHANCE), True),
    "a shift by one of many actions": (staged(STEP, actions=range(12)), True),
    "a shift with a law by one of many": (staged(LUCK, actions=range(12)), True),
    "a chain that pays by the action": (staged(FLIP), True),
    "a chain by the action": (staged(TURN), False),
    "a decision after the walk": (staged(WALK, RAISE), False),
    "two decisions": (staged(RAISE, RAISE), False),
}


@in_float64
def both(mdp, table, w, pay):
    model = mdp.dynamics.compile()
    program, arrays = model.backend, model.arrays
    policy, w_S = to_device(table), to_device(w)
    tail = program.shared_backup(arrays, w_S, pay)

    plain = np.zeros(mdp.grid.shape)
    for action in range(mdp.n_actions):
        backup = np.asarray(program.action_backup(arrays, tail, action, pay))
        plain = np.where(table == action, backup, plain)
    return np.asarray(program.policy_backup(arrays, w_S, policy, pay)), plain


@pytest.mark.parametrize("pay", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_each_state_gets_the_backup_of_its_own_action(name, pay):
    mdp, _ = MODELS[name]
    table = RNG.integers(0, mdp.n_actions, mdp.grid.shape).astype(np.int32)
    together, one_by_one = both(mdp, table, RNG.normal(size=mdp.grid.shape), pay)
    # The same products and sums; compiled together they may round once more.
    assert np.allclose(together, one_by_one, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_a_policy_known_at_the_start_of_the_period_needs_one_pass(name):
    mdp, once = MODELS[name]
    lowered = mdp.dynamics.compile()
    assert lowered.backend.supports_policy_arrays(lowered.arrays) is once
