"""Lost sales with a lead time: Zipkin (2008), "Old and new methods for lost-sales inventory"."""

from __future__ import annotations

import numpy as np
import pytest
from support.small import iterate_values

import tessella as ts

PRINTED = [
    ("Poisson", 4, 4.40),
    ("Poisson", 19, 7.66),
    ("geometric", 4, 10.24),
    ("geometric", 19, 20.89),
]


def build(**settings) -> ts.MDP:
    return ts.problem("lost_sales").build(**settings)


@pytest.mark.parametrize(("demand", "penalty", "cost"), PRINTED)
def test_the_average_cost_at_lead_time_two_is_what_zipkin_prints(demand, penalty, cost):
    found = iterate_values(build(demand=demand, penalty=penalty))
    assert round(-found.gain, 2) == cost


@pytest.mark.parametrize(("demand", "penalty", "cost"), PRINTED)
def test_axes_that_end_at_mortons_bounds_cut_nothing_off(demand, penalty, cost):
    settings = {"demand": demand, "penalty": penalty}
    tight, wide = (iterate_values(build(**settings, slack=slack)) for slack in (0, 4))
    assert tight.gain == pytest.approx(wide.gain, abs=1e-8)


def test_at_lead_time_four_the_optimum_costs_4_73_and_capped_base_stock_4_80():
    """Zipkin (2008) for the optimum; order at most 5 units, up to 26 in stock and under way."""
    mdp = build(lead_time=4)
    position = sum(np.meshgrid(*mdp.grid.values, indexing="ij")).ravel()
    capped = np.clip(26 - position, 0, 5)
    assert round(-iterate_values(mdp, 1e-5).gain, 2) == 4.73
    assert round(-iterate_values(mdp, 1e-5, fixed=capped).gain, 2) == 4.80


def test_with_a_lead_time_of_one_the_newsvendor_balances_the_two_costs():
    """No order under way: order up to the p / (p + h) quantile of two periods' demand at most."""
    mdp = build(lead_time=1)
    order = iterate_values(mdp).policy
    assert mdp.grid.axes == ("stock",)
    assert (np.diff(order) <= 0).all()
    assert (np.arange(len(order)) + order).max() <= mdp.grid.values[0][-1]


def test_late_orders_replace_more_of_an_order_than_stock_on_hand_and_at_most_all_of_it():
    """Zipkin (2008): -1 <= slope in the latest order <= slope in stock on hand <= 0."""
    mdp = build(demand="geometric")
    order = iterate_values(mdp).policy.reshape(mdp.grid.shape)
    inside = np.add.outer(*mdp.grid.values) <= mdp.grid.values[0][-1]
    stock, due = -np.diff(order, axis=0), -np.diff(order, axis=1)
    assert set(np.unique(stock[inside[1:]])) | set(np.unique(due[inside[:, 1:]])) <= {0, 1}
    assert (order[:-1, 1:] <= order[1:, :-1])[inside[1:, :-1]].all()


def test_the_tail_of_the_demand_is_paid_for_in_full():
    """An empty shelf loses the mean demand: p times 5."""
    mdp = build(demand="geometric")
    assert mdp.reward[0, 0] == pytest.approx(-4 * 5)
