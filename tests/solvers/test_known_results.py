"""Results from the literature and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from support.models import random_model

import tessella as ts


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99, 0.9999])
def test_one_state_is_worth_its_best_reward_over_one_minus_discount(discount):
    mdp = ts.MDP.from_arrays(np.ones((3, 1, 1)), np.array([[1.0, 3.0, 2.0]]), discount)
    solution = ts.solve(mdp)
    assert abs(solution.value.item() - 3.0 / (1 - discount)) <= solution.error_bound + 1e-12
    assert solution.policy.table.item() == 1
    assert solution.margin.item() == pytest.approx(1.0, rel=1e-9)


def test_machine_replacement_follows_the_renewal_equations():
    """Keep: cost 1, 3, 6 by age and one step older; replace: 5 plus a new machine's first year.

    Replacing at age 2 gives V0 = -1 + g(-3 + g V2), V2 = -(5 + 1) + g V1, V1 = -3 + g V2, from
    which V1 = (-3 - 6 g)/(1 - g^2); any other rule is worse at g = 0.9.
    """
    g = 0.9
    cost = np.array([1.0, 3.0, 6.0])
    keep, replace = np.zeros((3, 3)), np.zeros((3, 3))
    keep[[0, 1, 2], [1, 2, 2]] = 1.0
    replace[:, 1] = 1.0
    reward = np.stack([-cost, np.full(3, -(5.0 + cost[0]))], axis=1)
    mdp = ts.MDP.from_arrays(np.stack([keep, replace]), reward, g)
    solution = ts.solve(mdp, ts.PolicyIteration())
    v1 = (-3 - 6 * g) / (1 - g**2)
    expected = np.array([-1 + g * v1, v1, -6 + g * v1])
    assert np.allclose(solution.value, expected, rtol=1e-12)
    assert solution.policy.table.tolist() == [0, 0, 1]


def test_forest_management_of_pymdptoolbox():
    """Its default: three ages, fire 0.1, wait pays 4 in the oldest, cut pays 1 and 2.

    At 0.96 waiting is best everywhere, so V = (I - 0.96 P_wait)^-1 (0, 0, 4).
    """
    p = 0.1
    wait = np.array([[p, 1 - p, 0], [p, 0, 1 - p], [p, 0, 1 - p]])
    cut = np.array([[1.0, 0, 0]] * 3)
    reward = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 2.0]])
    mdp = ts.MDP.from_arrays(np.stack([wait, cut]), reward, 0.96)
    solution = ts.solve(mdp)
    expected = np.linalg.solve(np.eye(3) - 0.96 * wait, [0, 0, 4.0])
    assert solution.policy.table.tolist() == [0, 0, 0]
    assert solution.value.round(2).tolist() == [74.65, 78.11, 82.11]
    assert np.abs(solution.value - expected).max() <= solution.error_bound + 1e-12


def test_frozen_lake_reaches_the_goal_with_the_known_probability():
    """Slippery 4x4, no discount to speak of: the best chance of reaching the goal is 14/17."""
    gymnasium = pytest.importorskip("gymnasium")
    mdp = ts.MDP.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=True), 0.99999)
    solution = ts.solve(mdp)
    assert solution.value[0] == pytest.approx(14 / 17, abs=1e-3)


def test_cliff_walking_takes_thirteen_steps():
    gymnasium = pytest.importorskip("gymnasium")
    g = 0.9
    mdp = ts.MDP.from_gymnasium(gymnasium.make("CliffWalking-v1"), g)
    solution = ts.solve(mdp)
    start = 36  # bottom left; up, eleven to the right, down
    assert solution.value[start] == pytest.approx(-(1 - g**13) / (1 - g), abs=1e-9)


def test_taxi_delivers_the_passenger_who_stands_at_the_destination():
    """Passenger in the taxi at R (0), destination R: drop off pays 20 and ends."""
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Taxi-v4")
    mdp = ts.MDP.from_gymnasium(env, 0.95)
    solution = ts.solve(mdp)
    state = env.unwrapped.encode(0, 0, 4, 0)
    assert solution.value[state] == pytest.approx(20.0, abs=1e-9)
    assert solution.policy.table[state] == 5
    one_step_off = env.unwrapped.encode(1, 0, 4, 0)
    assert solution.value[one_step_off] == pytest.approx(-1 + 0.95 * 20.0, abs=1e-9)


def test_without_a_fixed_cost_the_best_order_is_a_base_stock_rule():
    """Unit orders: order-up-to levels, one for each regime, as Scarf's theory without K says."""
    mdp = ts.inventory(orders=range(21), fixed_cost=0.0, max_stock=40)
    table = ts.solve(mdp).policy.table
    stock = np.arange(41)[:, None]
    orders = table > 0
    inside = orders & (table < 20)
    up_to = np.where(inside, stock + table, -1).max(axis=0)
    assert inside.any(axis=0).all()
    assert (np.where(inside, stock + table, up_to) == up_to).all()
    assert (orders == (stock < up_to)).all()


def test_admission_is_a_threshold_in_the_queue_for_every_regime():
    for label in ("QUE-Mix", "QUE-Lin", "QUE-Burst"):
        table = ts.solve(ts.benchmark(label)).policy.table
        assert (np.diff(table, axis=0) <= 0).all()
        assert table.any()
        assert not table.all()


@pytest.mark.parametrize("seed", range(3))
def test_quantecon_policy_iteration_agrees_on_random_sparse_models(seed):
    markov = pytest.importorskip("quantecon.markov")
    mdp = random_model(np.random.default_rng(seed), n=80, n_actions=4)
    sparse = mdp.to_sparse()
    state, action = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    rows = sp.vstack(sparse.transition, format="csr")[action * mdp.n_states + state]
    peer = markov.DiscreteDP(
        sparse.reward[state, action], sp.csr_matrix(rows), mdp.discount, state, action
    ).solve(method="policy_iteration")
    ours = ts.solve(mdp)
    assert np.abs(ours.value - peer.v).max() <= ours.error_bound + 1e-10
    assert np.array_equal(ours.policy.table, peer.sigma)


def test_putermans_two_states_have_their_closed_form():
    """Markov Decision Processes (1994), Example 3.1: from discount 10/11 on it pays to stay."""
    rows = np.array([[[0.5, 0.5], [0, 1]], [[0, 1], [0, 1]]])
    reward = np.array([[5.0, 10.0], [-1.0, -np.inf]])
    for b in (0.92, 0.95, 0.99):
        found = ts.solve(ts.MDP.from_arrays(rows, reward, b))
        closed = [(5 - 5.5 * b) / ((1 - 0.5 * b) * (1 - b)), -1 / (1 - b)]
        assert found.value.tolist() == pytest.approx(closed, abs=found.error_bound + 1e-12)
        assert found.policy.table.tolist() == [0, 0]
