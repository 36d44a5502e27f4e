"""Means over families and seeds, interquartile means, and powers of decay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, f, norm, trim_mean, ttest_rel
from scipy.stats import t as student

from tessella.paper.derived_numbers import (
    EMPTY_SUMMARY,
    NARROW_INTERVAL_MAX_SEEDS,
    Effect,
    averages_by_seed,
    bootstrap,
    compare_paired,
    compare_spread,
    describe_interval_caution,
    fit_decay,
    format_effect,
    select_runs,
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


@given(tables)
def test_the_interquartile_mean_trims_seeds_and_never_a_problem(values):
    """Within each problem; then the mean over all problems."""
    expected = sum(trim_mean(row, 0.25) for row in values) / len(values)
    assert summarise(values).iqm == pytest.approx(expected)


def test_one_unlucky_seed_does_not_move_it_but_a_hard_problem_does():
    easy, hard = np.full(8, 0.1), np.full(8, 0.5)
    unlucky = easy.copy()
    unlucky[3] = 9.0
    assert summarise(np.stack([unlucky, hard])).iqm == pytest.approx(0.3)
    assert summarise(np.stack([easy, easy, easy, hard])).iqm == pytest.approx(0.2)


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
        ("linear", e, 100, seed, 20 + seed)
        for e in ("A", "B")
        for seed in (0, 1, 2)
        if (e, seed) != ("B", 1)
    ]
    frame = pd.DataFrame(rows, columns=["method", "problem", "n", "seed", "policy_error"])
    found = values_by_seed(select_runs(frame, method="linear"), "policy_error")
    np.testing.assert_array_equal(found, [[20, 22], [20, 22]])
    assert values_by_seed(select_runs(frame, method="local"), "policy_error").size == 0
    assert averages_by_seed(frame, "policy_error").to_dict() == {0: 20, 2: 22}


@given(st.floats(-2, 2), st.floats(0.01, 10))
def test_the_power_of_a_power_law_is_found(power, factor):
    n = np.array([100, 200, 400, 800])
    assert fit_decay(n, factor * n**-power) == pytest.approx(power, abs=1e-9)


def test_errors_of_zero_are_left_out_of_the_power():
    n = np.array([100, 200, 400])
    assert fit_decay(n, np.array([0.1, 0.05, 0.0])) == pytest.approx(1.0)
    assert np.isnan(fit_decay(n, np.array([0.1, 0.0, 0.0])))
    many = np.array([[0.1, 0.05, 0.0], [0.1, 0.0, 0.0], [0.0, 0.2, 0.2]])
    np.testing.assert_allclose(fit_decay(n, many), [1.0, np.nan, 0.0], atol=1e-12)


def test_a_paired_difference_has_the_interval_of_the_paired_t_test():
    rng = np.random.default_rng(5)
    values = {method: rng.uniform(0, 1, (3, 7)) for method in ("margin", "neural")}
    runs = [
        {"method": m, "problem": e, "n": 7, "seed": s, "error": values[m][e, s]}
        for m in values
        for e in range(3)
        for s in range(7)
        if (m, e, s) != ("neural", 1, 4)  # this seed is left out of both
    ]
    frame = pd.DataFrame(runs)
    found = compare_paired(
        *(averages_by_seed(select_runs(frame, method=m), "error") for m in values)
    )
    ours, theirs = (np.delete(values[m].mean(axis=0), 4) for m in values)
    interval = ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.mean == pytest.approx((ours - theirs).mean())
    assert found.seeds == 6


def test_the_interval_of_a_ratio_of_deviations_is_that_of_the_f_distribution():
    """A ratio is significant at 5 % exactly where its interval leaves out 1."""
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(size=15), rng.normal(size=12)
    found = compare_spread(ours, theirs)
    assert found.mean == pytest.approx(ours.std(ddof=1) / theirs.std(ddof=1))
    for end, tail in ((found.low, 0.975), (found.high, 0.025)):
        assert f.cdf((found.mean / end) ** 2, 14, 11) == pytest.approx(tail)
    assert np.isnan(compare_spread(ours, np.ones(5)).high)


def test_the_bootstrap_of_a_mean_is_about_as_wide_as_the_normal_interval():
    values = np.random.default_rng(4).normal(size=200)
    found = bootstrap(lambda drawn: values[drawn].mean(axis=-1), 200)
    reach = norm.ppf(0.975) * values.std() / 200**0.5
    assert found.mean == pytest.approx(values.mean())
    # 2,000 draws place a 2.5 % quantile within 0.2 standard errors, six deviations of it.
    assert found.low == pytest.approx(values.mean() - reach, abs=0.1 * reach)
    assert found.high == pytest.approx(values.mean() + reach, abs=0.1 * reach)
    assert np.isnan(bootstrap(lambda drawn: np.full(len(drawn), np.nan), 5).low)


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((-0.00012, -0.00034), "-0.00012 [-0.00034, +0.00010]"),
        ((-1.5, -1.64), "-1.50 [-1.64, -1.36]"),
        ((0.25, 0.25), "+0.25 in every seed"),
    ],
)
def test_an_effect_shows_two_digits_of_its_half_width(ends, text):
    mean, low = ends
    assert format_effect(Effect(mean, low, 2 * mean - low, 15)) == text
