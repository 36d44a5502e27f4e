"""Simulated estimates, against exact certificates."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.certificates.certify import certify
from tessella.certificates.loss import estimate


def spoiled(solution):
    rng = np.random.default_rng(3)
    table = solution.policy.table.copy()
    spoil = rng.random(table.shape) < 0.2
    table[spoil] = rng.integers(0, solution.mdp.n_actions, spoil.sum())
    return table


def base_stock(stock, regime):
    return 4 * np.clip(np.ceil((6 + 0.5 * regime - stock) / 4), 0, 4)


@pytest.mark.parametrize(
    ("label", "make"), [("INV-Mix", lambda _: base_stock), ("QUE-Mix", spoiled)]
)
def test_the_interval_agrees_with_the_certificate_and_pairing_makes_it_narrow(solved, label, make):
    solution = solved(label)
    policy = make(solution)
    # From one state: a common start would pair the paths even if their luck were not common.
    exact = certify(solution, policy, start=100).mean_loss
    found = estimate(solution.mdp, policy, solution, rng=0, paths=1_500, start=100)
    # Seven standard errors: the test may not depend on the seed.
    assert abs(found.mean - exact) <= 7 * found.standard_error + found.truncation
    assert found.pairing > 5
    assert found.upper - found.lower < 0.5 * exact


def test_intervals_cover_the_exact_loss_as_often_as_they_say(queue):
    table = spoiled(queue)
    exact = certify(queue, table).mean_loss
    found = [
        estimate(queue.mdp, table, queue, rng=seed, paths=60, periods=150, confidence=0.8)
        for seed in range(40)
    ]
    covered = sum(e.lower <= exact <= e.upper for e in found)
    # 32 expected, standard deviation 2.5.
    assert 22 <= covered <= 40


def test_one_policy_alone_is_valued(queue):
    found = estimate(queue.mdp, queue, rng=1, paths=1_000)
    exact = certify(queue, queue).policy_mean
    assert abs(found.mean - exact) <= 7 * found.standard_error + found.truncation
    assert found.pairing is None


def test_a_policy_loses_nothing_against_itself(queue):
    found = estimate(queue.mdp, queue, queue, rng=2, paths=50)
    assert found.mean == 0
    assert found.standard_error == 0
    assert found.lower <= 0 <= found.upper


def test_truncation_bounds_what_comes_after(queue):
    table = spoiled(queue)
    short = estimate(queue.mdp, table, queue, rng=3, paths=400, periods=10)
    exact = certify(queue, table).mean_loss
    assert abs(short.mean - exact) <= 7 * short.standard_error + short.truncation
    assert short.lower <= exact <= short.upper
    long = estimate(queue.mdp, table, queue, rng=3, paths=400)
    assert long.truncation <= 3e-6 * queue.mdp.dynamics.reward_scale / 0.05


def test_models_that_end_are_paired_period_by_period():
    gymnasium = pytest.importorskip("gymnasium")
    mdp = ts.MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.99)
    solution = ts.solve(mdp)
    table = np.where(np.arange(16) == 3, 1, solution.policy.table)
    found = estimate(mdp, table, solution, rng=0, paths=4_000)
    exact = certify(solution, table).mean_loss
    assert abs(found.mean - exact) <= 7 * found.standard_error + found.truncation
    assert exact > 0.01
    assert found.pairing > 4


def test_the_seed_decides_the_estimate(queue):
    table = spoiled(queue)
    first, again, other = (
        estimate(queue.mdp, table, queue, rng=rng, paths=20, periods=5)
        for rng in (7, np.random.default_rng(7), 8)
    )
    assert first == again
    assert first.mean != other.mean


def test_an_estimate_says_that_it_is_no_certificate(queue):
    found = estimate(queue.mdp, spoiled(queue), queue, rng=0, paths=20, periods=5)
    text = " ".join(found.summary().split())
    assert text.startswith("Simulated estimate, not a certificate: the loss of")
    assert 'against "optimal"' in text
    alone = estimate(queue.mdp, queue, rng=0, paths=20, periods=5)
    assert 'long-run value of "optimal"' in " ".join(alone.summary().split())


@pytest.mark.parametrize("given", [{"paths": 1}, {"confidence": 1.0}, {"periods": 0}])
def test_settings_that_make_no_sense_are_refused(queue, given):
    with pytest.raises(ts.ArgumentError, match="at least"):
        estimate(queue.mdp, queue, rng=0, **given)
