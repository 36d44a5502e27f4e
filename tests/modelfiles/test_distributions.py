"""Every named distribution has the probabilities that its law has, with the tails on its ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special

import tessella as ts

FRAME = """
[parameters]
most = 6
[axes]
x = {{ from = {low}, to = {high} }}
mood = ["calm", "wild"]
[actions]
values = [0]
[criterion]
kind = "average"
[distributions.noise]
{law}
[[stages]]
kind = "jump"
noise = "noise"
to = {{ x = "noise" }}
"""


def law(file, told: str, low: int = 0, high: int = 6) -> np.ndarray:
    """(moods, values) probabilities of low .. high."""
    mdp = ts.read_model(file(FRAME.format(law=told, low=low, high=high)))
    rows = mdp.to_arrays().transition[0].reshape(*mdp.grid.shape, *mdp.grid.shape)
    return np.stack([rows[0, mood, :, mood] for mood in (0, 1)])


def counts(chances) -> list[float]:
    """Chances of 0 .. 5, and of 6 and more."""
    first = [float(chances(k)) for k in range(6)]
    return [*first, 1 - sum(first)]


def poisson(mean):
    return lambda k: np.exp(-mean) * mean**k / special.factorial(k)


def rounded(density, low, high, smallest=-np.inf):
    """The masses of a density around each whole number, by numerical integration."""
    edges = [smallest, *(k + 0.5 for k in range(low, high)), np.inf]
    return [integrate.quad(density, a, b)[0] for a, b in pairwise(edges)]


def normal(mean, deviation):
    scale = deviation * np.sqrt(2 * np.pi)
    return lambda x: np.exp(-0.5 * ((x - mean) / deviation) ** 2) / scale


def gamma(mean, variation):
    shape = variation**-2
    rate = shape / mean
    return lambda x: rate**shape * x ** (shape - 1) * np.exp(-rate * x) / special.gamma(shape)


LAWS = {
    "poisson": (
        'kind = "poisson"\nmean = "where(mood == \'wild\', 3, 1.5)"\nlargest = "most"',
        counts(poisson(1.5)),
        counts(poisson(3)),
    ),
    "binomial": (
        'kind = "binomial"\ntrials = "most"\nchance = "where(mood == \'wild\', 0.75, 0)"',
        [1, 0, 0, 0, 0, 0, 0],
        [special.comb(6, k) * 0.75**k * 0.25 ** (6 - k) for k in range(7)],
    ),
    "negative binomial": (
        'kind = "negative_binomial"\nsuccesses = 2\nchance = 0.5\nlargest = 6',
        counts(lambda k: (k + 1) * 0.5 ** (k + 2)),
    ),
    "geometric": (
        'kind = "geometric"\nchance = "where(mood == \'wild\', 0.25, 1)"\nlargest = 6',
        [1, 0, 0, 0, 0, 0, 0],
        counts(lambda k: 0.25 * 0.75**k),
    ),
    "normal": (
        'kind = "normal"\nmean = "1 + 2 * (mood == \'wild\')"\ndeviation = 1.5\n'
        "smallest = -2\nlargest = 6",
        rounded(normal(1, 1.5), -2, 6),
        rounded(normal(3, 1.5), -2, 6),
    ),
    "gamma": (
        'kind = "gamma"\nmean = "2 + (mood == \'wild\')"\nvariation = 0.8\nlargest = 6',
        rounded(gamma(2, 0.8), 0, 6, 0),
        rounded(gamma(3, 0.8), 0, 6, 0),
    ),
    "uniform": ('kind = "uniform"\nsmallest = 2\nlargest = 5', [0, 0, 0.25, 0.25, 0.25, 0.25, 0]),
    "values": (
        'kind = "values"\nvalues = [5, 1]\n'
        "probabilities = [\"0.25 * (mood == 'calm')\", \"1 - 0.25 * (mood == 'calm')\"]",
        [0, 0.75, 0, 0, 0, 0.25, 0],
        [0, 1, 0, 0, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_distribution_has_the_probabilities_of_its_law(name, file):
    told, calm, *wild = LAWS[name]
    found = law(file, told, low=6 - len(calm) + 1)
    np.testing.assert_allclose(found[0], calm, atol=1e-12)
    np.testing.assert_allclose(found[1], wild[0] if wild else calm, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-14)


def test_what_was_observed_is_as_likely_as_it_was_frequent(file):
    file("day,units\n1,3\n2,0\n3,3\n4,6\n", "history.csv")
    found = law(file, 'kind = "empirical"\ncsv = "history.csv"\ncolumn = "units"')
    np.testing.assert_array_equal(found[0], [0.25, 0, 0, 0.5, 0, 0, 0.25])


def test_a_single_value_takes_all_of_a_law(file):
    for told in (
        '"poisson"\nmean = 3',
        '"geometric"\nchance = 0.5',
        '"gamma"\nmean=3\nvariation=1',
    ):
        assert law(file, f"kind = {told}\nlargest = 0", high=0).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("told", "line", "said"),
    [
        ('kind = "poisson"\nmean = -1\nlargest = 6', 11, "the mean of a Poisson must be finite"),
        (
            'kind = "poisson"\nmean = 1\nlargest = 2.5',
            14,
            "whole number from 0 to 99,999; it is 2.5",
        ),
        ('kind = "poisson"\nmean = 1\nlargest = 1e9', 14, "whole number from 0 to 99,999"),
        (
            'kind = "binomial"\ntrials = 3\nchance = 1.5',
            11,
            "a chance must be a number from 0 to 1",
        ),
        ('kind = "geometric"\nchance = 0\nlargest = 3', 11, "a chance must be a number above 0"),
        (
            'kind = "gamma"\nmean = 0\nvariation = 1\nlargest = 3',
            11,
            "the mean of a gamma quantity",
        ),
        (
            'kind = "normal"\nmean = 0\ndeviation = "mood == \'wild\'"\nsmallest = 0\nlargest = 3',
            -3,
            "the deviation of a normal quantity must be finite and above 0; got 0",
        ),
        ('kind = "uniform"\nsmallest = 3\nlargest = 2', 11, "goes up from its smallest value"),
        (
            'kind = "values"\nvalues = [1, 2]\nprobabilities = [1]',
            11,
            "2 values and 1 probabilities",
        ),
        ('kind = "values"\nvalues = [1]\nprobabilities = ["noise"]', 14, "'noise' is not known"),
        ('kind = "values"\nvalues = [1, 2]\nprobabilities = [0.5, 0.6]', -3, "must sum to 1"),
    ],
)
def test_a_law_that_makes_no_sense_is_refused_with_its_line(told, line, said, file, mistakes):
    text = FRAME.format(law=told, low=0, high=6)
    line = line if line > 0 else text.count("\n") + line
    found = [one for one in mistakes(file(text)) if one.startswith(f"{line}: ")]
    assert any(said in one for one in found), mistakes(file(text))
