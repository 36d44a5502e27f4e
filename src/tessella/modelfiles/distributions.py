"""Distributions of a model file, as noises of finitely many values.

Counts end at a largest value, which takes the tail: P(X >= largest). What is continuous is rounded
to the nearest whole number, P(k) = F(k + 1/2) - F(k - 1/2), with both tails put on the ends. A mean
or a chance may be an expression of axes and action: its array has a last axis of length one, along
which the values lie.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, format_value
from tessella.mdp.context import call_by_name
from tessella.mdp.stages import Noise, truncated_poisson
from tessella.modelfiles.formula import FORMULA_MAX_COMBINATIONS, Formula

DISTRIBUTION_MAX_VALUES = 100_000  # values of a distribution

ProbabilityFunction = Callable[..., NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class ConditionalProbabilities:
    """Probabilities as a function of what their formulas name."""

    probability_function: ProbabilityFunction
    formulas: Mapping[str, Formula]
    n_values: int  # of values

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for f in self.formulas.values() for name in f.free_names)
        kw = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature([inspect.Parameter(name, kw) for name in names])
        object.__setattr__(self, "__signature__", signature)

    def __call__(self, /, **arrays: Any) -> NDArray[np.float64]:
        shape = np.broadcast_shapes(*(np.shape(array) for array in arrays.values()))
        if np.prod(shape, dtype=float) * self.n_values > FORMULA_MAX_COMBINATIONS:
            raise ModelError(
                f"a distribution has at most {FORMULA_MAX_COMBINATIONS:,} probabilities "
                "over all states and actions",
                value=f"there are {np.prod(shape, dtype=float) * self.n_values:,.0f}",
            )
        arguments = {name: call_by_name(f, arrays, name) for name, f in self.formulas.items()}
        return self.probability_function(**arguments)


def make_noise(
    name: str,
    values: Sequence,
    probability_function: ProbabilityFunction,
    formulas: Mapping[str, Formula],
) -> Noise:
    """A noise whose probabilities ``probability_function`` computes from its formulas."""
    probabilities = ConditionalProbabilities(probability_function, formulas, len(values))
    inputs = inspect.signature(probabilities).parameters
    return Noise(name, values, probabilities if inputs else probabilities())


def poisson(largest: int) -> ProbabilityFunction:
    return lambda mean: truncated_poisson(mean, largest)


def binomial(trials: int) -> ProbabilityFunction:
    def probabilities(chance):
        from scipy.stats import binom

        return binom.pmf(
            np.arange(trials + 1), trials, _with_value_axis(_require_probability(chance))
        )

    return probabilities


def negative_binomial(largest: int) -> ProbabilityFunction:
    def probabilities(successes, chance):
        from scipy.stats import nbinom

        n = _with_value_axis(_require_positive(successes, "the number of successes"))
        return _pmf_with_tail(
            nbinom, largest, n, _with_value_axis(_require_probability(chance, 0.0))
        )

    return probabilities


def geometric(largest: int) -> ProbabilityFunction:
    return lambda chance: negative_binomial(largest)(successes=1.0, chance=chance)


def normal(smallest: int, largest: int) -> ProbabilityFunction:
    def probabilities(mean, deviation):
        from scipy.stats import norm

        scale = _with_value_axis(_require_positive(deviation, "the deviation of a normal quantity"))
        edges = np.arange(smallest, largest) + 0.5
        return _cell_masses(norm.cdf(edges, _with_value_axis(mean), scale))

    return probabilities


def gamma(largest: int) -> ProbabilityFunction:
    def probabilities(mean, variation):
        from scipy.stats import gamma as law

        shape = (
            1
            / _with_value_axis(_require_positive(variation, "the variation of a gamma quantity"))
            ** 2
        )
        scale = _with_value_axis(_require_positive(mean, "the mean of a gamma quantity")) / shape
        return _cell_masses(law.cdf(np.arange(largest) + 0.5, shape, scale=scale))

    return probabilities


def uniform(count: int) -> ProbabilityFunction:
    return lambda: np.full(count, 1 / count)


def explicit(count: int) -> ProbabilityFunction:
    """Probabilities one by one, under the names 0, 1, ..."""

    def probabilities(**chances):
        columns = [_with_value_axis(np.asarray(chances[str(i)], dtype=float)) for i in range(count)]
        return np.concatenate(np.broadcast_arrays(*columns), axis=-1)

    return probabilities


def _with_value_axis(array: Any) -> NDArray[np.float64]:
    """An array whose last axis, of length one, is for the values of the noise."""
    result = np.asarray(array, dtype=float)
    return result.reshape(1) if result.ndim == 0 else result


def _cell_masses(cumulative: NDArray[np.float64]) -> NDArray[np.float64]:
    """What lies between neighbouring edges, and beyond the last, given the masses below them."""
    leading_shape = cumulative.shape[:-1]
    padded = np.concatenate(
        [np.zeros((*leading_shape, 1)), cumulative, np.ones((*leading_shape, 1))], axis=-1
    )
    return np.diff(padded, axis=-1)


def _pmf_with_tail(
    distribution: Any, largest: int, *parameters: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Chances of 0 .. largest - 1, and of all from ``largest`` on."""
    chances = distribution.pmf(np.arange(largest + 1), *parameters)
    chances[..., -1] = distribution.sf(largest - 1, *parameters)[..., 0]
    return chances


def _require_probability(array: Any, lower_bound: float = -1.0) -> Any:
    """Refuse what is no probability; where it must not be 0, ``above`` is 0."""
    range_text = "above 0, to 1" if lower_bound == 0 else "from 0 to 1"
    is_valid = (
        (np.asarray(array) >= 0) & (np.asarray(array) <= 1) & (np.asarray(array) > lower_bound)
    )
    return _require(array, is_valid, f"a chance must be a number {range_text}")


def _require_positive(array: Any, subject: str) -> Any:
    is_valid = np.isfinite(array) & (np.asarray(array) > 0)
    return _require(array, is_valid, f"{subject} must be finite and above 0")


def _require(array: Any, is_valid: Any, requirement: str) -> Any:
    if not np.all(is_valid):
        first_bad = np.asarray(array, dtype=float).ravel()[np.argmin(np.ravel(is_valid))]
        raise ModelError(requirement, value=f"got {format_value(float(first_bad))}")
    return array
