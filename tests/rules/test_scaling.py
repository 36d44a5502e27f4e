"""Scaling reports: a rule learned small is deployed large where its loss target is proven there."""

import numpy as np
import pytest

import tessella as ts
from tessella.rules.scaling import _fit_trend, _plan_largest

SCALES = 1, 2, 3, 12


def shop(scale: int, extra: float = 0.0) -> ts.MDP:
    """Stock that sells ``scale`` times as fast, and is filled up at a cost that stays.

    ``extra`` is charged for each unit that is kept, from scale 4 on. A table: nothing is compiled.
    """
    most, top = 20 * scale, 6 * scale + 11
    held = 0.1 + extra * (scale > 3)

    def step(stock, order, demand):
        level = np.where(order == "fill", most, stock)
        bought = (order == "fill") * (6.0 + 2.0 * (most - stock) / scale)
        left, short = np.maximum(level - demand, 0), np.maximum(demand - level, 0)
        return {"stock": left}, bought + (held * left + 9.0 * short) / scale

    demand = ts.Noise("demand", range(top + 1), ts.truncated_poisson(4.0 * scale, top))
    grid = {"stock": range(most + 1)}
    actions = ("wait", "fill")
    return ts.MDP.from_step(step, grid, actions, 0.9, demand, minimise=True, action_name="order")


@pytest.fixture(scope="module")
def carried():
    return ts.scaling(shop, SCALES, 0.02, worst=True, classes=[ts.LinearCuts()])


def test_a_rule_of_small_sizes_is_proven_at_a_large_one(carried):
    assert carried.carries_over
    assert carried.certificate.worst_loss.upper <= carried.loss_limit
    assert carried.rule.size == 1
    cut = carried.trends[-1]
    assert cut.power == 1.0, "the reorder point grows with the demand"
    assert "may be deployed: it loses at most" in str(carried)
    large = carried.solutions[-1]
    lost = ts.loss(large, carried.rule)
    assert lost.worst <= carried.certificate.worst_loss.upper + lost.error_bound


def test_the_loss_target_is_about_the_large_size(carried):
    large = carried.solutions[-1]
    assert carried.loss_limit == pytest.approx(0.02 * abs(large.value.mean()), rel=1e-6)


def test_the_plan_of_the_large_size_says_how_it_is_certified(carried):
    assert carried.solutions[-1].plan.certificate_route == "whole"
    large = ts.inventory(max_stock=110_000, max_regime=9, max_demand=9, orders=(0, 4))
    assert _plan_largest(large, 1e-3).certificate_route == "blocks"


def test_a_rule_that_loses_too_much_at_the_large_size_is_refused():
    found = ts.scaling(
        lambda scale: shop(scale, extra=3.0), SCALES, 0.02, worst=True, classes=[ts.LinearCuts()]
    )
    assert not found.carries_over
    assert "and the limit is" in found.refusal
    assert "no rule may be deployed" in str(found)
    with pytest.raises(ts.PolicyError, match="no rule carries over to scale 12"):
        _ = found.rule


def test_tables_and_rules_of_different_forms_are_refused(carried):
    tables = ts.scaling(shop, SCALES, 0.02, classes=[ts.RunLength()])
    assert "table of places" in tables.refusal
    assert tables.certificate is None


def test_few_or_disordered_scales_are_refused():
    for scales in ((1, 2, 3), (1, 3, 2, 4), (0, 1, 2, 3)):
        with pytest.raises(ts.ArgumentError, match="4 to 8 scales"):
            ts.scaling(shop, scales)


@pytest.mark.parametrize(
    ("law", "text"),
    [
        (lambda s: 5 + 0 * s, "5"),
        (lambda s: 0.4 / s, "0.4 x 1 / s"),
        (lambda s: 3 * s, "3 x s"),
        (lambda s: 2 + 3 / s, "2 + 3 x 1 / s"),
        (lambda s: 2 - 3 * np.sqrt(s), "2 - 3 x sqrt(s)"),
    ],
)
def test_a_number_that_follows_a_form_is_foretold_by_it(law, text):
    scales = np.array([1.0, 2.0, 3.0, 5.0])
    trend = _fit_trend(scales, tuple(law(scales).tolist()))
    assert str(trend) == text
    assert trend.evaluate(50.0) == pytest.approx(float(law(np.float64(50.0))))
