"""Two perishable products with substitution: Hendrix et al. (2019), against events one by one."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom, poisson

import tessella as ts
from tessella.mdp.compilation import in_float64

TINY = [
    {"life": 2, "max_order_a": 2, "max_order_b": 3, "max_demand": 4},
    {"life": 3, "max_order_a": 1, "max_order_b": 1, "max_demand": 3},
    {"life": 1, "max_order_a": 3, "max_order_b": 2, "max_demand": 4},
]
PRICES = {"price_a": 1.5, "price_b": 1.1, "unit_cost_a": 0.6, "unit_cost_b": 0.4}
OTHERS = {"demand_a": 1.3, "demand_b": 1.7, "substitution": 0.4, **PRICES}


def lumped(mean: float, largest: int) -> np.ndarray:
    law = poisson.pmf(np.arange(largest + 1), mean)
    return np.append(law[:-1], 1 - law[:-1].sum())


def enumerated(
    life: int, max_order_a: int, max_order_b: int, max_demand: int
) -> tuple[np.ndarray, np.ndarray]:
    """(S, A, S) transitions and (S, A) rewards: each demand, each number who take an a instead."""
    lengths = (max_order_a + 1,) * life + (max_order_b + 1,) * life
    orders, size = (max_order_a + 1, max_order_b + 1), math.prod(lengths)
    shape = (size, math.prod(orders), *(max_demand + 1,) * 3)
    s, action, wants_a, wants_b, instead = np.indices(shape).reshape(5, -1)
    stock = np.array(np.unravel_index(s, lengths))
    ordered = np.unravel_index(action, orders)
    chance = lumped(1.3, max_demand)[wants_a] * lumped(1.7, max_demand)[wants_b]
    unmet = np.maximum(wants_b - stock[life:].sum(axis=0), 0)
    chance = chance * binom.pmf(instead, unmet, 0.4)
    after, paid = [], np.zeros(s.size)
    for product, demand in enumerate((wants_a + instead, wants_b)):
        shelf = stock[product * life : (product + 1) * life]
        older = np.cumsum(shelf[::-1], axis=0)[::-1] - shelf
        left = shelf - np.clip(demand - older, 0, shelf)
        after += [ordered[product], *left[:-1]]
        paid += [1.5, 1.1][product] * (shelf - left).sum(axis=0)
        paid -= [0.6, 0.4][product] * ordered[product]
    to = np.ravel_multi_index(tuple(after), lengths)
    moves, rewards = np.zeros((*shape[:2], size)), np.zeros(shape[:2])
    np.add.at(moves, (s, action, to), chance)
    np.add.at(rewards, (s, action), chance * paid)
    return moves, rewards


@pytest.fixture(scope="module", params=TINY, ids=lambda case: f"life{case['life']}")
def case(request):
    return ts.problem("two_products").build(**request.param, **OTHERS), enumerated(**request.param)


def test_stages_do_what_events_one_by_one_do(case):
    mdp, (moves, rewards) = case
    staged = np.stack([m.toarray() for m in mdp.dynamics.to_sparse()], axis=1)
    np.testing.assert_allclose(staged, moves, atol=1e-14)
    np.testing.assert_allclose(mdp.dynamics.expected_reward(), rewards, atol=1e-13)


@in_float64
def test_a_compiled_backup_is_that_of_the_events(case):
    mdp, (moves, rewards) = case
    lowered, w = mdp.dynamics.compile(), np.random.default_rng(1).normal(size=mdp.grid.shape)
    program, arrays = lowered.backend, lowered.arrays

    @jax.jit
    def backup(w):
        tail = program.shared_backup(arrays, w, True)
        each = [program.action_backup(arrays, tail, a, True).ravel() for a in range(mdp.n_actions)]
        return jnp.stack(each, axis=1)

    expected = rewards + moves @ w.ravel()
    np.testing.assert_allclose(backup(w), expected, rtol=0, atol=1e-13)


def test_the_best_gain_is_that_of_value_iteration_on_the_events(case):
    mdp, (moves, rewards) = case
    value, change = np.zeros(mdp.n_states), np.array([0.0, np.inf])
    while np.ptp(change) > 1e-9:
        after = (rewards + moves @ value).max(axis=1)
        value, change = after - after[0], after - value
    solution = ts.solve(mdp, tol=1e-7)
    assert abs(solution.gain - change.mean()) <= solution.error_bound + 1e-9 <= 2e-7


def test_walkers_earn_what_the_policy_is_worth(case):
    """Mean of 4,000 walkers over 30 periods from empty, to within five of its own errors."""
    mdp, (moves, rewards) = case
    policy = ts.solve(mdp, tol=1e-6).policy
    s, taken = np.arange(mdp.n_states), policy.table.ravel()
    worth = np.zeros(mdp.n_states)
    for _ in range(30):
        worth = rewards[s, taken] + moves[s, taken] @ worth
    paths = ts.simulate(mdp, policy, periods=30, start=0, rng=3, paths=4000).returns
    assert abs(paths.mean() - worth[0]) < 5 * paths.std() / math.sqrt(4000) < 0.03 * abs(worth[0])


def test_the_gain_is_the_one_that_was_published():
    """4.503 at life 2: the authors' own program, as the tests of viso_jax tell.

    The paper prints 5.509, more than ten units a day with half a unit's worth earned on each could
    bring. Orders up to 10 of both, mean demands of 5: 14,641 states and 121 actions.
    """
    mdp = ts.problem("two_products").build(
        max_order_a=10, max_order_b=10, demand_a=5.0, demand_b=5.0, max_demand=24
    )
    solution = ts.solve(mdp, ts.ValueIteration(1e-4))
    assert round(solution.gain - solution.error_bound, 3) == 4.503
    assert round(solution.gain + solution.error_bound, 3) == 4.503


@in_float64
def test_nothing_over_states_and_units_that_are_wanted_is_ever_held():
    """Between stages w has length one along what later stages overwrite or forget."""
    mdp = ts.problem("two_products").build()
    lowered = mdp.dynamics.compile()
    program, arrays = lowered.backend, lowered.arrays
    held = jax.make_jaxpr(
        lambda w: program.action_backup(arrays, program.shared_backup(arrays, w, True), 7, True)
    )
    sizes = [
        math.prod(var.aval.shape)
        for equation in held(np.zeros(mdp.grid.shape)).jaxpr.eqns
        for var in equation.outvars
    ]
    wanted = mdp.parameters["max_demand"] + 1
    assert mdp.n_states <= max(sizes) == 6**3 * wanted < mdp.n_states * wanted / 4
