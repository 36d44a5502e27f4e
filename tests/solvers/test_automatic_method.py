"""The method that ``solve`` takes by itself gets there in few rounds on models of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.solvers.execution_plan import make_plan


def wear(states: int, discount: float) -> ts.MDP:
    """A long line of states: linear solvers get nowhere, sweeps do."""
    return ts.MDP.staged(
        {"wear": range(states)},
        (0, 1),
        discount,
        [
            ts.Decide(
                "wear",
                to=lambda wear, repair: np.where(repair == 1, 0, wear),
                pays=lambda repair: -20.0 * repair,
            ),
            ts.Shift("wear", ts.Noise("w", [0, 1], [0.5, 0.5]), pays=lambda wear: -wear / states),
        ],
        action_name="repair",
    )


def weekdays(discount: float) -> ts.MDP:
    """Stock that lasts a day longer than today, by weekday: periodic, sweeps go round."""
    mean = np.array([5.7, 6.9, 6.5, 6.2, 5.8, 3.3, 3.4]) / 2

    def to(weekday, stock, order, demand):
        left = np.maximum(order - np.maximum(demand - stock, 0), 0)
        return {"weekday": (weekday + 1) % 7, "stock": left}

    def pays(stock, order, demand):
        short, waste = np.maximum(demand - stock - order, 0), np.maximum(stock - demand, 0)
        return -(3.0 * (order > 0) + 20 * short + 5 * waste)

    return ts.MDP.staged(
        {"weekday": range(7), "stock": range(11)},
        range(11),
        discount,
        [
            ts.Jump(
                ts.Noise(
                    "demand", range(11), lambda weekday: ts.truncated_poisson(mean[weekday], 10)
                ),
                to=to,
                pays=pays,
            )
        ],
        action_name="order",
    )


def mixing(discount: float) -> ts.MDP:
    rng = np.random.default_rng(0)
    return ts.MDP.from_arrays(
        rng.dirichlet(np.ones(60), size=(4, 60)), rng.normal(size=(60, 4)), discount
    )


@pytest.mark.parametrize(
    ("mdp", "rounds"),
    [
        (wear(600, 0.99), 40),
        (weekdays(0.99), 15),
        (mixing(0.99), 15),
        (ts.benchmark("INV-Mix"), 15),
        (ts.inventory(discount=0.999), 20),
    ],
    ids=["a long line", "periodic", "fast mixing", "inventory", "near 1"],
)
def test_few_rounds_are_enough_whatever_the_chain_is_like(mdp, rounds):
    found = ts.solve(mdp)
    assert found.converged
    assert found.sweeps <= rounds


@pytest.mark.parametrize("mdp", [wear(600, 0.99), weekdays(0.99)], ids=["a long line", "periodic"])
def test_its_answer_is_that_of_value_iteration(mdp):
    ours, plain = ts.solve(mdp), ts.solve(mdp, ts.ValueIteration())
    off = ours.error_bound + plain.error_bound
    assert np.abs(ours.value - plain.value).max() <= off
    both = ours.decided & plain.decided
    assert both.mean() > 0.9
    assert (ours.policy.table == plain.policy.table)[both].all()


def test_large_models_are_evaluated_more_roughly_than_small_ones():
    small, large = ts.benchmark("INV-Mix"), wear(10_001, 0.9)
    assert make_plan(small, tol=1e-3).method == ts.InexactPolicyIteration(1e-3)
    assert make_plan(small, tol=1e-3).method.tol == 1e-3
    assert make_plan(large).method == ts.InexactPolicyIteration(forcing=0.1)


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_many_states_are_swept_in_single_precision_and_the_answer_is_as_sharp(discount):
    mdp = ts.inventory(max_stock=200, max_regime=60, discount=discount)
    ours, other = ts.solve(mdp), ts.solve(mdp, ts.InexactPolicyIteration())
    assert (ours.method, other.method) == ("MixedPrecision", "InexactPolicyIteration")
    assert np.abs(ours.value - other.value).max() <= ours.error_bound + other.error_bound
    assert ours.error_bound <= 1e-8
    both = ours.decided & other.decided
    assert both.mean() > 0.99
    assert (ours.policy.table == other.policy.table)[both].all()


def test_through_stages_a_settled_policy_is_swept_to_the_end_and_not_beyond():
    mdp = ts.inventory()
    method = ts.InexactPolicyIteration(1e-6, forcing=0.1)
    found = ts.solve(mdp, plan=plan_by(mdp, "stages", method))
    assert found.converged
    settled = np.count_nonzero(found.history.changed == 0)
    assert 1 <= settled <= 5, "rounds in which the policy stays as it is"
    assert found.error_bound > 1e-8, "what was asked for is 1e-6"
