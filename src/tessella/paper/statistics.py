"""Statistics over runs.

A family's figure for one seed is the mean over the family's problems; what is reported is the
mean and the standard deviation (n - 1) of these over the seeds, as in the paper. Beside it stands
the interquartile mean: the mean of the middle half of all runs of the family, which a few bad runs
do not move, with a 95 % percentile interval from a bootstrap. The bootstrap draws whole seeds: a
family's problems share the random draws of a seed, so seeds are what is independent. Of few
seeds such intervals are too narrow, about as those of a mean that takes the normal law for
Student's: the truth lies within with P(|t_{n-1}| < 1.96 sqrt((n-1)/n)), 0.75 at 3 seeds and 0.92 at
15. One seed has none.

Two methods are compared by their difference seed by seed, as both learn from the same draws, with
Student's 95 % interval for its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t, trim_mean

BOOTSTRAP_DRAWS = 2000  # draws of whole seeds
INTERVAL_LEVEL = 0.95  # probability
NARROW_INTERVAL_MAX_SEEDS = 10  # seeds; with fewer, a note says that intervals are too narrow


@dataclass(frozen=True)
class Summary:
    """One figure of one method in one family; ``std``, ``low`` and ``high`` need two seeds."""

    mean: float
    std: float
    iqm: float
    low: float
    high: float
    seeds: int


@dataclass(frozen=True)
class PairedDifference:
    """One method minus another, averaged over seeds; ``low`` and ``high`` need two seeds."""

    mean: float
    low: float
    high: float
    seeds: int


_NAN = float("nan")
EMPTY_SUMMARY = Summary(_NAN, _NAN, _NAN, _NAN, _NAN, seeds=0)


def values_by_seed(frame: Any, family: str, method: str, column: str) -> NDArray[np.float64]:
    """(problems, seeds) of problems with runs, and of seeds that none of these lacks.

    ``frame`` has a row for each run, at one n for each method.
    """
    return _pivot_by_seed(frame, family, method, column).to_numpy(dtype=float)


def _pivot_by_seed(frame: Any, family: str, method: str, column: str) -> Any:
    rows = frame[(frame["family"] == family) & (frame["method"] == method)]
    return rows.pivot(index="problem", columns="seed", values=column).dropna(axis=1)


def compare_paired(
    frame: Any, family: str, method: str, other: str, column: str
) -> PairedDifference:
    """``method`` minus ``other``, over the seeds that both finished in every problem with runs."""
    ours, theirs = (_pivot_by_seed(frame, family, name, column).mean() for name in (method, other))
    values = (ours - theirs).dropna().to_numpy(dtype=float)
    if values.size < 2:
        return PairedDifference(
            float(values.mean()) if values.size else _NAN, _NAN, _NAN, values.size
        )
    mean = float(values.mean())
    standard_error = float(values.std(ddof=1)) / values.size**0.5
    half_width = float(t.ppf((1 + INTERVAL_LEVEL) / 2, values.size - 1)) * standard_error
    return PairedDifference(mean, mean - half_width, mean + half_width, values.size)


def summarise(values: NDArray[np.float64], rng: np.random.Generator | int = 0) -> Summary:
    """Of (problems, seeds) runs."""
    if not values.size:
        return EMPTY_SUMMARY
    averages = values.mean(axis=0)
    low, high = _bootstrap_interval(values, np.random.default_rng(rng))
    return Summary(
        float(averages.mean()),
        float(averages.std(ddof=1)) if averages.size > 1 else float("nan"),
        float(interquartile_mean(values.ravel())),
        low,
        high,
        averages.size,
    )


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., n) -> (...) mean without the lowest and the highest quarter."""
    return trim_mean(values, 0.25, axis=-1)


def _bootstrap_interval(
    values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[float, float]:
    seeds = values.shape[1]
    if seeds < 2:
        return float("nan"), float("nan")
    seed_indices = rng.integers(0, seeds, (BOOTSTRAP_DRAWS, seeds))
    resampled = values[:, seed_indices].swapaxes(0, 1).reshape(BOOTSTRAP_DRAWS, -1)
    tail = (1 - INTERVAL_LEVEL) / 2
    low, high = np.quantile(interquartile_mean(resampled), [tail, 1 - tail])
    return float(low), float(high)


def describe_interval_caution(seeds: int) -> str:
    """What a reader of intervals over this many seeds must know; nothing when they are enough."""
    if seeds >= NARROW_INTERVAL_MAX_SEEDS:
        return ""
    if seeds < 2:
        return "One seed has neither a standard deviation nor an interval."
    return (
        f"Bootstrap intervals of {seeds} seeds are too narrow: in simulations 95 % intervals of 3 "
        "seeds held the truth about 77 % of the time, those of 15 seeds 92 to 96 %."
    )


def fit_decay(sizes: NDArray, errors: NDArray[np.float64]) -> float:
    """The power p of the least-squares fit ``error ~ n^-p``; errors of zero are left out."""
    is_positive = errors > 0
    if is_positive.sum() < 2:
        return float("nan")
    slope = np.polyfit(
        np.log(np.asarray(sizes, float)[is_positive]), np.log(errors[is_positive]), 1
    )[0]
    return float(-slope)
