"""Feature maps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella import ArgumentError
from tessella.learn import Features

POINTS = np.random.default_rng(0).normal([5, -3, 100], [1, 4, 50], size=(200, 3))


def test_standard_features_have_mean_zero_and_spread_one():
    z = Features("standard").fit(POINTS)(POINTS)
    assert np.allclose(z.mean(axis=0), 0)
    assert np.allclose(z.std(axis=0), 1)


def test_range_features_span_zero_to_one():
    z = Features("range").fit(POINTS)(POINTS)
    assert np.allclose(z.min(axis=0), 0)
    assert np.allclose(z.max(axis=0), 1)


def test_without_scaling_coordinates_stay_as_they_are():
    assert (Features("none").fit(POINTS)(POINTS) == POINTS).all()


@pytest.mark.parametrize("scaling", ["standard", "range"])
def test_a_coordinate_that_never_varies_is_harmless(scaling):
    points = POINTS.copy()
    points[:, 1] = 7.0
    assert np.isfinite(Features(scaling).fit(points)(points)).all()


def test_monomials_of_degree_two_in_three_coordinates():
    features = Features("none", degree=2).fit(POINTS)
    assert features.size == 3 + 6
    x, y, z = 2.0, 3.0, 5.0
    expected = [x, y, z, x * x, x * y, x * z, y * y, y * z, z * z]
    assert features(np.array([[x, y, z]])).tolist() == [expected]


@given(st.floats(0.01, 100), st.floats(-100, 100))
def test_units_do_not_matter_to_scaled_features(scale, shift):
    for scaling in ("standard", "range"):
        plain = Features(scaling, degree=2).fit(POINTS)(POINTS)
        other = scale * POINTS + shift
        assert np.allclose(Features(scaling, degree=2).fit(other)(other), plain, atol=1e-8)


@pytest.mark.parametrize("scaling", ["standard", "range"])
@pytest.mark.parametrize("power", [-1000, -300, 300, 1000])
def test_units_do_not_matter_however_small_or_large(scaling, power):
    plain = Features(scaling, degree=2).fit(POINTS)(POINTS)
    other = np.ldexp(POINTS, power)
    assert (Features(scaling, degree=2).fit(other)(other) == plain).all()


def test_the_numbers_are_those_of_the_definition_to_the_last_bit():
    z = Features("standard").fit(POINTS)(POINTS)
    assert (z == (POINTS - POINTS.mean(axis=0)) / POINTS.std(axis=0)).all()
    z = Features("range").fit(POINTS)(POINTS)
    assert (z == (POINTS - POINTS.min(axis=0)) / np.ptp(POINTS, axis=0)).all()


def test_unknown_scalings_and_degrees_are_refused():
    with pytest.raises(ArgumentError, match="standard, range or none; got 'log'"):
        Features("log").fit(POINTS)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="degree must be a whole number, at least 1"):
        Features(degree=0).fit(POINTS)
