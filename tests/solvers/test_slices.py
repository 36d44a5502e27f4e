"""Exogenous axes, and actions that are decided slice by slice."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from support import sliced_models
from support.routes import plan_by

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.slices import Slices, measure_slices


@pytest.mark.parametrize("seed", range(45))
def test_nothing_that_slices_prove_is_false_in_rational_arithmetic(seed):
    assert sliced_models.find_faults(seed) == []


@in_float64
def bound_slices(mdp: ts.MDP, value: np.ndarray) -> np.ndarray:
    prepared = PreparedModel(plan_by(mdp, "rows"))
    slices = Slices.build(prepared)
    return slices.bound_point(measure_slices(slices.axes, prepared.make_operators(), value))


def test_the_bound_is_that_of_the_formula():
    mdp = ts.benchmark("INV-Mix")
    value = np.random.default_rng(0).normal(size=mdp.grid.shape)
    d = mdp.reward + 0.95 * np.stack([p @ value.ravel() for p in mdp.to_sparse().transition], 1)
    d = d.max(axis=1).reshape(mdp.grid.shape) - value
    walk = 0.5 * np.eye(25) + 0.25 * np.eye(25, k=1) + 0.25 * np.eye(25, k=-1)
    walk[0, 0] = walk[-1, -1] = 0.75
    assert np.array_equal(mdp.exogenous.matrix.toarray(), walk)
    w = np.linalg.solve(np.eye(25) - 0.95 * walk, np.ptp(d, axis=0))
    np.testing.assert_allclose(bound_slices(mdp, value), 0.95 * (walk @ w)[None], rtol=1e-9)


def test_without_exogenous_axes_the_bound_is_that_of_the_span():
    mdp = ts.problem("perishable").build()
    assert mdp.exogenous is None
    bound = bound_slices(mdp, np.zeros(mdp.grid.shape))
    reward = mdp.reward.max(axis=1)
    np.testing.assert_allclose(bound, 0.99 * np.ptp(reward) / (1 - 0.99), rtol=1e-9)


def test_of_a_process_that_may_end_the_end_is_a_state():
    # The first action ends it, the second goes on for ever: d = 1 in the only state.
    table = {0: {0: [(1.0, 0, 1.0, True)], 1: [(1.0, 0, 1.0, False)]}}
    mdp = ts.MDP.from_gymnasium(SimpleNamespace(P=table), 0.9)
    assert mdp.exogenous is None
    np.testing.assert_allclose(bound_slices(mdp, np.zeros(1)), 9.0, rtol=1e-9)
    proven = ts.solve(mdp, until="policy")
    assert proven.policy.table.tolist() == [1]
    assert proven.decided.all()


def weekly(differ: float = 0.0, by_action: bool = False) -> ts.MDP:
    """Stock, a weekday that goes on and a price whose chain depends on the weekday."""
    rng = np.random.default_rng(3)
    chains = rng.dirichlet(np.ones(3), (7, 3))
    rest = rng.dirichlet(np.ones(3), (7, 3))

    def chain(day, stock, action):
        share = differ * ((action if by_action else stock) > 0)
        index = day[..., 0, 0]
        return (1 - share) * chains[index] + share * rest[index]

    stages = [
        ts.Decide("stock", to=lambda stock, action: np.minimum(stock + action, 4)),
        ts.Shift("stock", ts.Noise("sold", range(3), [0.2, 0.5, 0.3]), by=lambda sold: -sold,
                 pays=lambda stock, sold, price, day: np.minimum(stock, sold) * (1 + price + day)),
        ts.Move("price", chain),
        ts.Shift("day", ts.Noise("night", [1], [1.0]), edge="wrap"),
    ]  # fmt: skip
    axes = {"stock": range(5), "day": range(7), "price": range(3)}
    return ts.MDP.staged(axes, range(3), 0.97, stages)


def as_table(mdp: ts.MDP) -> ts.MDP:
    axes = dict(zip(mdp.grid.axes, mdp.grid.values, strict=True))
    matrices = mdp.to_sparse().transition
    return ts.MDP.from_arrays(matrices, mdp.reward, mdp.discount, grid=axes)


def test_axes_that_move_together_are_exogenous_together():
    mdp = weekly()
    exogenous = mdp.exogenous
    assert exogenous.names == ("day", "price")
    chains = np.random.default_rng(3).dirichlet(np.ones(3), (7, 3))
    joint = np.zeros((7, 3, 7, 3))
    for day in range(7):
        joint[day, :, (day + 1) % 7] = chains[day]
    np.testing.assert_allclose(exogenous.matrix.toarray(), joint.reshape(21, 21), rtol=1e-14)
    assert 0 < exogenous.error < 1e-14
    tested = as_table(mdp).exogenous
    assert tested.names == exogenous.names
    np.testing.assert_allclose(tested.matrix.toarray(), joint.reshape(21, 21), rtol=1e-13)
    assert tested.error < 1e-13


@pytest.mark.parametrize("by_action", [False, True])
@pytest.mark.parametrize("differ", [1e-3, 1e-9, 1e-12])
def test_axes_that_depend_on_others_ever_so_little_are_not_exogenous(differ, by_action):
    mdp = weekly(differ, by_action)
    assert mdp.exogenous.names == ("day",)
    assert as_table(mdp).exogenous.names == ("day",)


def test_an_axis_that_never_moves_is_exogenous():
    stages = [ts.Decide("stock", to=lambda action: action, pays=lambda stock, kind: stock * kind)]
    axes = {"stock": range(3), "kind": range(2)}
    exogenous = ts.MDP.staged(axes, range(3), 0.9, stages).exogenous
    assert exogenous.names == ("kind",)
    assert np.array_equal(exogenous.matrix.toarray(), np.eye(2))


def test_a_horizon_has_no_exogenous_axes():
    assert ts.benchmark("INV-Mix").with_criterion(ts.FiniteHorizon(3)).exogenous is None


def test_slices_decide_what_one_tolerance_for_all_states_leaves_open():
    mdp = ts.benchmark("INV-Mix")
    exact = ts.solve(mdp)
    loose = ts.solve(mdp, ts.ValueIteration(tol=2.0))
    scalar = 2 * (0.95 * loose.error_bound)
    assert loose.slice_tolerance.shape == (1, 25)
    assert (loose.slice_tolerance < 0.2 * scalar).all()
    assert loose.tie_tolerance == loose.slice_tolerance.max()
    assert loose.decided.mean() > 0.9 > 0.5 > (loose.margin > scalar).mean()
    assert np.array_equal(loose.policy.table[loose.decided], exact.policy.table[loose.decided])


@pytest.mark.parametrize(("name", "route"), [("INV-Hard", "stages"), ("QUE-Burst", "rows")])
def test_a_policy_is_proven_in_fewer_sweeps_than_values_take(name, route):
    mdp = ts.benchmark(name)
    exact = ts.solve(mdp)
    proven = ts.solve(mdp, until="policy", plan=plan_by(mdp, route))
    assert proven.decided.all()
    assert not proven.has_values
    assert proven.converged
    assert np.array_equal(proven.policy.table, exact.policy.table)
    assert np.abs(proven.value - exact.value).max() <= proven.error_bound + exact.error_bound
    sweeps = ts.solve(mdp, ts.ValueIteration()).sweeps
    assert proven.sweeps < 0.5 * sweeps
    assert "policy proven" in repr(proven)
    assert "values are off by up to" in proven.reason


def test_a_proof_needs_no_more_sweeps_near_discount_1():
    mdp = ts.benchmark("INV-Mix")
    counts = [ts.solve(mdp.with_discount(g), until="policy").sweeps for g in (0.95, 0.999, 0.9999)]
    assert max(counts) <= 2 * min(counts) <= 60


def test_a_method_in_single_precision_proves_the_policy_of_a_large_model():
    mdp = ts.problem("inventory").build(max_stock=127, max_regime=127, demand_slope=0.07)
    proven = ts.solve(mdp, until="policy")
    assert proven.method == "MixedPrecision"
    assert proven.decided.all()
    assert not proven.has_values
    exact = ts.solve(mdp)
    assert proven.sweeps < exact.sweeps
    assert np.array_equal(proven.policy.table, exact.policy.table)


def test_equal_actions_are_tied_within_rounding():
    mdp = ts.benchmark("INV-Mix")
    arrays = mdp.to_sparse()
    twice = [p for p in arrays.transition for _ in range(2)]
    axes = dict(zip(mdp.grid.axes, mdp.grid.values, strict=True))
    doubled = ts.MDP.from_arrays(twice, np.repeat(mdp.reward, 2, axis=1), 0.95, grid=axes)
    proven = ts.solve(doubled, until="policy")
    assert not proven.has_values
    assert not proven.decided.any()
    assert np.array_equal(proven.policy.table, 2 * ts.solve(mdp).policy.table)
    assert proven.tie_tolerance < 1e-9
    assert proven.converged
    assert proven.reason.startswith("0 of 825 actions are decided, and the others tied within")


@pytest.mark.parametrize(("distance", "is_converged"), [(1e-6, True), (1e-8, False)])
def test_rounding_that_hides_every_margin_is_no_tie(distance, is_converged):
    proven = ts.solve(ts.benchmark("INV-Mix").with_discount(1 - distance), until="policy")
    assert proven.converged == is_converged == proven.decided.any()
    assert ("policy proven up to rounding" in repr(proven)) == is_converged
    if not is_converged:
        assert proven.margin.max() < proven.tie_tolerance
        message = "nothing could be decided: rounding leaves a tolerance of 12"
        assert proven.reason.startswith(message)


def test_where_sweeps_are_slow_values_are_solved_for():
    cycle = np.roll(np.eye(40), 1, axis=1)
    reward = np.zeros((40, 2))
    reward[0] = 1.0, 0.0
    mdp = ts.MDP.from_arrays(np.stack([cycle, np.eye(40)]), reward, 0.99999)
    solution = ts.solve(mdp, until="policy")
    assert solution.has_values
    assert solution.converged
    assert solution.error_bound < 1e-3


def test_a_callback_stops_a_proof():
    mdp = ts.benchmark("QUE-Mix")
    solution = ts.solve(mdp, until="policy", callback=lambda progress: progress.sweep >= 8)
    assert not solution.converged
    assert "stopped" in solution.reason
    assert "proven" not in repr(solution)
    exact = ts.solve(mdp)
    decided = solution.decided
    assert np.array_equal(solution.policy.table[decided], exact.policy.table[decided])


def test_what_needs_values_says_so(tmp_path):
    proven = ts.solve(ts.benchmark("INV-Mix"), until="policy")
    message = r"needs accurate values: solve\(mdp\), without until='policy'"
    for verb in (
        lambda: ts.certify(proven, proven.policy),
        lambda: ts.loss(proven, proven.policy),
        lambda: ts.compress(proven, loss=0.01),
    ):
        with pytest.raises(ts.ArgumentError, match=message):
            verb()
    proven.save(tmp_path / "solution.nc")
    loaded = ts.Solution.load(tmp_path / "solution.nc", proven.mdp)
    assert not loaded.has_values
    assert np.array_equal(loaded.decided, proven.decided)
    assert loaded.tie_tolerance == proven.tie_tolerance


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": "converged"}, "until must be 'values' or 'policy'; got 'converged'"),
        ({"until": "policy", "tol": 1.0}, "without method, tol, checkpoint or guess; got tol"),
        ({"until": "policy", "method": ts.ValueIteration()}, "got method"),
    ],
)
def test_other_options_are_named(options, message):
    with pytest.raises(ts.ArgumentError, match=message):
        ts.solve(ts.benchmark("INV-Mix"), **options)


@pytest.mark.parametrize("criterion", [ts.Average(), ts.FiniteHorizon(4, 0.9)])
def test_only_discounted_models_are_proven_by_slices(criterion):
    mdp = ts.benchmark("INV-Mix").with_criterion(criterion)
    with pytest.raises(ts.ArgumentError, match=r"serves discounted models; others .* solve\(mdp\)"):
        ts.solve(mdp, until="policy")


def test_a_wrong_solution_of_the_linear_system_still_bounds(monkeypatch):
    mdp = ts.benchmark("INV-Mix")
    value = np.zeros(mdp.grid.shape)
    right = bound_slices(mdp, value)
    factorise = Slices._solve.func

    def solve_wrongly(slices):
        solve = factorise(slices)
        return lambda rhs: 0.9 * solve(rhs)

    monkeypatch.setattr(Slices, "_solve", property(solve_wrongly))
    assert (bound_slices(mdp, value) >= right).all()
    assert Fraction(float(bound_slices(mdp, value).max())) < 3 * Fraction(float(right.max()))


def test_the_tolerance_of_a_plan_does_not_end_a_proof():
    mdp = ts.benchmark("INV-Mix")
    proven = ts.solve(mdp, until="policy", plan=ts.plan(mdp, tol=100.0, calibrate=False))
    assert proven.decided.all()


def test_actions_tie_by_the_tolerance_of_their_slice():
    mdp = ts.benchmark("INV-Mix")
    loose = ts.solve(mdp, ts.ValueIteration(tol=10.0))
    low, high = loose.slice_tolerance.min(), loose.slice_tolerance.max()
    lost = loose.q.max(axis=-1, keepdims=True) - loose.q
    for action in range(mdp.n_actions):
        table = np.where(np.isfinite(lost[..., action]), action, loose.policy.table)
        taken = np.take_along_axis(lost, table[..., None], axis=-1)[..., 0]
        is_tied = (taken <= loose.slice_tolerance) | (table == loose.policy.table)
        assert np.array_equal(loose.ties(table), is_tied)
    assert ((lost > loose.slice_tolerance[..., None]) & (lost <= high)).any()
    assert low < high
