"""Means over families and seeds, interquartile means, and powers of decay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, norm, ttest_rel
from scipy.stats import t as student

from tessella.paper.derived_numbers import (
    EMPTY_SUMMARY,
    NARROW_INTERVAL_MAX_SEEDS,
    compare_paired,
    describe_interval_caution,
    fit_decay,
    interquartile_mean,
    summarise,
    values_by_seed,
)

tables = arrays(float, st.tuples(st.integers(1, 6), st.integers(2, 8)), elements=st.floats(0, 1))


@given(tables)
def test_mean_and_spread_are_those_of_the_family_averages(values):
    found = summarise(values)
    averages = [sum(column) / len(column) for column in values.T]
    mean = sum(averages) / len(averages)
    spread = (sum((a - mean) ** 2 for a in averages) / (len(averages) - 1)) ** 0.5
    assert found.mean == pytest.approx(mean)
    assert found.std == pytest.approx(spread, abs=1e-12)
    assert found.seeds == values.shape[1]


@given(tables)
def test_the_interval_lies_within_the_runs_and_is_the_same_again(values):
    found = summarise(values, 3)
    slack = 1e-12
    assert values.min() - slack <= found.low <= found.high <= values.max() + slack
    assert summarise(values, 3) == found


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end():
    values = np.array([100.0, 1, 2, 3, 4, 5, 6, -50])
    assert interquartile_mean(values) == pytest.approx((2 + 3 + 4 + 5) / 4)


@pytest.mark.parametrize("shared", [False, True])
def test_the_bootstrap_interval_covers_the_truth_about_as_often_as_it_says(shared):
    # Six problems with runs around 0, which know nothing of each other or share their draws.
    seeds, trials, rng = 15, 400, np.random.default_rng(1)
    inside = 0
    for trial in range(trials):
        values = rng.uniform(-0.5, 0.5, (1 if shared else 6, seeds)) * np.ones((6, 1))
        found = summarise(values, trial)
        inside += found.low <= 0 <= found.high
    # A percentile interval is about mean +- 1.96 sd sqrt((n - 1) / n) / sqrt(n): its coverage is
    # Student's, 0.921. Fewer, or more, has probability below 1e-6 either way.
    reach = norm.ppf(0.975) * np.sqrt((seeds - 1) / seeds)
    expected = 1 - 2 * student.sf(reach, seeds - 1)
    assert binom.ppf(1e-6, trials, expected) <= inside <= binom.isf(1e-6, trials, expected)


def test_one_seed_has_no_spread():
    found = summarise(np.array([[0.2], [0.4]]))
    assert found.mean == pytest.approx(0.3)
    assert found.iqm == pytest.approx(0.3)
    assert np.isnan([found.std, found.low, found.high]).all()


def test_no_runs_have_no_numbers():
    assert summarise(np.zeros((0, 0))) == EMPTY_SUMMARY


def test_a_reader_is_warned_of_intervals_of_few_seeds():
    assert describe_interval_caution(NARROW_INTERVAL_MAX_SEEDS) == ""
    assert "intervals of 9 seeds are too narrow" in describe_interval_caution(
        NARROW_INTERVAL_MAX_SEEDS - 1
    )
    assert "neither" in describe_interval_caution(1)


def test_values_by_seed_are_those_of_seeds_that_no_problem_lacks():
    rows = [
        ("inventory", "linear", e, seed, 20 + seed)
        for e in ("A", "B")
        for seed in (0, 1, 2)
        if (e, seed) != ("B", 1)
    ]
    frame = pd.DataFrame(rows, columns=["family", "method", "problem", "seed", "policy_error"])
    found = values_by_seed(frame, "inventory", "linear", "policy_error")
    np.testing.assert_array_equal(found, [[20, 22], [20, 22]])
    assert values_by_seed(frame, "inventory", "local", "policy_error").size == 0


@given(st.floats(-2, 2), st.floats(0.01, 10))
def test_the_power_of_a_power_law_is_found(power, factor):
    n = np.array([100, 200, 400, 800])
    assert fit_decay(n, factor * n**-power) == pytest.approx(power, abs=1e-9)


def test_errors_of_zero_are_left_out_of_the_power():
    n = np.array([100, 200, 400])
    assert fit_decay(n, np.array([0.1, 0.05, 0.0])) == pytest.approx(1.0)
    assert np.isnan(fit_decay(n, np.array([0.1, 0.0, 0.0])))


def test_a_paired_difference_has_the_interval_of_the_paired_t_test():
    rng = np.random.default_rng(5)
    values = {method: rng.uniform(0, 1, (3, 7)) for method in ("margin", "neural")}
    runs = [
        {"family": "f", "method": m, "problem": e, "seed": s, "error": values[m][e, s]}
        for m in values
        for e in range(3)
        for s in range(7)
        if (m, e, s) != ("neural", 1, 4)  # this seed is left out of both
    ]
    found = compare_paired(pd.DataFrame(runs), "f", "margin", "neural", "error")
    ours, theirs = (np.delete(values[m].mean(axis=0), 4) for m in values)
    interval = ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.mean == pytest.approx((ours - theirs).mean())
    assert found.seeds == 6
