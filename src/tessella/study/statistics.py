"""Statistics over runs.

A family's figure for one seed is the mean over the family's environments; what is reported is the
mean and the standard deviation (n - 1) of these over the seeds, as in the paper. Beside it stands
the interquartile mean: the mean of the middle half of all runs of the family, which a few bad runs
do not move, with a 95 % percentile interval from a bootstrap. The bootstrap draws whole seeds: a
family's environments share the random draws of a seed, so seeds are what is independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import trim_mean

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """One figure of one method in one family."""

    mean: float
    std: float  # nan with a single seed
    iqm: float
    low: float
    high: float
    seeds: int


def runs(frame: Any, family: str, method: str, column: str) -> NDArray[np.float64]:
    """(environments, seeds) at the method's largest n, of seeds that no environment lacks.

    ``frame`` has a row for each run.
    """
    rows = frame[(frame["family"] == family) & (frame["method"] == method)]
    rows = rows[rows["n"] == rows["n"].max()]
    table = rows.pivot(index="environment", columns="seed", values=column)
    return table.dropna(axis=1).to_numpy(dtype=float)


def summarise(values: NDArray[np.float64], rng: np.random.Generator | int = 0) -> Summary:
    """Of (environments, seeds) runs."""
    averages = values.mean(axis=0)
    low, high = _interval(values, np.random.default_rng(rng))
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


def _interval(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    seeds = values.shape[1]
    drawn = rng.integers(0, seeds, (DRAWS, seeds))
    again = values[:, drawn].swapaxes(0, 1).reshape(DRAWS, -1)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(interquartile_mean(again), [tail, 1 - tail])
    return float(low), float(high)


def decay(sizes: NDArray, errors: NDArray[np.float64]) -> float:
    """The power p of the least-squares fit ``error ~ n^-p``; errors of zero are left out."""
    kept = errors > 0
    if kept.sum() < 2:
        return float("nan")
    slope = np.polyfit(np.log(np.asarray(sizes, float)[kept]), np.log(errors[kept]), 1)[0]
    return float(-slope)
