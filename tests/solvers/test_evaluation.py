"""Policy evaluation and occupancy, against dense linear algebra and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from support.models import random_model

import tessella as ts


def dense(mdp, table):
    """(P_pi, r_pi) as dense arrays."""
    sparse = mdp.to_sparse()
    rows = np.stack([p.toarray() for p in sparse.transition])
    flat, s = np.ravel(table), np.arange(mdp.n_states)
    return rows[flat, s], sparse.reward[s, flat]


def models():
    rng = np.random.default_rng(7)
    yield random_model(rng)
    yield random_model(rng, n=40, n_actions=10, discount=0.999)
    yield ts.benchmark("INV-Sin")
    yield ts.benchmark("QUE-Burst")


@pytest.mark.parametrize("mdp", list(models()), ids=repr)
def test_evaluation_and_occupancy_agree_with_dense_solves(mdp):
    rng = np.random.default_rng(8)
    table = rng.integers(mdp.n_actions, size=mdp.grid.shape)
    rows, reward = dense(mdp, table)
    system = np.eye(mdp.n_states) - mdp.discount * rows
    evaluation = ts.evaluate(mdp, table)
    exact = np.linalg.solve(system, reward)
    assert np.abs(evaluation.value.ravel() - exact).max() <= evaluation.error_bound + 1e-9
    assert evaluation.error_bound <= 1e-9 * max(1, np.abs(exact).max())
    start = rng.dirichlet(np.ones(mdp.n_states))
    found = ts.occupancy(mdp, table, start)
    flow = np.linalg.solve(system.T, (1 - mdp.discount) * start)
    assert np.abs(found.share.ravel() - flow).sum() <= found.error_bound + 1e-10
    assert found.error_bound <= 1e-9
    assert found.share.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("label", ["INV-Mix", "QUE-Mix"])
def test_simulated_returns_agree_with_the_evaluation(label):
    """A z-test at six standard errors: it fails by chance about twice in a thousand million."""
    mdp = ts.benchmark(label)
    table = ts.solve(mdp).policy.table
    start = mdp.n_states // 2
    paths = ts.simulate(mdp, table, periods=250, rng=1, paths=4000, start=start)
    value = ts.evaluate(mdp, table).value.ravel()
    returns = paths.returns
    cut_off = mdp.discount**250 * np.abs(value).max()
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    assert abs(returns.mean() - value[start]) <= 6 * error + cut_off


def test_simulated_visits_agree_with_the_occupancy():
    """Discounted visits of n independent paths: each state's mean within six standard errors."""
    mdp = ts.benchmark("QUE-Lin")
    table = ts.solve(mdp).policy.table
    horizon, n = 200, 4000
    paths = ts.simulate(mdp, table, periods=horizon, rng=2, paths=n, start=0)
    weights = (1 - mdp.discount) * mdp.discount ** np.arange(horizon)
    share = ts.occupancy(mdp, table, 0).share.ravel()
    for state in np.argsort(share)[-5:]:
        visits = (paths.states[:, :-1] == state) @ weights
        error = visits.std(ddof=1) / np.sqrt(n)
        assert abs(visits.mean() - share[state]) <= 6 * error + mdp.discount**horizon


def test_a_start_means_the_same_to_simulation_occupancy_and_certificate():
    """Integers are states, each entry as likely; floats are a distribution."""
    mdp = random_model(np.random.default_rng(9), n=12)
    solution, table = ts.solve(mdp), np.zeros(12, int)
    for states in (3, [3], [3, 3, 7, 0], [5, 2, 2]):
        weights = np.bincount(np.atleast_1d(states), minlength=12) / np.size(states)
        for start in (states, weights):
            np.testing.assert_array_equal(ts.occupancy(mdp, table, start).start, weights)
            np.testing.assert_array_equal(ts.certify(solution, table, start=start).start, weights)
            np.testing.assert_array_equal(mdp.with_start(start).start, weights)
        first = ts.simulate(mdp, table, 1, 0, paths=np.size(states), start=states).states[:, 0]
        np.testing.assert_array_equal(first, np.atleast_1d(states))
    for use in (
        lambda start: ts.occupancy(mdp, table, start),
        lambda start: ts.certify(solution, table, start=start),
        lambda start: ts.simulate(mdp, table, 1, 0, paths=12, start=start),
    ):
        with pytest.raises(ts.ArgumentError, match="for each of 12 states could mean either"):
            use(np.eye(12, dtype=int)[3])


def test_a_model_that_ends_has_less_than_full_occupancy():
    gymnasium = pytest.importorskip("gymnasium")
    mdp = ts.MDP.from_gymnasium(gymnasium.make("CliffWalking-v1"), 0.9)
    policy = ts.solve(mdp).policy
    share = ts.occupancy(mdp, policy, 36).share
    assert share.sum() == pytest.approx(1 - 0.9**13, abs=1e-9)


def test_evaluating_an_infeasible_policy_names_the_place():
    mdp = ts.MDP.from_arrays(
        np.ones((2, 2, 2)) / 2,
        np.zeros((2, 2)),
        0.9,
        feasible=np.array([[True, True], [True, False]]),
        actions=("wait", "go"),
    )
    with pytest.raises(
        ts.PolicyError, match=r"state=1, action=go is not feasible \(1 of 2 states\)"
    ):
        ts.evaluate(mdp, [0, 1])


def test_the_occupancy_bound_covers_a_state_into_which_everything_flows():
    """10^5 states all go to state 0: the adjoint adds 10^5 numbers; exactly (1-g)/n + g there."""
    n, g = 100_000, 0.5
    column = sp.csr_array((np.ones(n), (np.arange(n), np.zeros(n, int))), shape=(n, n))
    mdp = ts.MDP.from_arrays([column], np.zeros(n), g)
    found = ts.occupancy(mdp, np.zeros(n, int))
    exact = np.full(n, (1 - g) / n)
    exact[0] += g
    assert np.abs(found.share - exact).sum() <= found.error_bound
    assert found.error_bound < 1e-9


def test_the_mean_of_an_evaluation_is_over_the_start_and_says_so():
    mdp = ts.benchmark("QUE-Lin")
    policy = ts.solve(mdp).policy
    plain, value = ts.evaluate(mdp, policy), ts.evaluate(mdp, policy).value
    assert plain.mean == value.mean()
    assert "over 651 states" in str(plain)
    one = ts.evaluate(mdp, policy, {"queue": 3, "regime": 0})
    assert one.mean == value[3, 0]
    assert f"mean {value[3, 0]:.6g} over the start" in str(one)
    np.testing.assert_array_equal(one.value, value)
    owned = ts.evaluate(mdp.with_start({"queue": 3, "regime": 0}), policy)
    assert owned.mean == one.mean
    seen = ts.evaluate(mdp, policy, start="stationary")
    share = ts.occupancy(mdp, policy, "stationary").start
    assert seen.mean == pytest.approx((share * value).sum(), rel=1e-12)
    with pytest.raises(ts.ArgumentError, match="a start is a state index"):
        ts.evaluate(mdp, policy, start="x=0")
