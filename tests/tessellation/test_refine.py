"""A refinement says how value and boundary move as cut points double."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessella as ts


def decaying(n, reward, actions=(0.9,)):
    """x shrinks by a factor; between cut points it is interpolated."""
    step = ts.Decide("x", lambda x, action: action * x, pays=reward, between="interpolate")
    return ts.MDP.staged({"x": np.linspace(0, 2, n)}, actions, 0.9, [step])


def test_a_quadratic_value_moves_a_quarter_as_much_each_time_the_cut_points_double():
    """V = x^2 / (1 - 0.9 * 0.81) of the continuous model; the error falls with the square."""
    report = ts.refine(lambda n: decaying(n, lambda x: x**2), 9, levels=4)
    assert report.cuts == (9, 17, 33, 65)
    assert [s.mdp.n_states for s in report.solutions] == [9, 17, 33, 65]
    first, second, third = report.value_changes
    assert first / second == pytest.approx(4, rel=0.1)
    assert second / third == pytest.approx(4, rel=0.1)
    fine = report.solutions[-1]
    truth = fine.mdp.grid.values[0] ** 2 / (1 - 0.9 * 0.81)
    off = np.abs(fine.value - truth).max()
    assert off == pytest.approx(third / 3, rel=0.1)  # the rest of a geometric series


def test_a_linear_value_does_not_move():
    report = ts.refine(lambda n: decaying(n, lambda x: 3 * x + 1), 3)
    assert max(report.value_changes) < 1e-10
    assert report.policy_changes == (0.0, 0.0)


def test_actions_and_geometry_are_compared_at_the_points_that_both_have():
    def build(n):
        return decaying(n, lambda x, action: -np.abs(x - 0.7) * (action > 0.5), (0.3, 0.8))

    report = ts.refine(build, 5)
    for coarse, fine, share in zip(
        report.solutions, report.solutions[1:], report.policy_changes, strict=False
    ):
        assert share == np.mean(fine.policy.table[::2] != coarse.policy.table)
    measured = [ts.measure(ts.tessellate(s)).boundary_fraction for s in report.solutions]
    assert [g.boundary_fraction for g in report.geometries] == measured
    lines = str(report).splitlines()
    head = r"cut points +states +value moves by +actions change +boundary +cells"
    assert re.fullmatch(head, lines[0])
    assert [line.split()[:2] for line in lines[1:4]] == [["5", "5"], ["9", "9"], ["17", "17"]]
    assert lines[4] == "changes from one to the next, not a bound on what remains"


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (lambda n: decaying(n, None), {"cuts": 1}, "refine needs at least 2 cut points; got 1"),
        (lambda n: decaying(n, None), {"levels": 1}, "refine needs at least 2 levels; got 1"),
        (lambda n: n, {}, "refine needs an MDP; got an int"),
        (
            lambda n: decaying(n + 1, None),
            {},
            r"must keep the points of the one before; x=0.4 is missing \(4 of 6 points\)",
        ),
        (
            lambda n: decaying(n, None, (0.9,) if n < 6 else (0.8,)),
            {},
            "must keep the axes and actions",
        ),
    ],
)
def test_models_that_cannot_be_compared_are_refused(build, options, message):
    with pytest.raises(ts.ArgumentError, match=message):
        ts.refine(build, **{"cuts": 5} | options)
