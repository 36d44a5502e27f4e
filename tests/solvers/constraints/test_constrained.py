"""The optimum subject to constraints: against a linear program, closed forms, the paper's model."""

from __future__ import annotations

import numpy as np
import pytest
from support import occupation_program

import tessella as ts
from tessella.solvers.constraints.column_generation import ColumnGeneration
from tessella.solvers.constraints.constrained_solution import EvaluatedPolicy


@pytest.mark.parametrize("seed", [*range(24), 998200000077, 11402000264])
def test_the_optimum_is_that_of_the_program_over_occupation_measures(seed):
    assert occupation_program.find_faults(seed) == []


def two_actions(level: float) -> ts.ConstrainedSolution:
    """Work pays 1 and tires 1; rest pays nothing: with tiredness 0.3 at most, work 30 %."""
    mdp = ts.MDP.from_arrays(np.ones((2, 1, 1)), [[0.0, 1.0]], criterion=ts.Average())
    mdp = mdp.with_measures(tired=[[0.0, 1.0]])
    return ts.solve(mdp, subject_to={"tired": ts.AtMost(level)})


def test_only_a_policy_that_draws_its_action_is_optimal():
    result = two_actions(0.3)
    assert result.low == pytest.approx(0.3, abs=1e-12)
    assert result.high == pytest.approx(0.3, abs=1e-12)
    (drawn,) = result.randomised
    chances = dict(zip(drawn.actions, drawn.probabilities, strict=True))
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
    assert len(result.randomised) == 1
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
            "the model's measures are demand, lost, fill_rate; got 'fill'; "
            "did you mean 'fill_rate'?",
        ),
        ({"x": ts.AtLeast(0.9)}, "the model's measures are demand, lost, fill_rate; got 'x'"),
        (
            {"fill_rate": (ts.AtLeast(0.9), ts.AtMost(0.95))},
            "a measure has one constraint: for a band, constrain it under two names; "
            "fill_rate got 2; with_measures(same='1 - lost / demand') adds a name",
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


def test_a_band_is_two_constraints_on_a_measure_with_two_names():
    mdp = shopkeeper().with_measures(same="1 - lost / demand")
    band = {"fill_rate": ts.AtLeast(0.9), "same": ts.AtMost(0.92)}
    free = ts.solve(mdp, subject_to={"fill_rate": ts.AtLeast(0.9)})
    result = ts.solve(mdp, subject_to=band)
    assert (result.low, result.high) == pytest.approx((free.low, free.high), rel=1e-7)
    assert result.best is not None
    assert 0.9 <= result.measures["same"].low <= result.measures["same"].high <= 0.92
    band["same"] = ts.AtMost(0.89)
    with pytest.raises(ts.ArgumentError, match=r"no policy satisfies fill_rate at least 0\.9 and"):
        ts.solve(mdp, subject_to=band)


@pytest.mark.parametrize("size", [1e20, 1e160, 1e300])
def test_levels_of_any_size_are_reached_or_explained(size):
    free = ts.solve(shopkeeper())
    for name in ("fill_rate", "lost"):
        result = ts.solve(shopkeeper(), subject_to={name: ts.AtMost(size)})
        assert result.high == pytest.approx(free.mean, rel=1e-8)
        assert not result.constraints[0].is_binding
        with pytest.raises(ts.ArgumentError, match=f"{name} is at most .*; got at least 1e"):
            ts.solve(shopkeeper(), subject_to={name: ts.AtLeast(size)})


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_amounts_of_any_size_have_the_same_optimum(size):
    mdp = ts.MDP.from_arrays(np.ones((2, 1, 1)), [[0.0, 1.0]], criterion=ts.Average())
    mdp = mdp.with_measures(tired=[[0.0, size]])
    result = ts.solve(mdp, subject_to={"tired": ts.AtMost(0.3 * size)})
    assert (result.low, result.high) == pytest.approx((0.3, 0.3), abs=1e-9)


def test_sums_of_a_large_model_follow_from_visits():
    """From 10,000 states on; the mixture is evaluated here by values."""
    mdp = ts.inventory(max_stock=140, max_regime=71, demand_slope=0.12, shortage_cost=0.0)
    assert mdp.n_states > 10_000
    result = ts.solve(mdp, subject_to={"fill_rate": ts.AtLeast(0.95)})
    assert 0 <= result.high - result.low <= 1e-8 * abs(result.high)
    parts = [(weight, ts.evaluate(mdp, policy)) for weight, policy in result.mixture]
    earned = sum(weight * one.mean for weight, one in parts)
    error = sum(weight * one.error_bound for weight, one in parts)
    assert result.low - error <= earned <= result.high + error
    lost = sum(weight * one.measures["lost"].value for weight, one in parts)
    demand = sum(weight * one.measures["demand"].value for weight, one in parts)
    assert 1 - lost / demand == pytest.approx(0.95, abs=1e-9)
    assert len(result.randomised) == 1


def test_another_level_begins_with_the_policies_of_the_last():
    columns: list[EvaluatedPolicy] = []
    solves = []
    for level in (0.9, 0.95, 0.9):
        constraint = {"fill_rate": ts.AtLeast(level)}
        run = ColumnGeneration(shopkeeper(), constraint, ts.solve, columns=columns)
        assert run.run().high == pytest.approx(
            ts.solve(shopkeeper(), subject_to=constraint).high, rel=1e-8
        )
        solves.append(run.n_solved)
    assert solves[1] < solves[0]
    assert solves[2] <= 3


@pytest.mark.parametrize("n_constraints", [1, 2, 3])
def test_where_all_policies_are_as_good_one_action_is_drawn_per_constraint(n_constraints):
    """What is earned is what the constraints ask for: at their prices no action is better."""
    rng = np.random.default_rng(n_constraints)
    shape = (40, 3)
    counts = {f"c{j}": rng.uniform(0, 1, shape) for j in range(n_constraints)}
    transition = rng.dirichlet(np.full(40, 0.3), size=(3, 40))
    mdp = ts.MDP.from_arrays(transition, -sum(counts.values()), 0.9).with_measures(**counts)
    uniform = occupation_program.compute_occupation(mdp, transition, np.full(shape, 1 / 3))
    levels = {name: float((uniform * amounts).sum()) for name, amounts in counts.items()}
    result = ts.solve(mdp, subject_to={name: ts.AtLeast(level) for name, level in levels.items()})
    assert (result.low, result.high) == pytest.approx([-sum(levels.values())] * 2, rel=1e-8)
    drawn = sum(len(one.actions) - 1 for one in result.randomised)
    assert 0 < drawn <= n_constraints
    policy = np.eye(3)[result.mixture[0][1].table]
    for one in result.randomised:
        policy[one.state] = 0.0
        policy[one.state, one.actions] = one.probabilities
    visits = occupation_program.compute_occupation(mdp, transition, policy)
    for name, amounts in counts.items():
        assert (visits * amounts).sum() == pytest.approx(levels[name], rel=1e-8)


def test_a_level_at_the_limit_is_answered_with_one_that_can_be_met():
    mdp = ts.problem("dual_sourcing").build()  # the optimum serves all demand at once
    message = "fill_rate is at most 0.99999999 in this model, up to rounding; got at least 1"
    with pytest.raises(ts.ArgumentError, match=message):
        ts.solve(mdp, subject_to={"fill_rate": ts.AtLeast(1.0)})
    result = ts.solve(mdp, subject_to={"fill_rate": ts.AtLeast(0.99999999)})
    assert result.best is not None


@pytest.mark.parametrize("level", [1e12, 1e20])
def test_a_huge_level_does_not_hide_the_digits_of_the_measure(level):
    shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
    result = ts.solve(shop, subject_to={"fill_rate": ts.AtMost(level)})
    expected = ts.evaluate(shop, ts.solve(shop).policy).measures["fill_rate"].value
    assert result.constraints[0].value == pytest.approx(expected, rel=1e-12)


def test_the_optimum_with_constraints_has_no_margins_to_tessellate():
    shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
    result = ts.solve(shop, subject_to={"fill_rate": ts.AtLeast(0.5)})
    with pytest.raises(ts.ArgumentError, match="got a ConstrainedSolution"):
        ts.tessellate(result)
    assert ts.tessellate(shop, result.policy).table.shape == shop.grid.shape


def test_a_tradeoff_needs_a_level():
    with pytest.raises(ts.ArgumentError, match="at least one level"):
        ts.tradeoff(ts.inventory(max_stock=8, max_regime=2), "reward", "fill_rate", points=[])
