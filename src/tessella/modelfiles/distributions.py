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

from tessella.errors import ModelError, shown
from tessella.mdp.scope import call
from tessella.mdp.stages import Noise, truncated_poisson
from tessella.modelfiles.expressions.formula import LARGEST, Formula

MOST_VALUES = 100_000  # of a distribution

Made = Callable[..., NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Chances:
    """Probabilities as a function of what their formulas name."""

    make: Made
    formulas: Mapping[str, Formula]
    count: int  # of values

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for f in self.formulas.values() for name in f.asks)
        kw = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature([inspect.Parameter(name, kw) for name in names])
        object.__setattr__(self, "__signature__", signature)

    def __call__(self, /, **arrays: Any) -> NDArray[np.float64]:
        entries = np.broadcast_shapes(*(np.shape(array) for array in arrays.values()))
        if np.prod(entries, dtype=float) * self.count > LARGEST:
            raise ModelError(
                f"a distribution has at most {LARGEST:,} probabilities over all states and actions",
                value=f"there are {np.prod(entries, dtype=float) * self.count:,.0f}",
            )
        said = {name: call(f, arrays, name) for name, f in self.formulas.items()}
        return self.make(**said)


def make_noise(name: str, values: Sequence, make: Made, formulas: Mapping[str, Formula]) -> Noise:
    """A noise whose probabilities ``make`` works out from its formulas."""
    chances = Chances(make, formulas, len(values))
    given = inspect.signature(chances).parameters
    return Noise(name, values, chances if given else chances())


def poisson(largest: int) -> Made:
    return lambda mean: truncated_poisson(mean, largest)


def binomial(trials: int) -> Made:
    def made(chance):
        from scipy.stats import binom

        return binom.pmf(np.arange(trials + 1), trials, _last(_chance(chance)))

    return made


def negative_binomial(largest: int) -> Made:
    def made(successes, chance):
        from scipy.stats import nbinom

        n = _last(_above(successes, "the number of successes"))
        return _with_tail(nbinom, largest, n, _last(_chance(chance, 0.0)))

    return made


def geometric(largest: int) -> Made:
    return lambda chance: negative_binomial(largest)(successes=1.0, chance=chance)


def normal(smallest: int, largest: int) -> Made:
    def made(mean, deviation):
        from scipy.stats import norm

        spread = _last(_above(deviation, "the deviation of a normal quantity"))
        edges = np.arange(smallest, largest) + 0.5
        return _between(norm.cdf(edges, _last(mean), spread))

    return made


def gamma(largest: int) -> Made:
    def made(mean, variation):
        from scipy.stats import gamma as law

        shape = 1 / _last(_above(variation, "the variation of a gamma quantity")) ** 2
        scale = _last(_above(mean, "the mean of a gamma quantity")) / shape
        return _between(law.cdf(np.arange(largest) + 0.5, shape, scale=scale))

    return made


def uniform(count: int) -> Made:
    return lambda: np.full(count, 1 / count)


def listed(count: int) -> Made:
    """Probabilities one by one, under the names 0, 1, ..."""

    def made(**chances):
        columns = [_last(np.asarray(chances[str(i)], dtype=float)) for i in range(count)]
        return np.concatenate(np.broadcast_arrays(*columns), axis=-1)

    return made


def _last(array: Any) -> NDArray[np.float64]:
    """An array whose last axis, of length one, is for the values of the noise."""
    found = np.asarray(array, dtype=float)
    return found.reshape(1) if found.ndim == 0 else found


def _between(below: NDArray[np.float64]) -> NDArray[np.float64]:
    """What lies between neighbouring edges, and beyond the last, given the masses below them."""
    ends = below.shape[:-1]
    full = np.concatenate([np.zeros((*ends, 1)), below, np.ones((*ends, 1))], axis=-1)
    return np.diff(full, axis=-1)


def _with_tail(law: Any, largest: int, *of: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances of 0 .. largest - 1, and of all from ``largest`` on."""
    chances = law.pmf(np.arange(largest + 1), *of)
    chances[..., -1] = law.sf(largest - 1, *of)[..., 0]
    return chances


def _chance(array: Any, above: float = -1.0) -> Any:
    """Refuse what is no probability; where it must not be 0, ``above`` is 0."""
    range_ = "above 0, to 1" if above == 0 else "from 0 to 1"
    fine = (np.asarray(array) >= 0) & (np.asarray(array) <= 1) & (np.asarray(array) > above)
    return _refused(array, fine, f"a chance must be a number {range_}")


def _above(array: Any, what: str) -> Any:
    fine = np.isfinite(array) & (np.asarray(array) > 0)
    return _refused(array, fine, f"{what} must be finite and above 0")


def _refused(array: Any, fine: Any, rule: str) -> Any:
    if not np.all(fine):
        bad = np.asarray(array, dtype=float).ravel()[np.argmin(np.ravel(fine))]
        raise ModelError(rule, value=f"got {shown(float(bad))}")
    return array
