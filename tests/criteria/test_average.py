"""Average reward: gain and relative values, by methods that share no code with the loop."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import tessella as ts
from tessella.solvers.elimination import find_closed_classes

METHODS = (
    ts.ValueIteration,
    ts.ModifiedPolicyIteration,
    ts.PolicyIteration,
    ts.InexactPolicyIteration,
)


def unichain(seed: int, n: int = 5, k: int = 3) -> ts.MDP:
    """Every state may be followed by state 0, so every policy has one recurrent class.

    No two rows are alike, so that all seeds are of one shape, which compiles once.
    """
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 4, size=(8 * n * k, n)) * (rng.random((8 * n * k, n)) < 0.6)
    rows[:, 0] += 1
    apart = np.unique(rows / rows.sum(axis=-1, keepdims=True), axis=0)
    exact = rng.permutation(apart)[: n * k].reshape(k, n, n)
    return ts.MDP.from_arrays(exact, rng.integers(-8, 9, size=(n, k)).astype(float), ts.Average())


def periodic(seed: int) -> ts.MDP:
    """Six states in two halves that follow one another."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((2, 6, 6))
    rows[:, :3, 3:] = rng.dirichlet(np.ones(3), size=(2, 3))
    rows[:, 3:, :3] = rng.dirichlet(np.ones(3), size=(2, 3))
    return ts.MDP.from_arrays(rows, rng.normal(size=(6, 2)), ts.Average())


def by_linear_program(mdp: ts.MDP) -> float:
    """minimise g subject to g + h(s) - sum_s' P(s'|s,a) h(s') >= r(s, a)."""
    dense = mdp.to_arrays("SAS")
    n, k = dense.reward.shape
    rows = dense.transition.reshape(n * k, n) - np.repeat(np.eye(n), k, axis=0)
    left = np.column_stack([np.full(n * k, -1.0), rows])
    cost = np.concatenate([[1.0], np.zeros(n)])
    return linprog(cost, left, -dense.reward.ravel(), bounds=(None, None)).fun


def exactly(mdp: ts.MDP, table: np.ndarray) -> tuple[Fraction, list[Fraction]]:
    """(gain, relative values, 0 in the first state) of a policy, in fractions."""
    dense = mdp.to_arrays("SAS")
    n = mdp.n_states
    rows = []
    for s in range(n):
        p = [Fraction(float(x)) for x in dense.transition[s, table[s]]]
        total = sum(p)  # the rows that were meant sum to 1
        row = [Fraction(int(s == t)) - p[t] / total for t in range(n)]
        row[0] = Fraction(1)  # in place of h(0) stands the gain
        rows.append([*row, Fraction(float(dense.reward[s, table[s]]))])
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    found = [row[-1] for row in rows]
    return found[0], [Fraction(0), *found[1:]]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("make", [unichain, periodic], ids=["unichain", "periodic"])
def test_the_gain_is_that_of_the_linear_program(make, method):
    for seed in range(6):
        mdp = make(seed)
        found = ts.solve(mdp, method())
        assert found.converged
        assert found.error_bound < 1e-9
        assert abs(found.gain - by_linear_program(mdp)) <= found.error_bound + 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_the_exact_gain_and_relative_values_of_the_optimum_lie_inside(seed):
    mdp = unichain(seed)
    found = ts.solve(mdp)
    gain, values = exactly(mdp, found.policy.table)
    assert abs(Fraction(found.gain) - gain) <= Fraction(found.error_bound)
    assert found.error_bound < 1e-10
    assert found.value_error < 1e-9
    off = max(abs(Fraction(float(v)) - x) for v, x in zip(found.value, values, strict=True))
    assert off <= Fraction(found.value_error)
    rounding = 4 * np.finfo(float).eps * np.abs(found.value).max()
    assert (found.upper - found.lower).max() <= 2 * found.value_error + rounding
    # An action called decided is the best at the exact values.
    dense = mdp.to_arrays("SAS")
    rows = dense.transition
    for s in np.flatnonzero(found.decided):
        q = [
            Fraction(float(dense.reward[s, a]))
            + sum(Fraction(float(p)) * v for p, v in zip(rows[s, a], values, strict=True))
            for a in range(mdp.n_actions)
        ]
        assert q[found.policy.table[s]] == max(q)


@pytest.mark.parametrize("seed", range(20))
def test_a_policy_is_evaluated_exactly_and_its_loss_is_the_difference_of_gains(seed):
    mdp = unichain(seed)
    table = np.random.default_rng(seed).integers(0, 3, mdp.n_states)
    found, best = ts.evaluate(mdp, table), ts.solve(mdp)
    gain, _ = exactly(mdp, table)
    assert abs(Fraction(found.gain) - gain) <= Fraction(found.error_bound)
    lost = ts.loss(best, table)
    assert lost.worst == lost.by_state.min()
    assert lost.mean == pytest.approx(max(best.gain - float(gain), 0), abs=1e-9)


@pytest.mark.parametrize("make", [unichain, periodic], ids=["unichain", "periodic"])
def test_the_loss_is_the_local_loss_weighed_by_the_long_run(make):
    for seed in range(5):
        mdp = make(seed)
        best = ts.solve(mdp)
        table = np.random.default_rng(seed).integers(0, mdp.n_actions, mdp.grid.shape)
        share = ts.occupancy(mdp, table)
        assert share.error_bound < 1e-8
        assert share.share.sum() == pytest.approx(1, abs=1e-9)
        local = best.q.max(axis=-1) - np.take_along_axis(best.q, table[..., None], -1)[..., 0]
        assert (share.share * local).sum() == pytest.approx(ts.loss(best, table).mean, abs=1e-7)


@pytest.fixture(scope="module")
def queue() -> ts.Solution:
    return ts.solve(ts.benchmark("QUE-Lin").with_criterion(ts.Average()))


def test_what_was_simulated_for_long_earns_the_gain(queue):
    paths = ts.simulate(queue.mdp, queue.policy, periods=4000, rng=1, paths=64, start="stationary")
    each = paths.rewards.mean(axis=1)
    assert abs(each.mean() - queue.gain) <= 6 * each.std() / np.sqrt(len(each))


def test_a_near_one_discount_approaches_the_average(queue):
    near = ts.solve(queue.mdp.with_discount(0.99999))
    assert (1 - 0.99999) * near.value.mean() == pytest.approx(queue.gain, rel=1e-4)
    assert (near.policy.table == queue.policy.table).mean() > 0.99


def test_a_model_with_two_gains_is_named_with_two_of_its_classes():
    rows = np.eye(4)[None].repeat(2, axis=0)
    rows[1] = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    reward = np.array([[0.0, 0], [0, 0], [1, 1], [1, 1]])
    mdp = ts.MDP.from_arrays(rows, reward, ts.Average())
    with pytest.raises(ts.ModelError, match=r"one average, .* one holds state=\d, another state="):
        ts.solve(mdp)
    with pytest.raises(ts.ModelError, match="this policy has 4 recurrent classes"):
        ts.evaluate(mdp, [0, 0, 0, 0])


def test_two_classes_that_can_be_left_are_no_obstacle():
    """Staying earns 0 in one state and 1 in the other; either can be left for the other."""
    rows = np.array([np.eye(2), np.eye(2)[::-1]])
    mdp = ts.MDP.from_arrays(rows, np.array([[0.0, 0], [1, 0]]), ts.Average())
    found = ts.solve(mdp)
    assert found.gain == pytest.approx(1, abs=1e-9)
    assert found.policy.table.tolist() == [1, 0]


def test_recurrent_classes_are_those_that_are_never_left():
    rows = np.zeros((1, 5, 5))
    for s, t in [(0, 1), (1, 0), (2, 0), (3, 4), (4, 3)]:
        rows[0, s, t] = 1
    mdp = ts.MDP.from_arrays(rows, np.zeros((5, 1)), 0.9)
    found = find_closed_classes(mdp.dynamics.policy_matrix(np.zeros(5, int)))
    assert sorted(map(list, found)) == [[0, 1], [3, 4]]


def test_a_process_that_ends_has_no_average():
    gym = pytest.importorskip("gymnasium")
    lake = ts.MDP.from_gymnasium(gym.make("FrozenLake-v1"), 0.9)
    with pytest.raises(ts.ModelError, match="average reward needs a process that never ends"):
        ts.solve(lake.with_criterion(ts.Average()))


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("train", lambda s: ts.train(ts.TabularQ(), s.mdp, 10)),
        ("LinearProgramming", lambda s: ts.solve(s.mdp, ts.LinearProgramming())),
    ],
)
def test_a_verb_that_needs_a_discount_says_so(verb, call):
    with pytest.raises(ts.ArgumentError, match=f"{verb} serves models with the criterion Discoun"):
        call(ts.solve(unichain(0)))


def test_files_keep_the_criterion_and_the_gain(tmp_path):
    mdp = unichain(3)
    mdp.save(tmp_path / "m.nc")
    again = ts.MDP.load(tmp_path / "m.nc")
    assert again.criterion == ts.Average()
    assert again.fingerprint == mdp.fingerprint != mdp.with_discount(0.9).fingerprint
    found = ts.solve(mdp)
    found.save(tmp_path / "s.nc")
    loaded = ts.Solution.load(tmp_path / "s.nc", mdp)
    assert (loaded.gain, loaded.value_error) == (found.gain, found.value_error)


def test_solutions_and_evaluations_speak_of_the_gain():
    found = ts.solve(unichain(0))
    assert f"{found.gain:.12g} per period, off by at most" in repr(found)
    assert "Gain of optimal, MDP:" in str(ts.evaluate(found.mdp, found.policy))
    assert "average reward" in repr(found.mdp)


def test_a_tolerance_that_rounding_hides_is_given_up_before_the_limit():
    """Near what rounding leaves, the bound goes to and fro above the tolerance for ever."""
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.full(5, 0.7), size=(2, 5))
    reward = np.round(rng.normal(1.0, 1.0, size=(5, 2)), 1)
    best = ts.solve(ts.MDP.from_arrays(rows, reward, ts.Average()))
    for share in np.linspace(0.8, 1.0, 5):
        tol = share * best.error_bound
        found = ts.evaluate(best.mdp, best.policy, tol=tol, guess=best.value, partial=True)
        assert found.sweeps < 1000
        assert found.converged or "rounding leaves a bound of" in found.reason
        assert found.error_bound < 2 * best.error_bound
