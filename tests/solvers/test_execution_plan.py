"""An execution plan: every route leads to one answer, each choice has a reason, requests count."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.mdp import compilation
from tessella.mdp.dynamics import TileSizes
from tessella.solvers import execution_plan
from tessella.solvers.execution_plan import CHOICES, Thresholds, choose_row_layout, make_plan
from tessella.solvers.mixed_precision import make_phases
from tessella.solvers.prepared_model import PreparedModel

TILES = TileSizes(columns=64, window_bytes=16, unrolled_terms=2, interpret=True)


def shop(criterion: ts.Criterion | float = 0.9) -> ts.MDP:
    """An order, and sales that pay."""
    return ts.MDP.staged(
        {"stock": range(12)},
        (0, 2, 4),
        criterion,
        [
            ts.Decide(
                "stock",
                to=lambda stock, order: np.minimum(stock + order, 11),
                pays=lambda order: -1.0 * order - 0.5 * (order > 0),
            ),
            ts.Shift(
                "stock",
                ts.Noise("demand", range(4), [0.25, 0.375, 0.25, 0.125]),
                by=lambda demand: -demand,
                pays=lambda stock, demand: 3.0 * np.minimum(stock, demand) - 0.2 * stock,
            ),
        ],
        action_name="order",
        name="shop",
    )


def table() -> ts.MDP:
    given = shop().to_arrays()
    return ts.MDP.from_arrays(given.transition, given.reward, 0.9, name="table")


def walk() -> ts.MDP:
    """One or two steps to the end, at a cost; now and then one goes nowhere."""
    return ts.MDP.staged(
        {"place": range(12)},
        (1, 2),
        ts.Total(),
        [
            ts.Pay(lambda place, step: np.where(place == 11, 0.0, -1.0 - 0.3 * step**2)),
            ts.Jump(
                ts.Noise("slip", (0, 1), (0.75, 0.25)),
                to=lambda place, step, slip: {"place": np.minimum(place + step * (1 - slip), 11)},
            ),
        ],
        action_name="step",
        name="walk",
    )


MODELS: dict[str, Callable[[], ts.MDP]] = {
    "stages": shop,
    "table": table,
    "horizon": lambda: shop(ts.FiniteHorizon(4, 0.9)),
    "average": lambda: shop(ts.Average()),
    "total": walk,
}


ROUTES = {
    "rows": {"representation": "rows", "backend": "numpy"},
    "sparse rows": {
        "thresholds": Thresholds(dense_rows_max_entries=0, dense_solve_max_states=0),
    },
    "rows by JAX": {"representation": "rows", "backend": "jax"},
    "stages": {"representation": "stages", "evaluation_precision": "double"},
    "single": {"evaluation_precision": "single"},
    "coarse rows": {"preconditioner": "coarse"},
    "coarse stages": {"preconditioner": "coarse", "representation": "stages"},
    "as large": {"representation": "stages", "thresholds": Thresholds(large_min_states=1)},
    "period by period": {
        "representation": "stages",
        "thresholds": Thresholds(vectorised_max_states=0),
    },
    "another method": {"method": ts.ValueIteration(1e-8)},
}
ACCEPTED = {
    "stages": [
        "rows",
        "sparse rows",
        "rows by JAX",
        "stages",
        "single",
        "coarse stages",
        "as large",
        "another method",
    ],
    "table": ["rows", "sparse rows", "rows by JAX", "single", "another method"],
    "horizon": ["rows", "sparse rows", "rows by JAX", "stages", "single", "period by period"],
    "average": [
        "rows",
        "rows by JAX",
        "stages",
        "single",
        "coarse rows",
        "coarse stages",
        "as large",
    ],
    "total": ["rows", "sparse rows", "rows by JAX", "stages", "single", "another method"],
}
CERTIFIED = "rows", "sparse rows", "stages"  # others go through the same compiled evaluation
CASES = [(name, route) for name, routes in ACCEPTED.items() for route in routes]


@pytest.mark.parametrize(("name", "route"), CASES)
def test_every_route_leads_to_one_answer_within_both_bounds(name, route):
    mdp = MODELS[name]()
    plan = make_plan(mdp, **ROUTES[route])
    found, usual = ts.solve(mdp, plan=plan), ts.solve(mdp)
    assert found.plan is plan
    assert_near(found, usual)
    sure = found.decided & usual.decided
    np.testing.assert_array_equal(found.policy.table[sure], usual.policy.table[sure])
    policy = np.zeros(mdp.grid.shape, dtype=int)
    policy.flat[::3] = 1
    assert_near(ts.evaluate(mdp, policy, plan=plan), ts.evaluate(mdp, policy))
    if route in CERTIFIED:
        again, loss = ts.certify(found, policy), ts.certify(usual, policy)
        kind = "mean_loss" if name == "average" else "worst_loss"
        assert_overlap(getattr(again, kind), getattr(loss, kind))
    if name != "total":
        assert_same_shares(mdp, policy, plan)


def test_each_alternative_of_a_choice_is_among_the_routes_or_tested_on_its_own():
    values = {value for name, route in CASES for value in _values(name, route)}
    rules_and_certificates = {"dense", "iterative", "whole", "blocks"}
    assert values >= {v for named in CHOICES.values() for v in named} - rules_and_certificates


def _values(name: str, route: str) -> set[str]:
    plan = make_plan(MODELS[name](), **ROUTES[route])
    return {getattr(plan, choice) for choice in CHOICES}


def assert_near(found, expected) -> None:
    """Two results with their bounds: of values, or of gains."""
    bound = found.error_bound + expected.error_bound
    if expected.gain is not None:
        assert abs(found.gain - expected.gain) <= bound
    else:
        assert np.abs(found.value - expected.value).max() <= bound
    assert bound < 1e-6


def assert_overlap(found, expected) -> None:
    """Two enclosures of one number."""
    assert max(found.lower, expected.lower) <= min(found.upper, expected.upper)
    assert found.upper - found.lower < 1e-5


def assert_same_shares(mdp: ts.MDP, policy: np.ndarray, plan: ts.ExecutionPlan) -> None:
    found = ts.occupancy(mdp, policy, plan=plan)
    usual = ts.occupancy(mdp, policy)
    assert np.abs(found.share - usual.share).sum() <= found.error_bound + usual.error_bound
    assert found.error_bound < 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_each_choice_has_a_reason_and_a_plan_prints_it(name):
    plan = make_plan(MODELS[name]())
    text = str(plan)
    printed = ["representation", "backend", "method", "evaluation_precision"]
    printed += ["preconditioner", "tiles", "devices", "certificate_route", "rule_evaluation"]
    assert list(plan.reasons) == printed
    for choice, reason in plan.reasons.items():
        (line,) = (line for line in text.splitlines() if line.split()[0] == choice)
        assert reason
        assert reason in line
    assert text.startswith(plan.mdp.name)
    for choice in CHOICES:
        assert getattr(plan, choice) in text
    assert plan.method.name in text


def test_what_was_asked_for_is_its_reason():
    requests = {"representation": "stages", "rule_evaluation": "iterative"}
    plan = make_plan(shop(), ts.ValueIteration(1e-3), **requests)
    asked = [name for name, reason in plan.reasons.items() if reason == "requested"]
    assert asked == ["representation", "method", "rule_evaluation"]
    assert plan.using(method=None).reasons["method"] != "requested"


@pytest.mark.parametrize(
    ("request_", "followed"),
    [
        ({"backend": "jax"}, "JAX follows stages"),
        ({"evaluation_precision": "single"}, "single precision"),
        ({"tiles": TILES}, "kernels"),
        ({"method": ts.MixedPrecision()}, "MixedPrecision is compiled"),
    ],
    ids=str,
)
def test_what_must_be_compiled_goes_through_stages_and_says_why(request_, followed):
    plan = make_plan(shop(), **request_)
    assert (plan.representation, plan.backend) == ("stages", "jax")
    assert followed in plan.reasons["representation"]


def test_numpy_of_a_model_that_is_large_asks_for_rows():
    mdp = shop()
    large = Thresholds(rows_max_entries=0)
    assert make_plan(mdp, thresholds=large).representation == "stages"
    plan = make_plan(mdp, thresholds=large, backend="numpy")
    assert plan.representation == "rows"
    assert not plan.backend_model.backend.is_compiled


def test_a_solution_has_the_plan_that_was_executed():
    mdp = shop()
    assert ts.solve(mdp).plan.representation == "rows"
    plan = ts.plan(mdp, tol=1e-4, calibrate=False).using(representation="stages")
    found = ts.solve(mdp, plan=plan)
    assert found.plan is plan
    assert found.error_bound <= 1e-4
    assert found.method == plan.method.name
    by_method = ts.solve(mdp, ts.ValueIteration(1e-3))
    assert by_method.plan.method == ts.ValueIteration(1e-3)
    assert by_method.policy_plan.method != ts.ValueIteration(1e-3)


def test_a_solution_of_a_file_gets_the_plan_of_its_model(tmp_path):
    mdp = shop()
    ts.solve(mdp).save(tmp_path / "s.nc")
    again = ts.Solution.load(tmp_path / "s.nc", mdp)
    assert again.plan is None
    assert again.policy_plan.representation == "rows"


def test_a_plan_of_the_same_model_under_another_name_serves_and_keeps_the_name():
    plan = make_plan(shop())
    other = ts.MDP.staged({"x": range(3)}, (0,), 0.9, [ts.Pay(lambda x: 1.0 * x)], name="first")
    same = ts.MDP.staged({"x": range(3)}, (0,), 0.9, [ts.Pay(lambda x: 1.0 * x)], name="second")
    assert other.fingerprint == same.fingerprint
    assert ts.solve(same, plan=make_plan(other)).mdp.name == "second"
    with pytest.raises(ts.ArgumentError, match="the model that it was made for"):
        ts.solve(same, plan=plan)


def test_certify_and_compress_follow_the_plan_of_the_solution():
    """With rows nothing is compiled, with stages all of it is."""

    def compiled_by(representation: str) -> int:
        mdp = ts.inventory(max_stock=13, max_regime=3, max_demand=7)
        before = compilation.COMPILATION_CACHE.n_compiled
        solution = ts.solve(mdp, plan=plan_by(mdp, representation))
        after_solve = compilation.COMPILATION_CACHE.n_compiled
        assert (after_solve > before) is (representation == "stages")
        ts.certify(solution, np.zeros(mdp.grid.shape, int), start="stationary")
        ts.loss(solution, np.zeros(mdp.grid.shape, int))
        ts.compress(solution, loss=0.1)
        assert solution.q.shape == (*mdp.grid.shape, mdp.n_actions)
        return compilation.COMPILATION_CACHE.n_compiled - after_solve

    assert compiled_by("rows") == 0
    assert compiled_by("stages") > 2


def test_a_certificate_in_blocks_encloses_the_same_losses():
    mdp = shop()
    solution = ts.solve(mdp, plan=make_plan(mdp, certificate_route="blocks"))
    assert solution.policy_plan.certificate_route == "blocks"
    policy = np.ones(12, int)
    blocks = ts.certify(solution, policy)
    whole = ts.certify(solution, policy, blocks=False)
    assert blocks.values is None
    assert whole.losses is not None
    assert_overlap(blocks.mean_loss, whole.mean_loss)
    assert_overlap(blocks.worst_loss, whole.worst_loss)


def test_rules_are_evaluated_on_dense_rows_or_by_loops_with_one_result():
    mdp = shop()
    found = [
        ts.compress(ts.solve(mdp, plan=make_plan(mdp, rule_evaluation=route)), loss=0.05)
        for route in ("dense", "iterative")
    ]
    assert [rule.size for rule in found] == [found[0].size] * 2
    assert all(rule.certificate.relative_loss.upper <= 0.05 for rule in found)


def test_policies_are_evaluated_on_one_device_by_a_method_of_their_own():
    mdp = shop()
    plan = make_plan(mdp, ts.InPlace(1e-6))
    assert plan.representation == "stages"
    found = ts.solve(mdp, plan=plan)
    policy_plan = found.policy_plan
    assert (policy_plan.representation, policy_plan.devices) == ("rows", ())
    assert ts.certify(found, found).worst_loss.upper < 1e-4


@pytest.mark.parametrize(
    ("model", "request_", "words"),
    [
        (shop, {"route": "rows"}, "a plan has the choices representation, .*; got 'route'"),
        (shop, {"representation": "matrix"}, "must be 'rows' or 'stages'; got 'matrix'"),
        (shop, {"tiles": 64}, "tiles must be TileSizes, or None; got 64"),
        (shop, {"thresholds": 64}, "thresholds must be Thresholds; got 64"),
        (shop, {"method": "sweeps"}, "method must be a method object .*; got 'sweeps'"),
        (shop, {"method": ts.ValueIteration(), "tol": 1e-3}, "tol is set in the method"),
        (shop, {"tol": -1.0}, "tol must be a positive number, or None; got -1.0"),
        (shop, {"devices": 0}, "devices must be a whole number, at least 1; got 0"),
        (table, {"representation": "stages"}, "rows, no stages; got representation='stages'"),
        (table, {"tiles": TILES}, "rows, no stages; got tiles"),
        (table, {"certificate_route": "blocks"}, "models of stages with disc.*; got tabular"),
        (
            shop,
            {"representation": "stages", "backend": "numpy"},
            "stages are compiled by JAX; got backend='numpy'",
        ),
        (
            shop,
            {"evaluation_precision": "single", "backend": "numpy"},
            "in single precision are compiled; got backend='numpy'",
        ),
        (
            shop,
            {"method": ts.MixedPrecision(), "backend": "numpy"},
            "MixedPrecision is compiled; got backend='numpy'",
        ),
        (
            shop,
            {"method": ts.InPlace(1e-3), "representation": "rows"},
            "InPlace follows stages; got representation='rows'",
        ),
        (walk, {"preconditioner": "coarse"}, "discounted rewards and averages; got total"),
        (
            walk,
            {"certificate_route": "blocks"},
            "models of stages with discounted rewards; got total",
        ),
    ],
)
def test_requests_that_no_plan_can_meet_are_refused_with_what_was_given(model, request_, words):
    with pytest.raises(ts.ArgumentError, match=words):
        make_plan(model(), **request_)
    with pytest.raises(ts.ArgumentError, match=words):
        make_plan(model()).using(**request_)


def test_a_plan_of_another_model_and_words_next_to_a_plan_are_refused():
    mdp = shop()
    plan = make_plan(table())
    for work in (
        lambda: ts.solve(mdp, plan=plan),
        lambda: ts.evaluate(mdp, np.zeros(12, int), plan=plan),
        lambda: ts.occupancy(mdp, np.zeros(12, int), plan=plan),
    ):
        with pytest.raises(
            ts.ArgumentError, match=r"tessella\.plan\(mdp\); got one for table of 12"
        ):
            work()
    with pytest.raises(ts.ArgumentError, match=r"what tessella\.plan returns; got 'rows'"):
        ts.solve(mdp, plan="rows")  # type: ignore[arg-type]
    own = make_plan(mdp)
    with pytest.raises(ts.ArgumentError, match=r"plan\.using\(\.\.\.\); got plan and method"):
        ts.solve(mdp, ts.ValueIteration(), plan=own)
    with pytest.raises(ts.ArgumentError, match="got plan and tol and devices"):
        ts.solve(mdp, tol=1e-3, devices=1, plan=own)


def at_the_limit(name: str) -> tuple[ts.MDP, dict, int]:
    """A model, requests, and the number at which a threshold is just met."""
    mdp = shop()
    dynamics = mdp.dynamics
    numbers = {
        "rows_max_entries": dynamics.max_row_entries,
        "large_min_states": mdp.n_states - 1,
        "dense_rules_max_states": mdp.n_states,
        "dense_rules_max_entries": mdp.n_states**2 * mdp.n_actions,
    }
    by_stages = {"representation": "stages"}
    requests = {"large_min_states": by_stages}
    return mdp, requests.get(name, {}), numbers[name]


@pytest.mark.parametrize(
    ("name", "choice", "values", "step"),
    [
        ("rows_max_entries", "representation", ("rows", "stages"), -1),
        ("large_min_states", "evaluation_precision", ("single", "double"), 1),
        ("large_min_states", "preconditioner", ("coarse", "none"), 1),
        (
            "large_min_states",
            "method",
            (ts.MixedPrecision(), ts.InexactPolicyIteration(forcing=1e-2)),
            1,
        ),
        ("dense_rules_max_states", "rule_evaluation", ("dense", "iterative"), -1),
        ("dense_rules_max_entries", "rule_evaluation", ("dense", "iterative"), -1),
    ],
)
def test_a_threshold_decides_at_its_value(name, choice, values, step):
    mdp, requests, number = at_the_limit(name)
    met, other = values
    # Past the estimate of its entries too, so that the count from above decides.
    limits = {"row_min_entries": mdp.n_states} if name == "rows_max_entries" else {}
    at = make_plan(mdp, thresholds=Thresholds(**limits, **{name: number}), **requests)
    past = make_plan(mdp, thresholds=Thresholds(**limits, **{name: number + step}), **requests)
    assert getattr(at, choice) == met
    assert getattr(past, choice) != met
    if other is not None:
        assert getattr(past, choice) == other


def test_what_a_sweep_over_all_actions_costs_is_a_threshold_as_well():
    mdp = shop()
    dynamics = mdp.dynamics

    def planned(**limits) -> ts.ExecutionPlan:
        given = {"large_min_states": 1} | limits
        return make_plan(mdp, representation="stages", thresholds=Thresholds(**given))

    ratio = -(-dynamics.sweep_products // dynamics.policy_sweep_products)
    assert planned(mixed_max_sweep_ratio=ratio).method == ts.MixedPrecision()
    assert planned(mixed_max_sweep_ratio=ratio - 1).method != ts.MixedPrecision()
    assert planned(coarse_max_states=mdp.n_states).preconditioner == "coarse"
    assert planned(coarse_max_states=mdp.n_states - 1).preconditioner == "none"


@pytest.mark.parametrize(("discount", "kept"), [(0.95, "rows"), (0.99, "stages")])
def test_large_models_at_discounts_near_1_stay_stages(discount, kept):
    mdp = shop(ts.Discounted(discount))
    large = Thresholds(large_min_states=mdp.n_states - 1)
    assert make_plan(mdp, thresholds=large).representation == kept
    assert make_plan(mdp).representation == "rows"  # a small model
    few = Thresholds(large_min_states=mdp.n_states - 1, many_periods=1.0)
    assert make_plan(mdp, thresholds=few).representation == "stages"


def test_thresholds_of_averages_and_horizons():
    average = shop(ts.Average())
    n = average.n_states
    assert make_plan(average, thresholds=Thresholds(large_min_states=n)).preconditioner == "none"
    large = make_plan(average, thresholds=Thresholds(large_min_states=n - 1))
    assert large.preconditioner == "coarse"
    assert large.method == ts.InexactPolicyIteration(forcing=1e-1)
    horizon = shop(ts.FiniteHorizon(4, 0.9))
    (period,) = horizon.dynamics.distinct_periods
    states = period.space.grid.size
    dense = min(states**2 * 3, Thresholds().dense_rows_max_entries)
    entries = max(period.max_row_entries, dense)

    def chosen(limit: int) -> str:
        limits = Thresholds(period_rows_max_entries=limit)
        return make_plan(horizon, thresholds=limits).representation

    assert chosen(entries) == "rows"
    assert chosen(entries - 1) == "stages"


def test_rows_are_laid_out_by_thresholds():
    given = ts.benchmark("INV-Mix").dynamics.as_rows()
    rows, n_pairs = given.rows, given.row_of.size
    cells = rows.shape[0] * rows.shape[1]
    length = rows.nnz / rows.shape[0]

    def layout(**limits):
        return choose_row_layout(Thresholds(**limits), rows, n_pairs)

    assert layout(dense_rows_max_entries=cells).dense
    assert not layout(dense_rows_max_entries=cells - 1).dense
    long = {"dense_rows_max_entries": 0}
    assert layout(**long, long_row_entries=int(length)).has_long_rows
    assert not layout(**long, long_row_entries=int(length) + 1).has_long_rows
    assert not layout(dense_rows_max_entries=cells, long_row_entries=1).has_long_rows
    assert layout(all_actions_max_pairs=n_pairs).sweeps_are_cheap
    assert not layout(all_actions_max_pairs=n_pairs - 1).sweeps_are_cheap
    cheap = {"short_row_entries": 0}
    assert layout(**cheap, cheap_sweep_max_entries=rows.nnz).sweeps_are_cheap
    assert not layout(**cheap, cheap_sweep_max_entries=rows.nnz - 1).sweeps_are_cheap
    assert layout(dense_solve_max_states=5).dense_solve_max_states == 5


def test_an_accelerator_runs_large_tables_and_cuts_large_grids(monkeypatch):
    """What a plan would choose there; nothing is computed."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    mdp = table()
    entries = mdp.dynamics.rows.nnz

    def backend(limit: int, mdp: ts.MDP = mdp, **requests) -> str:
        limits = Thresholds(accelerator_min_entries=limit)
        return make_plan(mdp, thresholds=limits, **requests).backend

    assert backend(entries - 1) == "jax"
    assert backend(entries) == "numpy"
    staged = shop()
    made = staged.dynamics.as_rows().rows.nnz
    assert backend(made - 1, staged) == "jax", "as rows, which a GPU multiplies"
    assert backend(made, staged) == "numpy"
    limits = Thresholds(accelerator_min_states=1)
    assert make_plan(staged, representation="stages", thresholds=limits).tiles is None, "short"
    wide = ts.inventory(max_stock=9, max_regime=79, max_demand=5)
    tiled = make_plan(wide, representation="stages", thresholds=limits)
    assert tiled.tiles == TileSizes()
    assert "on an accelerator" in tiled.reasons["tiles"]
    assert make_plan(wide, representation="rows", thresholds=limits).tiles is None
    one_more = Thresholds(accelerator_min_states=wide.n_states + 1)
    assert make_plan(wide, representation="stages", thresholds=one_more).tiles is None


def test_a_choice_of_rows_is_made_once_for_each_thresholds(monkeypatch):
    mdp = shop()
    make_plan(mdp)
    monkeypatch.setattr(execution_plan, "_choose_representation", None)  # it would fail when called
    assert make_plan(mdp).representation == "rows"
    assert ts.evaluate(mdp, np.zeros(12, int)).converged


def test_a_new_method_replaces_the_tolerance_and_none_withdraws_a_request():
    mdp = shop()
    plan = ts.plan(mdp, tol=1e-6, calibrate=False)
    assert plan.using(method=ts.ValueIteration(1e-3)).method == ts.ValueIteration(1e-3)
    again = plan.using(method=ts.ValueIteration(1e-3)).using(tol=1e-4)
    assert again.method.tol == 1e-4
    by_stages = plan.using(representation="stages")
    assert by_stages.using(representation=None).representation == "rows"


def test_methods_of_one_device_refuse_several():
    with pytest.raises(ts.ArgumentError, match="InPlace runs on one device; got devices=2"):
        make_plan(shop(), ts.InPlace(1e-6), devices=2)


def test_a_plan_given_as_the_method_is_answered_with_the_keyword():
    mdp = shop()
    with pytest.raises(ts.ArgumentError, match="a plan is plan="):
        ts.solve(mdp, make_plan(mdp))  # type: ignore[arg-type]


@pytest.mark.parametrize("criterion", [ts.Discounted(0.99), ts.Average()], ids=str)
def test_double_precision_is_kept_to_where_it_is_asked_for(criterion):
    mdp = ts.inventory(max_stock=9, max_regime=4).with_criterion(criterion)
    asked = {"representation": "stages", "thresholds": Thresholds(large_min_states=1)}
    usual = PreparedModel(make_plan(mdp, **asked))
    assert isinstance(make_phases(usual, usual.plan.method)[0].method, ts.MixedPrecision)
    prepared = PreparedModel(make_plan(mdp, **asked, evaluation_precision="double"))
    phases = make_phases(prepared, prepared.plan.method)
    assert not any(phase.method.uses_single_precision for phase in phases)
    assert isinstance(phases[-1].method, ts.InexactPolicyIteration)
