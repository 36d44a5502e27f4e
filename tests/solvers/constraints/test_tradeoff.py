"""The curve of a trade-off: its ends, its shape, and bounds that enclose the optimum."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

import tessella as ts
from tessella.plot import tradeoff_plot

MODEL = ts.inventory(shortage_cost=0.0)
CURVE = ts.tradeoff(MODEL, "cost", "fill_rate", points=6)


def admission(counts: dict) -> ts.MDP:
    """Customers arrive at a queue of at most four, are let in or turned away, and are served."""
    events = [
        ts.Event("arrives", 1.0, to=lambda queue, admit: {"queue": np.minimum(queue + admit, 4)}),
        ts.Event("served", lambda queue: 1.2 * (queue > 0), to=lambda queue: {"queue": queue - 1}),
    ]
    return ts.MDP.from_rates(
        {"queue": range(5)},
        (0, 1),
        events,
        action_name="admit",
        feasible=lambda queue, admit: (queue < 4) | (admit == 0),
        costs_rate=lambda queue: 1.0 * queue,
        counts_rate=counts,
        interest=ts.Average(),
    )


QUEUE = admission({"admitted": lambda admit: 1.0 * admit, "waiting": lambda queue: 1.0 * queue})
QUEUE = QUEUE.with_measures(mean_wait="waiting / (admitted + 0.1)")
CASES = {
    "ratio of fixed denominator": CURVE,
    "sum that should fall": ts.tradeoff(MODEL, "reward", "lost", points=3, better="less"),
    "average": ts.tradeoff(QUEUE, "cost", "admitted", points=5),
    "ratio of varying denominator": ts.tradeoff(QUEUE, "cost", "mean_wait", points=5),
}


def enumerate_sums(weights: dict[str, float]) -> np.ndarray:
    """A weighted sum of counts per unit of time, of all sixteen policies of the queue."""
    model = QUEUE.with_objective(weights)
    tables = (np.array([*bits, 0]) for bits in itertools.product((0, 1), repeat=4))
    return np.array([QUEUE.clock.per_time(ts.evaluate(model, table).gain) for table in tables])


@pytest.mark.parametrize("name", ["admitted", "mean_wait"])
def test_bounds_enclose_the_best_mixture_of_all_policies(name):
    """With one constraint the optimum mixes two of all policies that draw nothing."""
    curve = {"admitted": CASES["average"], "mean_wait": CASES["ratio of varying denominator"]}[name]
    cost = -enumerate_sums({"reward": 1.0})
    admitted = enumerate_sums({"admitted": 1.0})
    top = enumerate_sums({"waiting": 1.0}) if name == "mean_wait" else admitted
    below = admitted + 0.1 if name == "mean_wait" else np.ones(16)
    for point in curve.points:
        excess = top - point.level * below
        met, missed = np.flatnonzero(excess >= 0), np.flatnonzero(excess < 0)
        share = excess[met][:, None] / (excess[met][:, None] - excess[missed])
        mixed = (1 - share) * cost[met][:, None] + share * cost[missed]
        best = min(cost[met].min(), mixed.min(initial=np.inf))
        assert point.low - 1e-7 <= best <= point.high + 1e-7
        assert point.high - point.low <= 1e-8 * point.high + 1e-12


@pytest.mark.parametrize("curve", CASES.values(), ids=CASES)
def test_each_policy_reaches_its_level_and_no_policy_beats_the_bound(curve):
    is_cost = curve.objective == "cost"
    sign_of_cost = 1.0 if is_cost else -1.0
    sign = 1.0 if curve.better == "more" else -1.0
    for point in curve.points:
        evaluation = ts.evaluate(curve.mdp, point.policy)
        value = evaluation.measures[curve.measure]
        assert value is not None
        assert sign * (value.value - point.level) >= -1e-12
        assert value.value == pytest.approx(point.value, abs=1e-9)
        assert point.low <= point.high
        better_by = point.low - point.objective if is_cost else point.objective - point.high
        assert better_by <= 1e-9
        assert point.measures[curve.measure].value == point.value
        fitting = [p for p in curve.points if sign * (p.value - point.level) >= 1e-9]
        better = [p for p in fitting if sign_of_cost * (p.objective - point.objective) < -1e-9]
        assert better == []


def test_the_curve_begins_at_the_optimum_and_ends_at_the_best_level_there_is():
    optimum = ts.evaluate(MODEL, ts.solve(MODEL))
    first, last = CURVE.points[0], CURVE.points[-1]
    assert first.low == pytest.approx(-optimum.mean, abs=1e-9)
    assert first.level == pytest.approx(optimum.measures["fill_rate"].value, abs=1e-8)
    fewest = ts.solve(MODEL.with_objective({"lost": -1.0}))
    best = ts.evaluate(MODEL, fewest.policy).measures["fill_rate"].value
    assert last.level == pytest.approx(best, abs=1e-8)
    assert last.high - last.low < 1e-3
    with pytest.raises(ts.ArgumentError, match="fill_rate is at most"):
        ts.solve(MODEL, subject_to={"fill_rate": ts.AtLeast(last.level + 1e-6)})


@pytest.mark.parametrize("name", ["ratio of fixed denominator", "average"])
def test_the_curve_is_convex_and_prices_are_its_slopes(name):
    curve = CASES[name]
    levels, low, high, prices = (
        np.array([getattr(point, key) for point in curve.points])
        for key in ("level", "low", "high", "price")
    )
    slopes = np.diff(low) / np.diff(levels)
    slack = np.max(high - low) / np.min(np.diff(levels)) + 1e-9
    assert (np.diff(slopes) >= -2 * slack).all()
    assert (prices[:-1] <= slopes + slack).all()
    assert (slopes <= prices[1:] + slack).all()


@pytest.mark.parametrize("share", [1e-8, 1e-7, 1e-4])
def test_bounds_do_not_cross_where_the_price_is_very_high(share):
    """The master program once took a mixture that missed the level by 1e-10 for one that has it."""
    first, last = CURVE.points[0].level, CURVE.points[-1].level
    level = last - share * (last - first)
    found = ts.solve(MODEL, subject_to={"fill_rate": ts.AtLeast(level)})
    assert 0 <= found.high - found.low <= 1e-3
    assert found.constraints[0].value >= level - 1e-13


def rows_of(curve: ts.Tradeoff) -> list[list[str]]:
    return [re.split(r"  +", line.strip()) for line in str(curve).splitlines()]


def test_what_is_0_up_to_rounding_is_printed_as_0_and_the_best_level_has_no_price():
    free = admission({"admitted": lambda admit: 1.0 * admit})
    curve = ts.tradeoff(free, "cost", "admitted", points=4)  # the optimum lets nobody in
    _, first, *_, last = rows_of(curve)
    assert first[0] == first[1] == first[3] == first[4] == first[5] == "0"
    assert last[3] == "-"
    assert curve.points[-1].price > 0
    assert curve.describe_price(curve.points[-1]) == "no policy reaches a better level"
    assert curve.describe_price(curve.points[0]) == "this level costs nothing"
    inner = ts.tradeoff(free, "cost", "admitted", points=[0.3])
    price = inner.points[0].price
    assert rows_of(inner)[1][3] == f"{price:.4g}"
    said = f"one unit more costs {price:.4g} per unit of time"
    assert inner.describe_price(inner.points[0]) == said
    assert f"binding; {said}" in str(inner.points[0].solution)


def test_prices_are_per_percentage_point_of_shares_alone():
    share = rows_of(CURVE)
    assert share[0][3] == "one point more"
    assert share[3][3] == f"{0.01 * CURVE.points[2].price:.4g}"
    assert "one percentage point more forgoes" in str(CURVE.points[2].solution)
    ratio = CASES["ratio of varying denominator"]
    assert QUEUE.measures["mean_wait"].is_ratio
    assert rows_of(ratio)[0][3] == "one unit more"
    assert rows_of(ratio)[2][3] == f"{ratio.points[1].price:.4g}"


def test_levels_may_be_given():
    curve = ts.tradeoff(MODEL, "cost", "fill_rate", points=[0.9, 0.6])
    assert [point.level for point in curve.points] == [0.9, 0.6]
    for point in curve.points:
        found = ts.solve(MODEL, subject_to={"fill_rate": ts.AtLeast(point.level)})
        assert -found.high == pytest.approx(point.low, abs=1e-6)


def test_a_cost_is_the_reward_with_the_other_sign():
    reward = ts.tradeoff(QUEUE, "reward", "admitted", points=3)
    cost = ts.tradeoff(QUEUE, "cost", "admitted", points=3)
    for one, other in zip(reward.points, cost.points, strict=True):
        assert (one.low, one.high) == (-other.high, -other.low)
        assert one.objective == -other.objective
    assert "most reward" in str(reward)
    assert str(cost).splitlines()[0].split("  ")[0] == "admitted at least"


@pytest.mark.parametrize("name", CASES)
def test_no_policy_of_the_picture_lies_beyond_the_steps_of_the_bound(name):
    curve = CASES[name]
    axes = tradeoff_plot(Figure().subplots(), curve)
    steps, dots = axes.get_lines()
    assert steps.get_drawstyle() == "steps-post"
    levels, bounds = np.array(steps.get_xdata()), np.array(steps.get_ydata())
    values, objectives = np.array(dots.get_xdata()), np.array(dots.get_ydata())
    assert len(values) == len(levels) == len(curve.points)
    towards = 1.0 if curve.better == "more" else -1.0
    worse = 1.0 if curve.objective == "cost" else -1.0
    for value, objective in zip(values, objectives, strict=True):
        reached = np.flatnonzero(towards * levels <= towards * value + 1e-9)
        assert worse * (objective - bounds[reached[-1]]) >= -1e-9
    assert (axes.get_xlabel(), axes.get_ylabel()) == (curve.measure, curve.objective)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((3, "cost", "lost"), {}, "tradeoff needs an MDP; got an int"),
        ((MODEL, "profit", "lost"), {}, "needs 'reward' or 'cost'; got 'profit'"),
        ((MODEL, "cost", "waste"), {}, "measures are demand, lost, fill_rate; got 'waste'"),
        ((MODEL, "cost", "lost"), {"better": "fewer"}, "needs 'more' or 'less'; got 'fewer'"),
        ((MODEL, "cost", "lost"), {"points": 1}, "a whole number from 2 on, or levels; got 1"),
        (
            (MODEL, "cost", "fill_rate"),
            {"points": [0.5, 1.2]},
            "the most that fill_rate can be is 0.99999.*; got at least 1.2",
        ),
        ((MODEL, "cost", "fill_rate"), {"points": ["a"]}, "must be a finite number; got a"),
        ((MODEL, "cost", "lost"), {"points": 2.5}, "a whole number from 2 on, or levels; got 2.5"),
        (
            (MODEL, "cost", "lost"),
            {},
            "lost must be able to rise; the optimum reaches the best value, 111.242",
        ),
        ((MODEL, "cost", "demand"), {}, "demand must be able to rise"),
    ],
)
def test_what_makes_no_curve_is_refused_in_words(arguments, options, message):
    with pytest.raises(ts.ArgumentError, match=message):
        ts.tradeoff(*arguments, **options)


def test_a_ratio_whose_denominator_may_be_0_is_refused():
    model = QUEUE.with_measures(per_customer="waiting / admitted")
    with pytest.raises(ts.ModelError, match="denominator of measure 'waiting / admitted'"):
        ts.tradeoff(model, "cost", "per_customer")
