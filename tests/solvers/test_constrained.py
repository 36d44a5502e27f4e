"""The optimum subject to constraints: against a linear program, closed forms, the paper's model."""

from __future__ import annotations

import numpy as np
import pytest
from support import occupation_program

import tessella as ts


@pytest.mark.parametrize("seed", [*range(24), 998200000077])
def test_the_optimum_is_that_of_the_program_over_occupation_measures(seed):
    assert occupation_program.faults(seed) == []


def two_actions(level: float) -> ts.ConstrainedSolution:
    """Work pays 1 and tires 1; rest pays nothing: with tiredness 0.3 at most, work 30 %."""
    mdp = ts.MDP.from_arrays(np.ones((2, 1, 1)), [[0.0, 1.0]], criterion=ts.Average())
    mdp = mdp.with_measures(tired=[[0.0, 1.0]])
    return ts.solve(mdp, subject_to={"tired": ts.AtMost(level)})


def test_only_a_policy_that_draws_its_action_is_optimal():
    result = two_actions(0.3)
    assert result.low == pytest.approx(0.3, abs=1e-12)
    assert result.high == pytest.approx(0.3, abs=1e-12)
    assert result.randomised is not None
    chances = dict.fromkeys(result.randomised.actions, 1 - result.randomised.probability)
    chances[result.randomised.actions[1]] = result.randomised.probability
    assert chances == pytest.approx({0: 0.7, 1: 0.3}, abs=1e-12)
    assert result.constraints[0].price == pytest.approx(1.0)
    assert result.policy is not None
    assert result.policy.table.tolist() == [0]  # without drawing, rest


def test_a_constraint_that_costs_nothing_is_not_binding():
    result = two_actions(2.0)
    assert (result.low, result.high) == pytest.approx((1.0, 1.0), abs=1e-12)
    assert not result.constraints[0].is_binding
    assert len(result.mixture) == 1
    assert "not binding, reaches 1" in str(result)


def shopkeeper(discount: float = 0.95) -> ts.MDP:
    return ts.inventory(shortage_cost=0.0, discount=discount)


@pytest.mark.parametrize(
    ("level", "bound"), [(0.90, 32.313), (0.95, 35.507), (0.98, 38.614), (0.99, 40.501)]
)
def test_bounds_of_a_sweep_of_sixty_prices_are_reached_or_sharpened(level, bound):
    """The bounds were published with the derivation; more prices can only raise them."""
    result = ts.solve(shopkeeper(), subject_to={"fill_rate": ts.AtLeast(level)})
    cost = -result.high
    assert bound - 5e-4 <= cost <= bound + 0.01
    assert result.high - result.low <= 1e-7 * cost
    assert result.randomised is not None
    assert result.measures["fill_rate"].low >= level
    assert result.best.reward.value == pytest.approx(-cost, rel=2e-3)


def test_the_shadow_price_is_the_slope_of_the_cost():
    step = 1e-5
    low, middle, high = (
        ts.solve(shopkeeper(), subject_to={"fill_rate": ts.AtLeast(0.95 + shift)})
        for shift in (-step, 0.0, step)
    )
    # The cost is convex in the level, so that slopes on either side enclose the price.
    slack = 1e-7 * abs(middle.high) / step
    price = middle.constraints[0].price
    assert (
        (low.high - middle.high) / step - slack <= price <= (middle.high - high.high) / step + slack
    )


def test_the_optimum_improves_on_no_level_and_falls_with_it():
    costs = [
        -ts.solve(shopkeeper(), subject_to={"fill_rate": ts.AtLeast(level)}).high
        for level in np.linspace(0.8, 0.98, 7)
    ]
    assert (np.diff(costs) > 0).all()
    assert (np.diff(costs, 2) > -1e-6).all()  # demand does not depend on the policy: convex


@pytest.mark.parametrize(
    ("subject_to", "message"),
    [
        ({}, "subject_to maps measures to AtLeast(level) or AtMost(level); got {}"),
        (
            {"fill": ts.AtLeast(0.9)},
            "the model's measures are demand, lost, fill_rate; got 'fill'",
        ),
        (
            {"fill_rate": 0.98},
            "subject_to maps measures to AtLeast(level) or AtMost(level); fill_rate got 0.98",
        ),
        (
            {"fill_rate": ts.AtLeast(0.999999)},
            "fill_rate is at most 0.99999311 in this model, up to rounding; got at least 0.999999",
        ),
        (
            {"fill_rate": ts.AtLeast(0.95), "lost": ts.AtLeast(60)},
            "no policy satisfies fill_rate at least 0.95 and lost at least 60; "
            "fill_rate alone reaches 0.999993, lost alone reaches 111.242",
        ),
    ],
)
def test_constraints_that_cannot_be_met_or_read_are_explained(subject_to, message):
    with pytest.raises(ts.ArgumentError) as caught:
        ts.solve(shopkeeper(), subject_to=subject_to)
    assert str(caught.value) == message


def test_a_level_must_be_a_number():
    with pytest.raises(ts.ArgumentError, match="the level of AtLeast must be a finite number"):
        ts.AtLeast(float("nan"))


def test_a_denominator_of_zero_is_explained():
    mdp = ts.MDP.from_arrays(np.ones((1, 1, 1)), [[1.0]], 0.9)
    mdp = mdp.with_measures(top=[[1.0]], below=[[0.0]]).with_measures(ratio="top / below")
    with pytest.raises(ts.ModelError, match="denominator of ratio must be positive"):
        ts.solve(mdp, subject_to={"ratio": ts.AtLeast(0.5)})


def test_a_denominator_that_can_be_negative_is_refused():
    """With one, N / D >= b and N - b D >= 0 are not the same, and a bound would be false."""
    mdp = ts.MDP.from_arrays(np.ones((2, 1, 1)), [[0.0, 1.0]], 0.9)
    mdp = mdp.with_measures(top=[[1.0, -1.0]], below=[[1.0, -0.5]]).with_measures(q="top / below")
    with pytest.raises(ts.ModelError) as caught:
        ts.solve(mdp, subject_to={"q": ts.AtLeast(0.5)})
    assert str(caught.value) == (
        "a constraint on q needs a denominator that is never negative; "
        "top / below has -0.5 in a period"
    )


def test_the_best_level_itself_cannot_be_proven_and_ends_at_once():
    mdp = ts.MDP.from_arrays(np.ones((2, 1, 1)), [[0.0, 1.0]], 0.9)
    mdp = mdp.with_measures(good=[[1 / 3, 0.0]])
    best = ts.evaluate(mdp, [0]).measures["good"]
    with pytest.raises(ts.ArgumentError, match=r"good is at most 3\.3333333 in this model"):
        ts.solve(mdp, subject_to={"good": ts.AtLeast(best.value)})


@pytest.mark.parametrize("tol", [0, -1.0, float("nan"), "x"])
def test_a_tolerance_is_checked(tol):
    with pytest.raises(ts.ArgumentError, match="tol must be a positive number"):
        ts.solve(shopkeeper(), subject_to={"fill_rate": ts.AtLeast(0.9)}, tol=tol)


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "a"])
def test_weights_are_finite_numbers(weight):
    with pytest.raises(
        ts.ArgumentError, match="the weights of an objective must be finite numbers"
    ):
        shopkeeper().with_objective({"reward": weight})


def test_totals_and_horizons_have_constraints_too():
    """A walk of one period or two: waiting pays, and counts; leave at once is free."""
    stay = np.array([[0.5, 0.5], [0.0, 1.0]])
    leave = np.array([[0.0, 1.0], [0.0, 1.0]])
    transition = np.stack([leave, stay])
    reward = [[0.0, 1.0], [0.0, 0.0]]
    for criterion, longest in ((ts.Total(), 2.0), (ts.FiniteHorizon(3), 1.75)):
        mdp = ts.MDP.from_arrays(transition, reward, criterion=ts.Total())
        mdp = mdp.with_measures(stays=[[0.0, 1.0], [0.0, 0.0]]).with_start(0)
        mdp = mdp if criterion == ts.Total() else mdp.with_criterion(criterion)
        assert ts.evaluate(mdp, ts.solve(mdp).policy).mean == pytest.approx(longest)
        result = ts.solve(mdp, subject_to={"stays": ts.AtMost(1.2)})
        assert (result.low, result.high) == pytest.approx((1.2, 1.2), abs=1e-9)
