"""Simulated estimates, against exact certificates."""

from __future__ import annotations

import numpy as np
import pytest
from support import criteria

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


def test_measures_of_an_estimate_are_those_of_an_evaluation(solved):
    mdp = solved("INV-Mix").mdp.with_measures(worth="reward")
    found = estimate(mdp, base_stock, rng=2, paths=1_500, start=100)
    same_paths = found.measures["worth"]
    assert same_paths.value == pytest.approx(found.mean, rel=1e-12)
    assert same_paths.standard_error == pytest.approx(found.standard_error, rel=1e-12)
    exact = ts.evaluate(mdp, base_stock, 100).measures
    assert found.measures.keys() == exact.keys()
    for name, value in exact.items():
        told = found.measures[name]
        # Seven standard errors, and what comes after the last period.
        assert abs(told.value - value.value) <= 7 * told.standard_error + 1e-3 * abs(value.value)
        assert told.standard_error < 0.1 * abs(value.value)
    beside = estimate(mdp, base_stock, solved("INV-Mix"), rng=2, paths=1_500, start=100)
    assert beside.measures == found.measures


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


def make_horizon(discount: float) -> ts.MDP:
    """A shop that counts demand, over 9 periods with a final value."""
    shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
    final = lambda stock: 2.0 * stock  # noqa: E731
    return shop.with_criterion(ts.FiniteHorizon(9, discount, final))


def make_trip() -> ts.MDP:
    """Eight steps to the end, each of which may fail, or be tried twice at a price."""
    rows = np.zeros((2, 9, 9))
    for action, success in enumerate((0.3, 0.6)):
        rows[action] = np.diag(np.full(9, 1 - success)) + np.diag(np.full(8, success), 1)
        rows[action, -1, -1] = 1.0
    reward = np.tile([-1.0, -2.5], (9, 1))
    reward[-1] = 0.0
    return ts.MDP.from_arrays(rows, reward, ts.Total())


UNDISCOUNTED = {
    "horizon, plain sum": lambda: make_horizon(1.0),
    "horizon, other law each period": lambda: criteria.build_time_dependent(5),
    "total of a trip": make_trip,
    "total of a random model": lambda: criteria.build_ending(1),
    "average of a random model": lambda: criteria.build_unichain(1),
    "average of costs": lambda: ts.problem("machine_replacement").build(),
    "average from rates": lambda: ts.problem("naor_admission").build(),
}


def change_some(solution: ts.Solution) -> np.ndarray:
    """(S,) the optimum, but the next feasible action in every fourth state."""
    mdp = solution.mdp
    table = solution.policy.table.ravel().copy()
    for state in range(1, mdp.n_states, 4):
        others = np.roll(np.arange(mdp.n_actions), -int(table[state]) - 1)
        is_feasible = np.ones(len(others), bool) if mdp.feasible is None else mdp.feasible[state]
        table[state] = next(a for a in others if is_feasible[a])
    return table


@pytest.mark.parametrize("name", UNDISCOUNTED)
def test_estimates_agree_with_evaluations_under_each_criterion(name):
    mdp = UNDISCOUNTED[name]()
    solution = ts.solve(mdp)
    policy = change_some(solution)
    start = 1  # a state that is changed
    value, lost = ts.evaluate(mdp, policy, start), ts.loss(solution, policy, start)
    for seed in range(3):
        alone = estimate(mdp, policy, rng=seed, paths=400, start=start)
        beside = estimate(mdp, policy, solution, rng=seed, paths=400, start=start)
        for found, exact in ((alone, value.mean), (beside, lost.mean)):
            assert found.truncation == 0
            assert abs(found.mean - exact) <= 5 * found.standard_error + 1e-9
            assert found.standard_error <= 0.1 * np.abs(value.value).max()
    assert lost.mean > 0
    assert alone.measures.keys() == value.measures.keys()
    for key, exact in value.measures.items():
        told = alone.measures[key]
        assert abs(told.value - exact.value) <= 5 * told.standard_error + 1e-9, key


@pytest.mark.parametrize("name", UNDISCOUNTED)
def test_four_times_as_many_paths_halve_the_standard_error(name):
    mdp = UNDISCOUNTED[name]()
    policy = ts.solve(mdp)
    few, many = (estimate(mdp, policy, rng=4, paths=paths) for paths in (500, 2_000))
    assert 0.4 < many.standard_error / few.standard_error < 0.6


@pytest.mark.parametrize("name", ["horizon, plain sum", "total of a trip", "average from rates"])
def test_common_random_numbers_make_differences_more_precise(name):
    mdp = UNDISCOUNTED[name]()
    solution = ts.solve(mdp)
    table = solution.policy.table.copy()
    table.flat[1] = 0 if table.flat[1] else 1
    found = estimate(mdp, table, solution, rng=0, paths=400, start=0)
    assert found.pairing > 1.5


def flip_slowly() -> ts.MDP:
    """Two states that last 20 periods each on average, one of which pays: the gain is 1/2."""
    rows = np.array([[[0.95, 0.05], [0.05, 0.95]]])
    return ts.MDP.from_arrays(rows, [[0.0], [1.0]], ts.Average())


def test_the_standard_error_of_an_average_knows_that_periods_depend_on_one_another():
    """The variance of a mean of T is (1 + a) / (1 - a) / (4 T), a = 0.9 the autocorrelation."""
    found = estimate(flip_slowly(), [0, 0], rng=0, paths=1_000, periods=2_000)
    exact = np.sqrt(1.9 / 0.1 / 4 / 2_000 / 1_000)
    assert found.standard_error == pytest.approx(exact, rel=0.1)


def test_a_warm_up_takes_away_what_the_start_does():
    """From the state that does not pay, the mean of T periods after w is short by
    0.9^w (1 - 0.9^T) / (2 T (1 - 0.9))."""
    settings = {"rng": 0, "paths": 4_000, "periods": 50, "start": 0}
    for warm_up in (0, 10, 100):
        found = estimate(flip_slowly(), [0, 0], warm_up=warm_up, **settings)
        bias = 0.9**warm_up * (1 - 0.9**50) / (2 * 50 * 0.1)
        assert abs(found.mean - (0.5 - bias)) <= 5 * found.standard_error
        assert found.warm_up == warm_up
        assert found.standard_error < 0.01
    assert estimate(flip_slowly(), [0, 0], **settings).warm_up == 25


def test_paths_of_a_total_that_do_not_end_are_an_error():
    rows = np.array([[[1.0, 0], [0, 1]], [[0, 1], [0, 1]]])  # stay, or go to the end
    mdp = ts.MDP.from_arrays(rows, np.array([[-0.125, -1.0], [0, 0]]), ts.Total())
    words = r"paths that end; after 10,000 periods .*; 2 of 2 paths of the policy had not ended"
    with pytest.raises(ts.ModelError, match=words.replace("; 2", " 2")):
        estimate(mdp, [0, 0], rng=0, paths=2, start=0)
    found = estimate(mdp, [1, 0], rng=0, paths=2, start=0)
    assert (found.mean, found.standard_error) == (-1, 0)
    with pytest.raises(ts.ModelError, match="after 5 periods"):
        estimate(make_trip(), np.zeros(9, int), rng=0, periods=5, start=0)
    endless = ts.MDP.from_arrays(np.array([[[0, 1.0], [1, 0]]]), [[-1.0], [-1]], ts.Total())
    with pytest.raises(ts.ModelError, match="an end that can be reached from everywhere"):
        estimate(endless, [0, 0], rng=0, paths=2)


def test_totals_and_averages_of_models_that_end_themselves():
    gymnasium = pytest.importorskip("gymnasium")
    lake = ts.MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.99)
    total = lake.with_criterion(ts.Total())
    policy = ts.solve(lake).policy
    found = estimate(total, policy, rng=1, paths=1_000)
    exact = ts.evaluate(total, policy).mean
    assert 0.1 < exact < 1
    assert abs(found.mean - exact) <= 5 * found.standard_error
    with pytest.raises(ts.ModelError, match="average reward needs a process that never ends"):
        estimate(lake.with_criterion(ts.Average()), policy, rng=1)


def test_an_estimate_says_what_it_is_under_each_criterion():
    trip = estimate(make_trip(), np.zeros(9, int), rng=0, paths=20)
    text = " ".join(trip.summary().split())
    assert "the total reward of the policy is" in text
    assert text.endswith("(20 paths to the end).")
    naor = ts.problem("naor_admission").build()
    average = estimate(naor, np.ones(41, int), rng=0, paths=20, periods=100)
    text = " ".join(average.summary().split())
    assert "per unit of time, between" in text
    assert text.endswith("of 100 periods after a warm-up of 50; its bias is not included).")
    number = float(text.split(" is ")[1].split()[0])
    assert number == pytest.approx(naor.clock.per_time(average.mean), rel=1e-3)


@pytest.mark.parametrize("warm_up", [-1, 2.5, "a"])
def test_a_warm_up_is_a_number_of_periods_of_an_average(warm_up, queue):
    with pytest.raises(ts.ArgumentError, match="whole number of periods, at least 0; got"):
        estimate(flip_slowly(), [0, 0], rng=0, warm_up=warm_up)
    with pytest.raises(ts.ArgumentError, match="a warm-up is for averages, not for discount"):
        estimate(queue.mdp, queue, rng=0, warm_up=5)


@pytest.mark.parametrize("given", [{"paths": 1}, {"confidence": 1.0}, {"periods": 0}])
def test_settings_that_make_no_sense_are_refused(queue, given):
    with pytest.raises(ts.ArgumentError, match="at least"):
        estimate(queue.mdp, queue, rng=0, **given)
