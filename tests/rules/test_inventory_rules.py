"""Rules as inventory control states them: found, and what their sentences say is what they do."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson
from support.sentences import decide, decide_components

import tessella as ts
from tessella.mdp.actions import VectorAction
from tessella.mdp.start import start_distribution
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.inventory_rules import Component, ComponentRule, list_neighbours
from tessella.rules.loss_target import make_loss_target
from tessella.rules.rule_class import Costs
from tessella.rules.search import ClassSearch, Search

# Zheng and Federgruen (1991), table 1: mean demand, s, S and the cost of a period.
PUBLISHED = [(10, 6, 40, 35.022), (20, 14, 62, 49.173)]
FIXED, HOLDING, BACKLOG = 64, 1, 9


def fixed_cost_model(mean: int, as_levels: bool, low: int = -45, high: int = 90) -> ts.MDP:
    """Poisson demand, a fixed cost for each order, at average cost; actions as orders or levels."""
    demand = np.arange(int(poisson.ppf(1 - 1e-12, mean)) + 1)
    chances = poisson.pmf(demand, mean)
    chances[-1] += 1 - chances.sum()
    stock = range(low, high + 1)

    def costs(stock, demand):
        left = stock - demand
        return HOLDING * np.maximum(left, 0) + BACKLOG * np.maximum(-left, 0)

    sell = ts.Shift(
        "stock", ts.Noise("demand", demand, chances), by=lambda demand: -demand, costs=costs
    )
    if as_levels:
        raised = ts.Decide(
            "stock",
            to=lambda stock, level: level,
            costs=lambda stock, level: FIXED * (level > stock),
        )
        return ts.MDP.staged(
            {"stock": stock},
            stock,
            ts.Average(),
            [raised, sell],
            feasible=lambda stock, level: level >= stock,
            action_name="level",
        )
    ordered = ts.Decide(
        "stock", to=lambda stock, order: stock + order, costs=lambda order: FIXED * (order > 0)
    )
    return ts.MDP.staged(
        {"stock": stock},
        range(high - low + 1),
        ts.Average(),
        [ordered, sell],
        feasible=lambda stock, order: stock + order <= high,
        action_name="order",
    )


@pytest.mark.parametrize(("mean", "s", "S", "cost"), PUBLISHED)
@pytest.mark.parametrize("as_levels", [False, True])
def test_the_published_reorder_points_are_found_with_two_parameters(mean, s, S, cost, as_levels):
    solution = ts.solve(fixed_cost_model(mean, as_levels))
    rule = ts.compress(solution, loss=0, classes=[ts.OrderUpTo()])
    assert round(-solution.gain, 3) == cost
    assert (rule.size, rule.facts["parameters"]) == (2, {"s": s, "S": S})
    sentence = (
        f"(s, S) = ({s}, {S}): when stock is at most {s}, order up to {S}; otherwise order 0."
    )
    assert rule.explain().startswith(sentence)
    assert ("Here order is level - stock." in rule.explain()) == as_levels


def lost_sales_with_fixed_costs() -> ts.MDP:
    """Lost sales, a lead time of two periods, and 5 for each order (Bijvank et al. 2015, table 1).

    The four costs of the table are known here, not its parameters: of some 2,000 combinations of
    round numbers, these alone give all four.
    """
    mean, order_cost, penalty = 5.0, 5.0, 14.0
    wanted = np.arange(29)
    chances = poisson.pmf(wanted, mean)
    chances[-1] += 1 - chances.sum()

    def costs(stock, wanted):
        left = np.maximum(stock - wanted, 0)
        return left + penalty * (mean - stock + left)

    return ts.MDP.staged(
        {"stock": wanted, "due": range(15)},
        range(15),
        ts.Average(),
        [
            ts.Shift(
                "stock", ts.Noise("wanted", wanted, chances), by=lambda wanted: -wanted, costs=costs
            ),
            ts.Decide(
                "stock",
                to=lambda stock, due: np.minimum(stock + due, 28),
                costs=lambda order: order_cost * (order > 0),
            ),
            ts.Decide("due", to=lambda order: order),
        ],
        action_name="order",
    )


def test_the_published_rules_for_lost_sales_with_fixed_costs_have_the_published_costs():
    mdp = lost_sales_with_fixed_costs()
    position = np.add.outer(np.arange(29), np.arange(15))

    def cost(orders) -> float:
        return round(-ts.evaluate(mdp, mdp.policy(np.minimum(orders, 14))).gain, 2)

    solution = ts.solve(mdp)
    assert round(-solution.gain, 2) == 11.46
    assert cost(np.where(position <= 17, 23 - position, 0)) == 11.62  # (s, S)
    assert cost(np.where(position <= 17, ((17 - position) // 7 + 1) * 7, 0)) == 11.56  # (s, nQ)
    rule = ts.compress(solution, loss="0.4%", classes=["order up to"])
    assert (rule.size, rule.facts["parameters"]) == (2, {"r": 17, "Q": 7})
    assert round(-rule.certificate.policy_mean, 2) == 11.50  # modified (s, S)


@pytest.mark.parametrize(
    ("name", "loss", "size"), [("lost_sales", "1%", 2), ("dual_sourcing", "0.1%", 3)]
)
def test_a_textbook_rule_is_no_smaller_than_ours(name, loss, size):
    solution = ts.solve(ts.problem(name).build())
    rule = ts.compress(solution, loss=loss, classes=[ts.OrderUpTo()])
    assert rule.size <= size


@pytest.mark.parametrize(("express_cost", "loss"), [(105.0, 1e-4), (110.0, 4e-4)])
def test_the_capped_dual_index_is_found(express_cost, loss):
    solution = ts.solve(ts.problem("dual_sourcing").build(express_cost=express_cost))
    rule = ts.compress(solution, loss=loss, classes=[ts.OrderUpTo()])
    assert rule.size == 3
    assert {name for part in rule.facts["parameters"].values() for name in part} == {"S", "cap"}


AMOUNTS = st.sampled_from([(0, 1, 2), (0, 2, 3), (1, 2, 3, 4), (0, 1)])


@given(
    amounts=st.tuples(AMOUNTS, AMOUNTS),
    weights=st.lists(st.integers(-1, 1), min_size=4, max_size=4),
    wanted=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    noise=st.integers(0, 1000),
)
@settings(max_examples=25)
def test_the_sentences_of_two_components_say_what_they_do(amounts, weights, wanted, noise):
    grid = ts.StateGrid(stock=range(-1, 4), due=range(3))
    pairs = tuple(VectorAction(("fast", "slow"), pair) for pair in itertools.product(*amounts))
    values = np.array(pairs, dtype=float)
    short = np.array(wanted) - grid.points @ np.reshape(weights, (2, 2))
    by_state = np.abs(short[:, None] - values).sum(axis=2)
    by_state += np.random.default_rng(noise).random(by_state.shape)
    costs = Costs(grid, pairs, by_state, action_name="orders")
    for fitted in ts.OrderUpTo().fit(costs, 6, 0.0):
        orders = {"fast": [*amounts[0]], "slow": [*amounts[1]]}
        for point, action in zip(grid.points, fitted.build_tree(grid)(grid.points), strict=True):
            state = dict(zip(grid.axes, point.tolist(), strict=True))
            assert decide_components(fitted.sentence, state, orders) == pairs[action].record
        assert fitted.cost == pytest.approx(costs.of(fitted.build_tree(grid)))


@given(
    top=st.integers(-2, 9),
    point=st.integers(-3, 9),
    counted=st.sampled_from([(1, 0), (1, 1)]),
    noise=st.integers(0, 1000),
)
@settings(max_examples=25)
def test_levels_are_read_as_amounts_above_an_axis(top, point, counted, noise):
    grid, levels = ts.StateGrid(stock=range(-3, 6), due=range(2)), tuple(range(-3, 8))
    feasible = np.array(levels) >= grid.points[:, :1]
    position = grid.points @ np.array(counted, dtype=float)
    raised = np.where(position <= point, np.maximum(top - position, 0), 0) + grid.points[:, 0]
    rng = np.random.default_rng(noise)
    by_state = np.abs(raised[:, None] - np.array(levels)) + 0.1 * rng.random(feasible.shape)
    by_state[~feasible] = 1e4
    costs = Costs(grid, levels, by_state, action_name="level", feasible=feasible)
    for fitted in ts.OrderUpTo().fit(costs, 3, 0.0):
        if "Here order is level - stock." not in fitted.sentence:
            continue
        for state, action in zip(grid.points, fitted.build_tree(grid)(grid.points), strict=True):
            here = dict(zip(grid.axes, state.tolist(), strict=True))
            said = decide(fitted.sentence, here, [float(a) for a in range(12)])
            reached = min(state[0] + float(said.removeprefix("order ")), levels[-1])
            assert reached == levels[action]


def test_a_reorder_quantity_is_named():
    grid = ts.StateGrid(stock=range(30))
    by_state = (np.where(grid.points <= 14, 20, 0) != np.arange(0, 31, 5)).astype(float)
    costs = Costs(grid, tuple(range(0, 31, 5)), by_state, action_name="order")
    *_, fitted = ts.OrderUpTo().fit(costs, 3, 0.0)
    sentence = "(r, Q) = (14, 20): when stock is at most 14, order 20; otherwise order 0."
    assert (fitted.size, fitted.cost, fitted.sentence) == (2, 0.0, sentence)


def test_actions_that_are_not_all_combinations_are_no_components():
    grid = ts.StateGrid(stock=range(3))
    pairs = tuple(VectorAction(("fast", "slow"), pair) for pair in ((0, 0), (0, 1), (1, 0)))
    costs = Costs(grid, pairs, np.zeros((3, 3)))
    assert "all combinations" in ts.OrderUpTo().why_not_applicable(costs)


def lots_and_units(lot: int) -> ts.MDP:
    """Stock in units, orders in lots, and a fill rate; costs grow with both."""
    stages = [
        ts.Decide(
            "stock",
            to=lambda stock, order: np.minimum(stock + order, 3 * lot),
            costs=lambda order: 3.0 * (order > 0),
        ),
        ts.Shift(
            "stock",
            ts.Noise("demand", range(19), poisson.pmf(range(19), 6.0) / poisson.cdf(18, 6.0)),
            by=lambda demand: -demand,
            costs=lambda stock, demand: 0.1 * np.maximum(stock - demand, 0),
            counts={
                "lost": lambda stock, demand: np.maximum(demand - stock, 0),
                "demand": lambda demand: demand,
            },
        ),
    ]
    axes = {"stock": range(3 * lot + 1)}
    mdp = ts.MDP.staged(axes, (0, lot), criterion=ts.Average(), stages=stages, action_name="order")
    return mdp.with_measures(fill_rate="1 - lost / demand")


def test_neighbours_are_a_unit_apart_where_orders_are_lots():
    mdp = lots_and_units(20)
    costs = Costs.for_model(mdp, np.zeros((mdp.n_states, 2)))
    component = Component("order", (0.0, 20.0), (0.0, 20.0))
    rule = ComponentRule(component, (("stock", 1.0),), reorder_point=12.0, cap=20.0)
    found = {(r.reorder_point, r.cap) for (r,) in list_neighbours((rule,), costs.grid)}
    assert {(11.0, 20.0), (13.0, 20.0), (14.0, 20.0), (32.0, 20.0)} <= found
    assert (12.0, 20.0) not in found


def test_every_size_of_a_fit_is_evaluated_in_a_large_model():
    """The loss need not fall with the size: a rule that misses a constraint may be the larger."""
    mdp = lots_and_units(1000)
    solution = ts.solve(mdp.with_criterion(ts.Discounted(0.9)), tol=1e-3)
    evaluator = PolicyEvaluator(solution, start_distribution(solution.mdp, None))
    assert not evaluator.is_small
    target = make_loss_target(evaluator, "50%", True, "optimal")
    class_search = ClassSearch(Search(evaluator, target, (ts.OrderUpTo(),)), ts.OrderUpTo(), 3)
    costs = class_search.search.make_costs(evaluator.action_loss)
    (candidate, *_) = ts.OrderUpTo().fit(costs, 2, 0.0)
    sizes = [replace(candidate, size=size) for size in (1, 2, 3, 4)]
    assert list(class_search.choose_candidates(sizes)) == sizes
