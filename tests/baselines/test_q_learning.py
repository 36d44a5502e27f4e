"""Tabular and double Q-learning."""

import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.baselines import (
    ConstantStep,
    DecayingStep,
    DoubleQ,
    TabularQ,
    Trajectory,
    train,
    train_batch,
)
from tessella.baselines.q_learning import train_tables
from tessella.baselines.training import draw_uniform_transitions

METHODS = [TabularQ, DoubleQ]
STEPS = [ConstantStep(0.3), DecayingStep(0.7)]


def slow_tables(method, mdp, n, seed):
    """The textbook loop."""
    seen = draw_uniform_transitions(mdp, n, seed)
    two = isinstance(method, DoubleQ)
    q = np.full((1 + two, mdp.n_states, mdp.n_actions), method.start)
    visits = np.zeros_like(q)
    options = [np.flatnonzero(row) for row in mdp.feasible_mask]
    for i in range(n):
        s, a, after = seen.states[i], seen.actions[i], seen.nexts[i]
        table = seen.coins[i] if two else 0
        best = max(options[after], key=lambda b, t=table, z=after: q[t, z, b])
        judge = 1 - table if two else 0
        future = 0.0 if seen.ended[i] else mdp.discount * q[judge, after, best]
        visits[table, s, a] += 1
        step = method.step
        size = step.size if isinstance(step, ConstantStep) else visits[table, s, a] ** -step.power
        q[table, s, a] += size * (seen.rewards[i] + future - q[table, s, a])
    return q.sum(axis=0)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("step", STEPS)
def test_the_loop_is_the_textbook_loop(small, ending, kind, step):
    method = kind(step=step, start=1.0)
    for mdp in (small, ending):
        run = train_tables(method, mdp, [40, 1_500], 3)
        for n, q in zip((40, 1_500), run.q, strict=True):
            expected = np.where(mdp.feasible_mask, slow_tables(method, mdp, n, 3), -np.inf)
            assert np.allclose(q, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("seed", range(2))
def test_with_a_large_budget_the_policy_is_the_exact_one(small, kind, seed):
    solution = ts.solve(small)
    assert solution.decided.all()
    rival = train(kind(step=DecayingStep(0.7)), small, 300_000, seed)
    assert (rival.table == solution.policy.table).all()


@pytest.mark.parametrize("kind", METHODS)
def test_along_a_trajectory_too(small, kind):
    method = kind(step=DecayingStep(0.6), sampling=Trajectory(epsilon=0.5))
    rival = train(method, small, 20_000, 0)
    assert (rival.table == ts.solve(small).policy.table).all()


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_a_path_takes_what_looks_best_and_explores_as_often_as_told(kind, epsilon):
    mdp = ts.MDP.from_arrays(np.ones((2, 1, 1)), np.array([[2.0, 1.0]]), 0.0)
    n, method = 1_000, kind(step=ConstantStep(0.001), sampling=Trajectory(epsilon))
    run = train_tables(method, mdp, [n], 0)
    # Each update moves an entry by a thousandth of what is missing, so entries count visits.
    other = np.log(1 - run.q[0, 0, 1] / method.tables) / np.log(0.999) * method.tables
    spread = np.sqrt(n * epsilon / 2 * (1 - epsilon / 2))
    assert abs(other - n * epsilon / 2) <= 5 * spread + 1


@pytest.mark.parametrize("kind", METHODS)
def test_the_values_approach_the_exact_ones(small, kind):
    exact = ts.solve(small).q.reshape(6, 3)
    method = kind(step=DecayingStep(0.7))
    run = train_tables(method, small, [1_000, 300_000], 0)
    mask = small.feasible_mask
    far, near = (np.abs(q[mask] / method.tables - exact[mask]).max() for q in run.q)
    assert near < 0.1
    assert near < far / 3


def test_nothing_follows_an_end(ending):
    run = train_tables(TabularQ(step=ConstantStep(0.5)), ending, [4_000], 0)
    assert np.allclose(run.q[0, 0], [1.0, 5.0])
    assert (train(TabularQ(step=ConstantStep(0.5)), ending, 4_000).table == 1).all()


@pytest.mark.parametrize("method", [TabularQ(), DoubleQ(), TabularQ(sampling=Trajectory())])
def test_a_batch_gives_what_single_runs_give(small, method):
    found = train_batch(method, small, [300, 50, 120], [4, 9, 2])
    assert set(found) == {(s, n) for s in (4, 9, 2) for n in (50, 120, 300)}
    for (seed, budget), policy in found.items():
        alone = train(method, small, budget, seed)
        assert (policy.table == alone.table).all()
        assert policy.simulator_calls == alone.simulator_calls == budget
        assert policy.curve.at[-1] == budget


def test_a_seeds_values_do_not_depend_on_its_company(small):
    alone = train_batch(DoubleQ(), small, [200], [7])[7, 200]
    for seeds in ([7, 1], [3, 7, 2], list(range(15))):
        found = train_batch(DoubleQ(), small, [200], seeds)[7, 200]
        assert (found.curve.residual == alone.curve.residual).all()


def test_both_methods_see_the_same_transitions_and_differ(small):
    tabular = train_tables(TabularQ(), small, [500], 0)
    double = train_tables(DoubleQ(), small, [500], 0)
    assert (tabular.q != double.q).any()


def test_policies_take_feasible_actions_only(small):
    # Rewards are not negative, so an untouched entry of 9 would look best.
    for kind in METHODS:
        for sampling in ({}, {"sampling": Trajectory()}):
            small.check_feasible(train(kind(start=9.0, **sampling), small, 60, 1))


def test_sizes_are_counted_as_in_the_paper():
    inventory, queue = ts.benchmark("INV-Lin"), ts.benchmark("QUE-Lin")
    assert train(TabularQ(), inventory, 10).size == 4_125
    assert train(DoubleQ(), inventory, 10).size == 8_250
    assert train(TabularQ(), queue, 10).size == 1_302
    assert train(DoubleQ(), queue, 10).size == 2_604


def test_the_curve_tells_how_training_went(small):
    rival = train(TabularQ(step=DecayingStep()), small, 6_400, 0)
    assert rival.curve.unit == "updates"
    assert rival.curve.at.tolist() == [6, 12, 25, 50, 100, 200, 400, 800, 1_600, 3_200, 6_400]
    assert (rival.curve.tables[-1] == rival.table).all()
    assert rival.curve.residual[-1] < rival.curve.residual[0]
    assert len(rival.curve.up_to(100)) == 5


def test_a_generator_is_as_good_as_a_seed(small):
    one = train(TabularQ(), small, 100, np.random.default_rng(3))
    again = train(TabularQ(), small, 100, np.random.default_rng(3))
    assert (one.table == again.table).all()


@pytest.mark.parametrize("sampling", [{}, {"sampling": Trajectory()}])
def test_rewards_are_worked_out_in_the_callers_own_precision(sampling):
    seen = []

    def pays(x):
        seen.append(str(jnp.asarray(0.5).dtype))
        return x

    mdp = ts.MDP.staged({"x": range(3)}, (0, 1), 0.9, [ts.Pay(pays)])
    rival = train(TabularQ(**sampling), mdp, 8, 0)
    assert set(seen) == {"float32"}
    assert len(seen) > 1
    assert rival.curve.residual.dtype == np.float64


@pytest.mark.parametrize("updates", [0, -1, 2.5])
def test_training_takes_at_least_one_update(small, updates):
    with pytest.raises(ts.ArgumentError, match="at least 1 update; got"):
        train(TabularQ(), small, updates)
    with pytest.raises(ts.ArgumentError, match="at least 1 update; got"):
        train_batch(TabularQ(), small, [10, updates], [0])


def test_no_budget_is_refused_and_no_seed_is_no_work(small):
    with pytest.raises(ts.ArgumentError, match="at least one budget"):
        train_batch(TabularQ(), small, [], [0])
    assert train_batch(TabularQ(), small, [10], []) == {}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ConstantStep(0.0), "step size must lie in"),
        (lambda: ConstantStep(1.5), "step size must lie in"),
        (lambda: DecayingStep(0.5), "power must lie in"),
        (lambda: Trajectory(epsilon=-0.1), "epsilon must lie in"),
        (lambda: Trajectory(horizon=0), "horizon must be a whole number, at least 1"),
    ],
)
def test_options_out_of_range_are_refused(make, says):
    with pytest.raises(ts.ArgumentError, match=says):
        make()
