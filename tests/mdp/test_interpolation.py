"""Interpolation between grid points, against SciPy's, fractions and linear values."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator
from support.models import Exact

import tessella as ts
from tessella.mdp.compilation import in_float64

X = np.array([0.0, 0.7, 1.0, 2.5, 4.0])
Y = np.array([3.0, 1.5, 1.0, -1.0])  # falling
GRID = {"x": X, "kind": ["a", "b"], "y": Y}
INFLOW = ts.Noise("w", [-1.3, 0.0, 0.45], lambda y: np.array([0.2, 0.3, 0.5]) + 0.0 * y)
OPTIONS = {"between": "interpolate", "edge": "clip"}


def turned(x, y, w, action):
    return {"x": 0.9 * x + 0.2 * y + 0.1 * action, "y": y - 0.3 * w + 0.05 * x * action}


STAGES = {
    "Decide": ts.Decide("x", lambda x, y, action: 0.8 * x + 0.1 * y + 0.33 * action, **OPTIONS),
    "Shift": ts.Shift("x", INFLOW, lambda w, action: w * (1 + 0.4 * action), **OPTIONS),
    "Jump": ts.Jump(INFLOW, turned, **OPTIONS),
    "Jump of one axis": ts.Jump(INFLOW, lambda x, y, w: {"x": x + w * y}, **OPTIONS),
}


def landings(kind, x, y, action):
    """Probabilities and coordinates reached from one state, as the story says."""
    for w, p in zip(INFLOW.values, (0.2, 0.3, 0.5), strict=True):
        to = {
            "Decide": (0.8 * x + 0.1 * y + 0.33 * action, y),
            "Shift": (x + w * (1 + 0.4 * action), y),
            "Jump": tuple(turned(x, y, w, action).values()),
            "Jump of one axis": (x + w * y, y),
        }[kind]
        yield p, np.clip(to, [X.min(), Y.min()], [X.max(), Y.max()])


def model(stages, actions=(0, 1, 2), grid=GRID, discount=0.9, **options):
    return ts.MDP.staged(grid, actions, discount, stages, **options)


def expectations(mdp, w):
    """(A, *grid) E[w] by the compiled pass and by the sparse rows, which must agree."""
    sparse = np.stack([(P @ w.ravel()).reshape(w.shape) for P in mdp.to_sparse().transition])
    lowered = mdp.dynamics.compile()

    @in_float64
    def compiled(action):
        program, arrays = lowered.backend, lowered.arrays
        tail = program.shared_backup(arrays, w, False)
        return np.asarray(program.action_backup(arrays, tail, action, False))

    both = np.stack([compiled(a) for a in range(mdp.n_actions)])
    np.testing.assert_allclose(both, sparse, atol=1e-12)
    return both


@pytest.mark.parametrize("kind", STAGES)
def test_expectations_are_those_of_scipys_interpolation(kind):
    w = np.random.default_rng(0).normal(size=(5, 2, 4))
    found = expectations(model([STAGES[kind]]), w)
    for k in range(2):
        surface = RegularGridInterpolator((X, Y[::-1]), w[:, k, ::-1])
        for (i, x), (j, y), a in itertools.product(enumerate(X), enumerate(Y), range(3)):
            expected = sum(p * float(surface(to)[0]) for p, to in landings(kind, x, y, a))
            assert found[a, i, k, j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", STAGES)
def test_values_that_are_linear_along_each_axis_are_met_exactly(kind):
    x, y = X[:, None, None], Y[None, None, :]
    w = (1 + 2 * x - 3 * y + 0.5 * x * y) * np.ones((1, 2, 1))
    found = expectations(model([STAGES[kind]]), w)
    for (i, x0), (j, y0), a in itertools.product(enumerate(X), enumerate(Y), range(3)):
        expected = sum(
            p * (1 + 2 * u - 3 * v + 0.5 * u * v) for p, (u, v) in landings(kind, x0, y0, a)
        )
        np.testing.assert_allclose(found[a, i, :, j], expected, atol=1e-13)


@pytest.mark.parametrize("kind", STAGES)
def test_rows_stay_stochastic_and_their_mass_is_accounted_for(kind):
    mdp = model([STAGES[kind]])
    for P in mdp.to_sparse().transition:
        sums = [sum(map(Fraction, row.tolist())) for row in P.toarray()]
        mass = mdp.dynamics.row_sums
        # Corners that coincide are added up in the matrix, which rounds once more.
        slack = 1e-15
        assert all(1 - mass.deficit - slack <= s <= 1 + mass.excess + slack for s in sums)
        assert mass.deviation < 1e-15
        assert P.data.min() >= 0


@pytest.mark.parametrize("kind", STAGES)
def test_walkers_go_where_the_rows_lead_and_are_paid_on_the_noise_they_drew(kind):
    stage = STAGES[kind]
    if kind != "Decide":
        stage = type(stage)(**vars(stage) | {"pays": lambda w: 10 * w})
    mdp = model([stage])
    states = np.repeat(np.arange(mdp.n_states), 300)
    steps = mdp.dynamics.step(states, np.ones_like(states), np.random.default_rng(1))
    P = mdp.to_arrays().transition[1]
    assert (P[states, steps.next_states] > 0).all()
    share = np.zeros_like(P)
    np.add.at(share, (states, steps.next_states), 1 / 300)
    assert np.abs(share - P).max() < 0.16  # more than five standard deviations
    if kind != "Decide":
        assert np.isin(steps.rewards, [-13.0, 0.0, 4.5]).all()
        drawn = [np.mean(steps.rewards == r) for r in (-13.0, 0.0, 4.5)]
        np.testing.assert_allclose(drawn, (0.2, 0.3, 0.5), atol=0.03)


def exactly(cuts, x):
    """Position to weight of a number among rising cut points, in fractions."""
    x = min(max(x, cuts[0]), cuts[-1])
    for i, (u, v) in enumerate(itertools.pairwise(cuts)):
        if u <= x <= v:
            return {i: (v - x) / (v - u), i + 1: (x - u) / (v - u)}
    raise AssertionError


@pytest.mark.parametrize("seed", range(20))
def test_bounds_enclose_the_optimum_of_the_exactly_interpolated_model(seed):
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.random(5)) * 10
    to = rng.uniform(cuts[0] - 1, cuts[-1] + 1, size=(5, 2))
    paid = rng.normal(size=(5, 2))

    def look_up(table):
        return lambda x, action: table[np.searchsorted(cuts, x), action]

    noise = ts.Noise("w", [-1.7, 2.2], [0.25, 0.75])
    mdp = model(
        [
            ts.Decide("x", look_up(to), pays=look_up(paid), **OPTIONS),
            ts.Shift("x", noise, pays=lambda x: 0.1 * x, **OPTIONS),
        ],
        actions=(0, 1),
        grid={"x": cuts},
        discount=0.96875,
    )
    points = [Fraction(c) for c in cuts.tolist()]
    P = np.full((2, 5, 5), Fraction(0))
    r = np.full((5, 2), Fraction(0))
    for s, a in itertools.product(range(5), range(2)):
        r[s, a] = Fraction(paid[s, a])
        for i, p in exactly(points, Fraction(to[s, a])).items():
            r[s, a] += p * Fraction(0.1 * cuts[i])
            for q, w in ((Fraction(1, 4), -1.7), (Fraction(3, 4), 2.2)):
                for j, p2 in exactly(points, Fraction(cuts[i] + w)).items():
                    P[a, s, j] += p * q * p2
    exact = Exact(P, r, 0.96875, np.ones((5, 2), bool))
    solution = ts.solve(mdp)
    best = exact.solve()
    error = max(abs(Fraction(v) - e) for v, e in zip(solution.value.tolist(), best, strict=True))
    assert error <= solution.error_bound < 1e-10


def weighed(cuts, x):
    """The weights below and above of a number among rising or falling cut points."""
    for u, v in itertools.pairwise(map(Fraction, sorted(cuts.tolist()))):
        if u <= x <= v:
            return [(v - x) / (v - u), (x - u) / (v - u)]
    raise AssertionError


@pytest.mark.parametrize("axes", ["x", "xy"])
def test_stored_probabilities_are_off_by_no_more_than_is_said(axes):
    noise, chances, cuts = [0.1, 0.7], [0.3, 0.7], {"x": X, "y": Y}

    def to(x, y, w):
        moved = {"x": 0.77 * x + w / 3, "y": 0.9 * y + w / 11}
        return {name: moved[name] for name in axes}

    mdp = model([ts.Jump(ts.Noise("w", noise, chances), to, between="interpolate")])
    (stage,) = mdp.dynamics.stages
    outcomes, worst = [p for _, p in stage.operation.outcomes(0)], Fraction(0)
    for (i, x), (j, y) in itertools.product(enumerate(X), enumerate(Y)):
        exact = []
        for w, p in zip(noise, chances, strict=True):
            reached = to(x, y, w)
            weights = [weighed(cuts[n], Fraction(float(reached[n]))) for n in axes]
            for corner in itertools.product(*weights):
                exact.append(np.prod(corner) * Fraction(p))
        stored = [Fraction(float(p[i, 0, j])) for p in outcomes]
        assert len(stored) == len(exact)
        for found, meant in zip(stored, exact, strict=True):
            assert abs(found - meant) <= Fraction(mdp.dynamics.rounding.in_memory.row_error) * meant
            worst = max(worst, abs(found - meant))
    assert 0 < mdp.dynamics.rounding.in_memory.row_error < 1e-14
    assert worst > 0
    assert mdp.dynamics.rounding.in_file.row_error > mdp.dynamics.rounding.in_memory.row_error


def test_landing_on_cut_points_is_the_plain_stage():
    by = ts.Noise("w", [-1, 0, 2], [0.2, 0.3, 0.5])
    grid = {"x": np.linspace(0, 0.7, 8)}
    plain, between = (
        model([ts.Shift("x", by, lambda w: 0.1 * w, "clip", None, how)], (0,), grid)
        for how in ("error", "interpolate")
    )
    np.testing.assert_allclose(plain.to_arrays().transition, between.to_arrays().transition)
    on = model([ts.Decide("x", lambda x: 0.7 - x, between="interpolate")], (0,), grid)
    assert not on.dynamics.is_interpolated
    assert sorted(set(on.to_arrays().transition.ravel())) == [0.0, 1.0]


def test_an_edge_that_clips_works_without_interpolation_too():
    grid, noise = {"x": range(4)}, ts.Noise("w", [2], [1.0])
    decide = ts.Decide("x", lambda x: x + 2, edge="clip")
    jump = ts.Jump(noise, lambda x, w: {"x": x + w}, edge="clip")
    for stage in (decide, jump):
        P = model([stage], (0,), grid).to_arrays().transition[0]
        assert P.argmax(axis=1).tolist() == [2, 3, 3, 3]


def test_a_model_and_its_solution_say_that_they_are_interpolated(tmp_path):
    mdp = model([STAGES["Jump"], ts.Pay(lambda x: x)])
    assert repr(mdp).endswith("discount 0.9, staged, interpolated)")
    solution = ts.solve(mdp)
    assert " of the interpolated model, " in repr(solution)
    mdp.save(tmp_path / "model.nc")
    again = ts.solve(ts.MDP.load(tmp_path / "model.nc"))
    np.testing.assert_allclose(again.value, solution.value, atol=1e-10)
    assert ts.certify(solution, solution).worst_loss.upper < 1e-9


def test_a_single_cut_point_takes_everything():
    mdp = model([ts.Decide("x", lambda x: x + 1, **OPTIONS)], (0,), {"x": [2.0]})
    assert mdp.to_arrays().transition.tolist() == [[[1.0]]]


CUTS = {"x": [0.0, 0.5, 2.0]}
ONE = ts.Noise("w", [0.3], [1.0])


@pytest.mark.parametrize(
    ("grid", "stage", "message"),
    [
        (
            {"x": [0.0, 2.0, 0.5]},
            ts.Decide("x", lambda x: x, between="interpolate"),
            r"deciding x: grid points must be in ascending or descending order; "
            r"x=0.5 follows 2 \(1 of 2 steps\)",
        ),
        (
            CUTS,
            ts.Decide("x", lambda x: x + 0.1, between="interpolate"),
            r"deciding x leaves the axis: x must stay within 0..2; x=2 goes to x=2.1 "
            r"\(1 of 3 cases\)",
        ),
        (
            CUTS,
            ts.Shift("x", ONE, edge="error", between="interpolate"),
            r"the shift of x by w leaves the axis: .*; x=2 goes to x=2.3 \(1 of 3 cases\)",
        ),
        (
            CUTS,
            ts.Jump(ONE, lambda x, w: {"x": x - w}, between="interpolate"),
            r"the jump on w leaves the axis: .*; x=0 goes to x=-0.3 \(1 of 3 cases\)",
        ),
        (
            CUTS,
            ts.Decide("x", lambda x: x * np.nan, **OPTIONS),
            "deciding x leaves the axis: .*; x=0 goes to x=nan",
        ),
        (
            {"x": ["a", "b"]},
            ts.Shift("x", ONE, between="interpolate"),
            "cannot interpolate along an axis of text; x holds a",
        ),
        (
            CUTS,
            ts.Shift("x", ONE, edge="reflect", between="interpolate"),
            "the shift of x by w: edge must be 'error' or 'clip'; got 'reflect'",
        ),
        (
            CUTS,
            ts.Decide("x", lambda x: x, between="linear"),
            "deciding x: between must be 'error' or 'interpolate'; got 'linear'",
        ),
        (CUTS, ts.Decide("x", lambda x: x + 0.1), "deciding x leaves the grid"),
        (CUTS, ts.Shift("x", ONE), "the axis must be evenly spaced"),
    ],
)
def test_faulty_landings_are_refused_with_place_and_value(grid, stage, message):
    with pytest.raises(ts.ModelError, match=message):
        model([stage], (0, 1), grid)


def test_a_landing_that_cannot_happen_may_be_anywhere():
    noise = ts.Noise("w", [0.25, 9.0], [1.0, 0.0])
    jump = ts.Jump(noise, lambda x, w: {"x": np.abs(x - w)}, between="interpolate")
    assert model([jump], (0,), CUTS).n_states == 3
    decide = ts.Decide("x", lambda x, action: x + action * 0.25, between="interpolate")
    limited = model([decide], (0, 1), CUTS, feasible=lambda x, action: (x < 2) | (action == 0))
    assert limited.n_states == 3
