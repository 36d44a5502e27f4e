"""Printed, every noun says what it is in a few short lines."""

from __future__ import annotations

import numpy as np
import pytest
from support.criteria import build_ending

import tessella as ts
from tessella.rounding import round_up
from tessella.runner.record import Record
from tessella.runner.run_study import StudyResults
from tessella.tessellation import SwitchingCurves
from tessella.tessellation.tessellate import build_tessellation

POLICY = [[2, 2], [1, 1], [0, 0], [0, 0]]
SHOP = ts.Problem(
    "shop",
    "A small shop",
    lambda rent: None,  # type: ignore[arg-type,return-value]
    parameters=(ts.Number("rent", 2.0, "of a week", low=0, high=9),),
    theory=(ts.Theory("threshold in stock", "order from a level down"),),
)
STUDY = ts.Study(("QUE-Lin",), ("exact_table", "value_iteration_2"))


@pytest.fixture(scope="module")
def shop():
    """Four stocks in two seasons; demand is 0 or 1, and a season lasts."""

    def step(stock, order, demand):
        left = np.clip(stock + order - demand, 0, 3)
        return {"stock": left}, -1.0 * left - 5.0 * (stock + order < demand)

    noise = ts.Noise("demand", [0, 1], [0.5, 0.5])
    axes = {"stock": range(4), "season": range(2)}
    return ts.MDP.from_step(step, axes, (0, 1, 2), 0.5, noise, action_name="order", name="shop")


def line(n):
    """A level that falls by less than a step, on n cut points."""
    fall = ts.Decide("level", to=lambda level: np.maximum(level - 0.3, 0), between="interpolate")
    return ts.MDP.staged({"level": np.linspace(0, 2, n)}, (0, 1), 0.5, [fall])


@pytest.fixture(scope="module")
def made(shop):
    """One of each type, and certificates with every set of parts."""
    solution, policy = ts.solve(shop), shop.policy(POLICY)
    counted = shop.with_measures(orders=lambda order: order)
    limited = ts.solve(counted, subject_to={"orders": ts.AtMost(0.5)})
    t, u = ts.tessellate(solution), ts.tessellate(shop, policy)
    return [
        shop,
        shop.grid,
        solution,
        policy,
        t,
        ts.evaluate(shop, policy),
        ts.occupancy(shop, policy),
        ts.simulate(shop, policy, 5, rng=0, paths=3),
        ts.draw(solution, 6, rng=0),
        ts.measure(u),
        ts.compare(t, u),
        ts.examine(u),
        ts.switching_curves(u, "stock"),
        ts.certify(solution, policy),
        ts.certify(ts.solve(shop.with_criterion(ts.Average())), policy),
        ts.certify(ts.solve(build_ending(0)), np.zeros(5, int)),
        ts.estimate(shop, policy, rng=0, paths=10),
        ts.loss(solution, policy),
        ts.certify(ts.solve(line(3)), np.zeros(3, int), blocks=True),
        ts.scaling(lambda scale: shop, (1, 2, 3, 4), 0.1),
        ts.compress(solution, 0.1),
        ts.frontier(solution, 4),
        ts.least_size(solution, 0.1, ts.AxisTree()),
        ts.tune(solution, lambda stock, base: np.clip(base - stock, 0, 2), base=range(3)),
        ts.diff(shop, policy, solution.policy),
        limited,
        ts.AtLeast(0.5),
        ts.AtMost(0.5),
        ts.evaluate(counted, policy).measures["orders"],
        shop.criterion,
        ts.Average(),
        ts.FiniteHorizon(3),
        ts.Total(),
        ts.Clock(5.0, 0.1),
        ts.plan(shop, calibrate=False),
        ts.plan(shop, calibrate=False).cost,
        ts.refine(line, 3, levels=2),
        ts.tradeoff(counted, "reward", "orders", points=4),
        SHOP,
        StudyResults(STUDY, tuple(Record(spec, 0.25, 1.0, 0.5, 0.75) for spec in STUDY.specs)),
    ]


@pytest.fixture(scope="module")
def nouns(made):
    """One of each, by its type."""
    return {type(noun): noun for noun in reversed(made)}


def test_every_noun_reads_in_a_few_short_lines(made, nouns):
    assert (len(made), len(nouns)) == (40, 37)
    for noun in made:
        kind = type(noun)
        lines = str(noun).splitlines()
        assert len(lines) <= 12, kind
        assert max(map(len, lines)) <= 130, kind
        assert "array(" not in str(noun), kind
        assert "<" not in str(noun).replace("<=", ""), kind


def test_every_public_type_that_prints_itself_is_among_them(nouns):
    public = [getattr(ts, name) for name in ts.__all__]
    own = {
        kind
        for kind in public
        if isinstance(kind, type) and not issubclass(kind, Exception)
        if any("__str__" in vars(k) for k in kind.__mro__ if k.__module__.startswith("tessella"))
    }
    assert [kind for kind in own if not any(issubclass(noun, kind) for noun in nouns)] == []
    assert {ts.Loss, ts.Problem, ts.StudyResults} <= own


def test_a_loss_says_mean_and_worst_and_how_sure_they_are(nouns):
    found = nouns[ts.Loss]
    assert str(found) == (
        f"Loss of a policy: mean {found.by_state.mean():.6g}, worst {found.by_state.max():.6g}, "
        f"off by at most {round_up(found.error_bound, 2)}"
    )


def test_a_problem_says_what_may_be_set_and_what_theory_knows():
    assert str(SHOP).splitlines() == [
        "shop: A small shop",
        "",
        "Settings, with default and range:",
        "  rent               2.0  a number from 0 to 9    of a week",
        "  observation_noise  0.0  a number from 0 to 100  "
        "standard deviation of observed coordinates in a sample, in grid steps",
        "",
        "Theory:",
        "  threshold in stock: order from a level down",
    ]


def test_the_results_of_a_study_say_how_many_runs_finished_and_their_mean_errors(nouns):
    first, *table = str(nouns[ts.StudyResults]).splitlines()
    assert first == "Study: 2 of 2 runs finished; 1 problem, 2 methods"
    assert [line.split()[-2:] for line in table[-2:]] == [["0.25", "0.5"]] * 2


def test_an_occupancy_says_where_the_time_is_spent_and_how_sure_that_is(nouns):
    found = nouns[ts.Occupancy]
    # The largest shares are 18.75 % twice, for both seasons, and 16.67 %.
    head = "Occupancy of a policy, shop: half of the time in 3 of 8 states"
    assert str(found).splitlines()[0] == head
    top = int(found.share.argmax())
    assert (
        str(found).splitlines()[1] == f"  {found.share.max():.2%} in {found.mdp.grid.describe(top)}"
    )
    assert str(found).endswith(f"total error at most {round_up(found.error_bound, 2)}")


def test_an_evaluation_says_mean_lowest_and_highest_value_and_how_sure_they_are(nouns):
    found = nouns[ts.Evaluation]
    first, second, third = str(found).splitlines()
    assert first == f"Value of a policy, shop: mean {found.value.mean():.6g} over 8 states"
    assert f"lowest {found.value.min():.6g} at " in second
    assert f"highest {found.value.max():.6g} at " in second
    assert third.startswith(f"|V - V_pi| <= {round_up(found.error_bound, 2)}")
    assert third.endswith("converged")


def test_paths_say_how_many_and_what_they_returned(nouns):
    found = nouns[ts.Paths]
    first, second, third = str(found).splitlines()
    assert first == "Paths, shop: 3 paths of 5 periods, 0 ended early"
    assert f"mean {found.returns.mean():.6g}" in second
    assert third == f"{len(np.unique(found.states))} of 8 states visited"


def test_a_sample_says_how_many_observations_of_which_labels(nouns):
    found = nouns[ts.Sample]
    first, second = str(found).splitlines()
    assert first == f"Sample: 6 observations of {found.distinct_states} states, of 8"
    counts = [int(part.split(": ")[1]) for part in second.removeprefix("labels ").split(", ")]
    assert sum(counts) == 6


def test_a_geometry_says_the_five_diagnostics(nouns):
    assert str(nouns[ts.Geometry]) == (
        "Geometry, shop: 8 states, 3 of 3 actions in use\n"
        "cells 3, the largest with 50.0% of the states\n"
        "boundary length 0.4000, fraction 0.7500, components 1, corner index 0.0000"
    )


def test_a_certificate_says_its_title_and_the_cost(nouns):
    found = nouns[ts.Certificate]
    text = str(found)
    assert text.startswith("Certificate: shop, 8 states, 3 actions\n")
    assert "Cost: " in text
    assert text.replace("\n", "") in found.summary().replace("\n", "")
    assert "Theory" not in text


def test_an_estimate_says_that_it_is_one(nouns):
    assert str(nouns[ts.Estimate]).startswith("Simulated estimate, not a certificate: ")


def test_a_comparison_says_how_many_states_differ(nouns):
    found = nouns[ts.Comparison]
    assert str(found).startswith(f"Comparison: {found.where.sum()} of 8 states differ, ")


def test_switching_curves_print_as_a_table(nouns):
    assert str(nouns[SwitchingCurves]) == (
        "order along stock, exact\n"
        "season  order=0  order=1  order=2\n"
        "     0     2..3        1        0\n"
        "     1     2..3        1        0"
    )


def test_a_table_of_switching_curves_marks_gaps_and_stops_after_twenty_lines():
    axes = {"x": ["low", "mid", "high"], "y": range(25)}
    grid = ts.StateGrid(axes)
    table = np.zeros((3, 25), int)
    table[1, 0] = 1
    tiles = build_tessellation(grid, ("no", "yes"), "act", table.astype(np.int32), name="map")
    lines = str(ts.switching_curves(tiles, "x")).splitlines()
    assert lines[:4] == [
        "act along x, not exact",
        " y      act=no  act=yes",
        " 0  low..high*      mid",
        " 1   low..high        -",
    ]
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "... 5 more lines"
