"""Actions can be told apart in grey print and with each of the colour-vision deficiencies."""

from itertools import combinations

import numpy as np
import pytest

from tessella.plot.frame import action_colours, compute_lightness, lighten

# Machado, Oliveira, Fernandes (2009), full severity, on linear light.
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
NAMES = tuple("abcdefgh")


def seen(colours, deficiency):
    """(n, 3) L*a*b* of sRGB colours as seen with a deficiency."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.transpose(DEFICIENCIES[deficiency]), 0, 1)
    t = linear @ XYZ.T / XYZ.sum(axis=1)
    f = np.where(t > 216 / 24389, np.cbrt(t), (t * 24389 / 27 + 16) / 116)
    return np.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=-1
    )


def palette(tile, actions):
    colours = action_colours(tile([0], actions))
    return colours(np.arange(colours.N))[:, :3]


def test_lightness_runs_from_black_to_white():
    np.testing.assert_allclose(compute_lightness([[0, 0, 0], [1, 1, 1]]), [0, 100], atol=1e-9)
    # Half of the encoded scale is 21.4 % of the light, and looks a little lighter than halfway.
    assert compute_lightness([0.5, 0.5, 0.5]) == pytest.approx(53.39, abs=0.01)


@pytest.mark.parametrize("n", range(2, 9))
@pytest.mark.parametrize("kind", ["quantities", "names"])
def test_lightness_alone_tells_all_actions_apart(tile, n, kind):
    light = compute_lightness(palette(tile, tuple(range(n)) if kind == "quantities" else NAMES[:n]))
    steps = -np.diff(light)
    np.testing.assert_allclose(steps, steps[0], atol=0.5)
    assert steps.min() > 9


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("actions", [tuple(range(5)), tuple(range(8)), NAMES[:5], NAMES])
def test_every_two_actions_differ_visibly_with_each_deficiency(tile, actions, deficiency):
    # A difference of 2.3 is just noticeable; 8 is plain at a glance.
    colours = seen(palette(tile, actions), deficiency)
    assert min(np.linalg.norm(p - q) for p, q in combinations(colours, 2)) > 8


def test_larger_quantities_are_darker_in_whatever_order_they_are_listed(tile):
    light = compute_lightness(palette(tile, (8, 0, 4)))
    assert light[1] > light[2] > light[0]


def test_fading_moves_every_colour_towards_white(tile):
    colours = action_colours(tile([0], (0, 1, 2)))
    pale = lighten(colours)
    spots = np.arange(3)
    assert (compute_lightness(pale(spots)[:, :3]) > compute_lightness(colours(spots)[:, :3])).all()


SIGNED = (-3, -2, -1, 0, 1, 2, 3)


def test_signed_quantities_are_lightest_at_zero_and_warm_below_it(tile):
    colours = palette(tile, SIGNED)
    light = compute_lightness(colours)
    assert light.argmax() == SIGNED.index(0)
    assert (np.diff(light[: SIGNED.index(0) + 1]) > 0).all()
    assert (np.diff(light[SIGNED.index(0) :]) < 0).all()
    red, blue = colours[:, 0], colours[:, 2]
    assert (red > blue)[:3].all()
    assert (red < blue)[4:].all()


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_signed_quantities_differ_visibly_in_grey_and_with_each_deficiency(tile, deficiency):
    colours = palette(tile, SIGNED)
    steps = np.diff(np.sort(compute_lightness(colours)))
    np.testing.assert_allclose(steps, steps[0], atol=0.5)
    different = [np.linalg.norm(p - q) for p, q in combinations(seen(colours, deficiency), 2)]
    assert min(different) > 8
