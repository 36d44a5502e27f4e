"""A finite horizon: every period once, against fractions, plain loops and printed answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm
from support import criteria
from support.hostile import Arrays
from support.routes import plan_by

import tessella as ts
from tessella.conformance import check_dynamics
from tessella.mdp.tabular.rows import PolicyRows
from tessella.solvers.execution_plan import make_plan


def stock(horizon: ts.FiniteHorizon, **more) -> ts.MDP:
    """Order up to 10 units at a price that rises with time; half of the demand is certain."""
    jump = ts.Jump(
        ts.Noise("demand", range(5), [0.5, 0.125, 0.125, 0.125, 0.125]),
        to=lambda stock, demand: {"stock": np.maximum(stock - demand, 0)},
        pays=lambda stock, demand: 4.0 * np.minimum(stock, demand) - 0.5 * stock,
    )
    order = ts.Decide(
        "stock",
        lambda stock, order: np.minimum(stock + order, 10),
        pays=lambda order, time: -order * (1 + 0.25 * time),
    )
    return ts.MDP.staged(
        {"stock": range(11)}, range(6), horizon, [order, jump], action_name="order", **more
    )


HORIZON = ts.FiniteHorizon(6, 0.5, final=lambda stock: 0.25 * stock)


@pytest.fixture(scope="module")
def solved() -> ts.Solution:
    return ts.solve(stock(HORIZON, name="stock"))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_is_so_in_rational_arithmetic(seed):
    assert (
        criteria.find_contradictions(
            criteria.build_time_dependent(seed), np.random.default_rng(seed)
        )
        == []
    )


def test_the_value_is_that_of_the_linear_program():
    """minimise sum V subject to V(s) - discount sum_s' P(s'|s,a) V(s') >= r(s, a)."""
    for seed in range(4):
        mdp = criteria.build_time_dependent(seed)
        dense, n = mdp.to_arrays("SAS"), mdp.n_states
        rows = (mdp.discount * dense.transition - np.eye(n)[:, None])[dense.feasible]
        best = linprog(np.ones(n), rows, -dense.reward[dense.feasible], bounds=(None, None)).x
        found = ts.solve(mdp)
        assert np.abs(found.value.ravel() - best).max() <= found.error_bound + 1e-7


def test_the_value_is_that_of_a_plain_loop(solved):
    value = 0.25 * np.arange(11.0)
    for t in reversed(range(6)):
        q = np.empty((11, 6))
        for x in range(11):
            for a in range(6):
                y = min(x + a, 10)
                gets = [4.0 * min(y, k) - 0.5 * y + 0.5 * value[max(y - k, 0)] for k in range(5)]
                q[x, a] = -a * (1 + 0.25 * t) + np.dot([0.5, *[0.125] * 4], gets)
        value = q.max(axis=1)
        assert np.abs(solved.value[t] - value).max() <= solved.error_bound + 1e-14
    assert solved.mdp.grid.axes == ("time", "stock")
    assert solved.method == "BackwardInduction"
    assert solved.sweeps == 6


def test_through_compiled_stages_it_is_the_same_within_both_bounds(solved):
    assert not solved.plan.backend_model.backend.is_compiled
    mdp = stock(HORIZON)
    plan = plan_by(mdp, "stages")
    assert plan.backend_model.backend.is_compiled
    found = ts.solve(mdp, plan=plan)
    worth = ts.evaluate(mdp, np.zeros(found.mdp.grid.shape, dtype=int), plan=plan)
    visits = ts.occupancy(mdp, found.policy, plan=plan)
    assert np.abs(found.value - solved.value).max() <= found.error_bound + solved.error_bound
    np.testing.assert_array_equal(found.policy.table, solved.policy.table)
    by_table = ts.evaluate(solved.mdp, np.zeros(found.mdp.grid.shape, dtype=int))
    apart = np.abs(by_table.value - worth.value).max()
    assert apart <= by_table.error_bound + worth.error_bound
    shares = ts.occupancy(solved.mdp, solved.policy)
    apart = np.abs(shares.share - visits.share).sum()
    assert apart <= shares.error_bound + visits.error_bound


@pytest.mark.parametrize("method", [ts.ValueIteration(), ts.PolicyIteration()])
def test_other_methods_find_the_same_on_all_of_time_at_once(solved, method):
    found = ts.solve(solved.mdp, method)
    assert found.converged
    assert np.abs(found.value - solved.value).max() <= found.error_bound + solved.error_bound
    assert (found.policy.table == solved.policy.table).all()


@pytest.mark.parametrize("seed", range(3))
def test_tables_of_different_periods_are_compiled_too(seed, tmp_path):
    mdp = criteria.build_time_dependent(seed)
    mdp.save(tmp_path / "m.nc")
    loaded = ts.MDP.load(tmp_path / "m.nc")
    n_rows = {len(period.rows.indptr) for period in loaded.dynamics.distinct_periods}
    assert len(n_rows) > 1  # which are filled up to one number
    check_dynamics(loaded.dynamics)
    solved = ts.solve(mdp)
    for model in (mdp, loaded):
        plan = make_plan(model, representation="rows", backend="jax")
        assert plan.backend_model.backend.is_compiled
        found = ts.solve(model, plan=plan)
        assert np.abs(found.value - solved.value).max() <= found.error_bound + solved.error_bound
        np.testing.assert_array_equal(found.policy.table, solved.policy.table)
        worth = ts.evaluate(model, found.policy, plan=plan)
        assert np.abs(worth.value - found.value).max() <= worth.error_bound + found.error_bound


def test_only_what_names_time_is_kept_for_every_time(solved):
    first, last = solved.mdp.dynamics.periods[0], solved.mdp.dynamics.periods[-1]
    assert first.stages[1] is last.stages[1]
    assert first.stages[0] is not last.stages[0]
    alike = ts.benchmark("QUE-Lin").with_criterion(ts.FiniteHorizon(3))
    assert len(alike.dynamics.distinct_periods) == 1


def test_periods_that_are_alike_give_what_iterating_the_discounted_backup_gives():
    mdp = ts.benchmark("QUE-Lin")
    value = np.zeros(mdp.grid.shape)
    sparse = mdp.to_sparse()
    for _ in range(7):
        flat = value.ravel()
        q = sparse.reward + mdp.discount * np.stack([p @ flat for p in sparse.transition], axis=1)
        value = q.max(axis=1).reshape(mdp.grid.shape)
    found = ts.solve(mdp.with_criterion(ts.FiniteHorizon(7, mdp.discount)))
    assert np.abs(found.value[0] - value).max() <= found.error_bound + 1e-12


def test_a_policy_is_worth_what_its_paths_earn(solved):
    mdp, horizon = solved.mdp, 6
    paths = ts.simulate(mdp, solved.policy, horizon + 3, 1, paths=20_000, start={"stock": 2})
    assert (paths.actions[:, horizon:] == -1).all()
    worth = ts.evaluate(mdp, solved.policy, {"stock": 2})
    assert worth.mean == pytest.approx(solved.value[0, 2], abs=2 * solved.error_bound)
    off = paths.returns.mean() - worth.mean
    assert abs(off) <= 6 * paths.returns.std() / np.sqrt(20_000)


def test_the_loss_is_the_local_loss_weighed_by_the_visits(solved):
    mdp = solved.mdp
    table = np.zeros(mdp.grid.shape, int)
    visits = ts.occupancy(mdp, table)
    assert visits.share.sum() == pytest.approx(1, abs=1e-12)
    local = solved.q.max(axis=-1) - solved.q[..., 0]
    total = mdp.criterion.value_of_constant_reward(1.0)
    assert (visits.share * local).sum() * total == pytest.approx(ts.loss(solved, table).mean)


def test_a_start_is_at_time_0_unless_it_names_another(solved):
    mdp = solved.mdp
    assert ts.evaluate(mdp, solved.policy).start.sum(axis=1).tolist() == [1, 0, 0, 0, 0, 0]
    late = ts.evaluate(mdp, solved.policy, {"stock": 3, "time": 4})
    assert late.mean == pytest.approx(solved.value[4, 3])


def test_an_occupancy_is_a_share_of_the_periods_that_are_left(solved):
    """From time 4 of 6 two periods are left, with the weights 1 and 1/2."""
    mdp = solved.mdp
    table = np.zeros(mdp.grid.shape, int)
    late = ts.occupancy(mdp, table, {"stock": 3, "time": 4})
    assert late.share.sum(axis=1) == pytest.approx([0, 0, 0, 0, 2 / 3, 1 / 3], abs=1e-12)
    assert late.error_bound < 1e-10
    mixed = np.zeros(mdp.grid.shape)
    mixed[4, 3], mixed[0, 0] = 0.25, 0.75
    first = ts.occupancy(mdp, table, {"stock": 0})
    both = ts.occupancy(mdp, table, mixed).share
    weights = 0.75 * (2 - 2**-5), 0.25 * 1.5  # of all that follows each
    expected = (weights[0] * first.share + weights[1] * late.share) / sum(weights)
    assert both == pytest.approx(expected, abs=1e-12)


def test_a_certificate_from_a_later_time_has_the_loss_from_there(solved):
    mdp, start = solved.mdp, {"stock": 3, "time": 4}
    made = ts.certify(solved, np.zeros(mdp.grid.shape, int), start)
    assert made.decomposition.state.value.sum() == pytest.approx(made.mean_loss, abs=1e-9)
    assert made.occupancy.sum() == pytest.approx(1.5 / (2 - 2**-5), abs=1e-9)


def test_a_file_keeps_the_horizon(solved, tmp_path):
    mdp = solved.mdp
    mdp.save(tmp_path / "m.nc")
    again = ts.MDP.load(tmp_path / "m.nc")
    assert again.criterion == ts.FiniteHorizon(6, 0.5)
    found = ts.solve(again)
    assert np.abs(found.value - solved.value).max() <= found.error_bound + solved.error_bound
    walked = ts.simulate(again, solved.policy, 8, 0, paths=50)
    assert (walked.actions[:, 6:] == -1).all()


def test_a_file_whose_periods_do_not_move_time_is_refused(tmp_path):
    stock(ts.FiniteHorizon(2)).save(tmp_path / "m.nc")
    held = Arrays.read(tmp_path / "m.nc")
    columns = held.arrays["indices"]
    held.arrays["indices"] = np.where(columns >= 11, columns - 11, columns)  # nobody moves on
    held.write(tmp_path / "m.nc")
    with pytest.raises(ts.FileError, match="must move time on by one; time=0 does not"):
        ts.MDP.load(tmp_path / "m.nc")


def test_the_reorder_levels_of_snyder_and_shen_come_out():
    """Fundamentals of Supply Chain Theory, Example 4.7: T 5, h 1, p 20, c 2, K 50, demand
    normal(100, 20) within four standard deviations; what is left or owed after the last period
    costs as much again."""
    low, high = -180, 180
    demand = np.arange(20, 181)
    p = norm.cdf(demand + 0.5, 100, 20) - norm.cdf(demand - 0.5, 100, 20)
    p /= p.sum()
    levels = np.arange(low, high + 1)
    y = np.arange(0, high + 1)
    held = np.maximum(y[:, None] - demand, 0) @ p + 20 * (np.maximum(demand - y[:, None], 0) @ p)
    shift = ts.Shift("stock", ts.Noise("demand", demand, p), lambda demand: -demand)
    order = ts.Decide(
        "stock",
        lambda stock, to: np.maximum(stock, to),
        pays=lambda stock, to: (
            -50.0 * (to > stock)
            - 2.0 * np.maximum(to - stock, 0)
            - held[np.clip(np.maximum(stock, to), 0, high)]
        ),
    )
    last = ts.FiniteHorizon(5, final=lambda stock: -np.maximum(stock, -20.0 * stock))
    mdp = ts.MDP.staged({"stock": levels}, range(60, 181), last, [order, shift], action_name="to")
    found = ts.solve(mdp)
    targets = found.policy.decisions
    orders = np.maximum(targets, levels) > levels
    reorder = [int(levels[row].max()) for row in orders]
    upto = [int(np.unique(t[row])[0]) for t, row in zip(targets, orders, strict=True)]
    assert reorder == [110, 110, 110, 110, 111]
    assert upto == [133, 133, 133, 133, 126]
    assert -found.value[0, -low] == pytest.approx(1558.69, abs=0.005)


def test_what_is_final_may_be_a_number_a_function_or_an_array():
    made = [
        ts.solve(stock(ts.FiniteHorizon(2, final=final))).value
        for final in (3.0, lambda stock: 3.0 + 0 * stock, np.full(11, 3.0))
    ]
    assert (made[0] == made[1]).all()
    assert (made[0] == made[2]).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: ts.FiniteHorizon(0),
            "a whole number of periods, at least 1 and at most 100,000; got 0",
        ),
        (lambda: ts.FiniteHorizon(2.5), "at most 100,000; got 2.5"),
        (lambda: ts.FiniteHorizon(3, 0.0), r"must lie in \(0, 1\]; got 0"),
        (lambda: ts.FiniteHorizon(3, "x"), r"must lie in \(0, 1\]; got 'x'"),
        (lambda: stock(ts.FiniteHorizon(2, final=[1.0, 2.0])), r"grid's shape \(11,\); has shape"),
        (
            lambda: stock(ts.FiniteHorizon(2, final=lambda x: x)),
            "the final value has an unknown argument 'x'",
        ),
        (
            lambda: stock(ts.FiniteHorizon(2, final=lambda stock: np.log(stock))),
            "the final value must be finite; stock=0 is -inf",
        ),
        (
            lambda: ts.MDP.staged({"time": [0, 1]}, [0], ts.FiniteHorizon(2), [ts.Pay(len)]),
            "neither axis nor action can be called 'time'",
        ),
        (
            lambda: stock(ts.FiniteHorizon(2)).with_criterion(0.9),
            "must be built again for another criterion",
        ),
        (
            lambda: ts.solve(ts.benchmark("QUE-Lin"), ts.BackwardInduction()),
            "backward induction needs a finite-horizon model",
        ),
    ],
)
def test_faulty_input_is_named(make, words):
    with np.errstate(divide="ignore"), pytest.raises(ts.TessellaError, match=words):
        make()


def test_rounding_never_exceeds_the_bound_over_many_periods():
    """A sum of 400 equal rewards that floats do not hold."""
    rows = np.ones((1, 1, 1))
    mdp = ts.MDP.from_arrays(rows, np.array([[0.1]]), ts.FiniteHorizon(400))
    found = ts.solve(mdp)
    exact = [Fraction(0.1) * (400 - t) for t in range(400)]
    off = max(abs(Fraction(float(v)) - x) for v, x in zip(found.value.ravel(), exact, strict=True))
    assert 0 < off <= Fraction(found.error_bound) < Fraction(1, 10**10)


def test_what_float64_cannot_certify_is_refused_and_a_callback_is_told_of_every_period(solved):
    with pytest.raises(ts.NotConverged, match="float64 cannot certify tol=1e-30"):
        ts.solve(solved.mdp, tol=1e-30)
    assert not ts.solve(solved.mdp, ts.BackwardInduction(1e-30), partial=True).converged
    seen = []
    ts.solve(solved.mdp, callback=lambda p: seen.append(p.sweep))
    assert seen == [1, 2, 3, 4, 5, 6]


def test_backward_induction_stopped_by_a_callback_keeps_the_solved_periods_and_a_true_bound(solved):
    stopped = ts.solve(solved.mdp, callback=lambda p: p.sweep == 2)
    assert "after 2 of 6 periods, counted from the last" in stopped.reason
    assert not stopped.converged
    assert len(stopped.history) == 2
    assert np.array_equal(stopped.value[4:], solved.value[4:])
    assert np.abs(stopped.value - solved.value).max() <= stopped.error_bound < np.inf
    assert not stopped.decided.any()


def test_a_limit_of_sweeps_is_one_of_periods_from_the_last(solved):
    limited = ts.solve(solved.mdp, ts.BackwardInduction(max_sweeps=2), partial=True)
    assert "limit of 2 sweeps was reached after 2 of 6 periods" in limited.reason
    assert np.array_equal(limited.value[4:], solved.value[4:])
    assert np.abs(limited.value - solved.value).max() <= limited.error_bound < np.inf
    with pytest.raises(ts.NotConverged, match="1 of 6 periods"):
        ts.solve(solved.mdp, ts.BackwardInduction(max_sweeps=1))
    assert ts.solve(solved.mdp, ts.BackwardInduction(max_sweeps=6)).converged


@pytest.mark.parametrize("periods", [10, 80])
def test_building_and_occupancy_take_work_in_proportion_to_the_periods(monkeypatch, periods):
    calls = {"law": 0, "moves": 0}

    def law(time):
        calls["law"] += 1
        return ts.truncated_poisson(1 + time % 3, 5)

    shift = ts.Shift("stock", ts.Noise("demand", range(6), law), by=lambda demand: -demand)
    refill = ts.Decide("stock", lambda stock, order: np.minimum(stock + order, 9))
    horizon = ts.FiniteHorizon(periods, 0.9)
    mdp = ts.MDP.staged({"stock": range(10)}, (0, 3), horizon, [refill, shift], action_name="order")
    assert calls["law"] == periods
    move = PolicyRows.adjoint

    def count_move(rows, x):
        calls["moves"] += 1
        return move(rows, x)

    monkeypatch.setattr(PolicyRows, "adjoint", count_move)
    found = ts.occupancy(mdp, np.ones(mdp.grid.shape, dtype=int))
    assert calls["moves"] <= 2 * periods  # the pass, and the residual that checks it
    share = np.full(10, 0.1)
    expected = []
    for period in mdp.dynamics.periods:  # type: ignore[attr-defined]
        expected.append(share)
        share = 0.9 * (period.to_sparse()[1].T @ share)
    total = np.sum(expected)
    np.testing.assert_allclose(found.share, np.array(expected) / total, rtol=0, atol=1e-14)
    through = ts.occupancy(mdp, np.ones(mdp.grid.shape, dtype=int), plan=plan_by(mdp, "stages"))
    np.testing.assert_allclose(through.share, found.share, rtol=0, atol=1e-14)


def test_in_a_model_told_in_costs_what_is_final_is_a_cost():
    horizon = ts.FiniteHorizon(2, final=lambda x: 5.0 * x)
    stay = ts.Pay(costs=lambda x: 1.0 + 0 * x)
    staged = ts.MDP.staged({"x": [0, 1]}, ["wait"], horizon, [stay])
    assert ts.solve(staged).cost[0].tolist() == [2, 7]
    rows, costs = np.eye(2)[None], np.ones((2, 1))
    final = ts.FiniteHorizon(2, final=[0.0, 5.0])
    arrays = ts.MDP.from_arrays(rows, costs, final, minimise=True)
    later = ts.MDP.from_arrays(rows, costs, 0.5, minimise=True).with_criterion(final)
    assert staged.minimise and arrays.minimise and later.minimise  # noqa: PT018
    for mdp in (arrays, later):
        assert ts.solve(mdp).cost[0].tolist() == [2, 7]


def test_a_process_that_ends_sooner_gets_nothing_at_the_end(tmp_path):
    gym = pytest.importorskip("gymnasium")
    lake = ts.MDP.from_gymnasium(gym.make("FrozenLake-v1"), ts.FiniteHorizon(6, final=10.0))
    assert lake.start.reshape(lake.grid.shape)[0].ravel()[0] == 1
    best = ts.solve(lake)
    lake.save(tmp_path / "lake.nc")
    for mdp in (lake, ts.MDP.load(tmp_path / "lake.nc")):
        down = np.ones(mdp.grid.shape, int)  # into a hole, sooner or later
        paths = ts.simulate(mdp, down, 6, 1, paths=4000)
        assert 0 < (paths.actions[:, -1] < 0).sum() < 4000
        off = paths.returns.mean() - ts.evaluate(mdp, down).mean
        assert abs(off) <= 6 * paths.returns.std() / np.sqrt(4000)
    assert "HOLDS" in _checked(best, tmp_path)


def _checked(solution, folder) -> str:
    import contextlib
    import io

    from tessella.checker import check

    ts.certify(solution, solution.policy).save(folder / "c.json")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        check.main([str(folder / "lake.nc"), str(folder / "c.json")])
    return said.getvalue()


def test_a_chain_may_depend_on_time():
    steps = np.array([[0.75, 0.25, 0.0], [0.0, 0.5, 0.5], [0.125, 0.0, 0.875]])
    chains = np.stack([np.eye(3), steps, steps @ steps, steps.T / steps.sum(axis=0)[:, None]])

    def build():
        move = ts.Move("x", lambda time: chains[time[..., 0, 0]])
        horizon = ts.FiniteHorizon(4, 1.0, final=lambda x: 1.0 * x)
        return ts.MDP.staged({"x": range(3)}, (0, 1), horizon, [ts.Pay(lambda x: 2.0 * x), move])

    value = np.arange(3.0)
    expected = []
    for chain in reversed(chains):
        value = 2 * np.arange(3) + chain @ value
        expected.insert(0, value)
    np.testing.assert_allclose(ts.solve(build()).value, expected, rtol=0, atol=1e-13)
    mdp = build()
    found = ts.solve(mdp, plan=plan_by(mdp, "stages"))
    np.testing.assert_allclose(found.value, expected, rtol=0, atol=1e-13)


def test_a_table_of_data_may_be_indexed_by_time():
    price = np.array([3.0, 1.0, 2.0])
    pay = ts.Pay(lambda time, x: price[time] + 0 * x)
    mdp = ts.MDP.staged({"x": [0]}, ["wait"], ts.FiniteHorizon(3), [pay])
    assert ts.solve(mdp).value.ravel().tolist() == [6, 3, 2]


def test_both_ways_of_a_horizon_agree_with_its_matrices(solved):
    check_dynamics(solved.mdp.dynamics)
    program, arrays = solved.plan.backend_model.backend, solved.plan.backend_model.arrays
    assert not program.is_compiled
    rng, policy = np.random.default_rng(0), solved.policy.table
    rhs = rng.normal(size=policy.shape)
    x = program.solve_policy_system(arrays, rhs, policy, 0.5)
    left = x - 0.5 * program.policy_backup(arrays, x, policy, False)
    np.testing.assert_allclose(left, rhs, atol=1e-13)
