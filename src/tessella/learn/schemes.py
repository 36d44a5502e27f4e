"""Which states a training sample is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class DrawnStates:
    """Drawn states, and what it took to choose them."""

    states: NDArray[np.int64]  # (n,) flat indices
    exact_labels: int  # labels read off the exact solution, for choosing and for training


@runtime_checkable
class SamplingScheme(Protocol):
    """A way to draw n states."""

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        """``labels`` (S,) are the exact actions, for schemes that look at them."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every state alike; with replacement, as in the paper, or each state at most once."""

    replace: bool = True

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        if self.replace:
            return DrawnStates(rng.integers(0, labels.size, n), n)
        if n > labels.size:
            raise ArgumentError(
                f"without replacement n is at most {labels.size} states", value=f"got {n}"
            )
        return DrawnStates(rng.permutation(labels.size)[:n], n)


@dataclass(frozen=True, eq=False)
class ByOccupancy:
    """Each state with probability proportional to its weight, with replacement.

    Args:
        weights: (grid) or (S,) non-negative, such as the discounted occupancy of a policy.
    """

    weights: ArrayLike

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        weights = as_numbers(self.weights, "occupancy weights must be numbers").ravel()
        if weights.size != labels.size:
            raise ArgumentError(
                f"occupancy weights need {labels.size} entries", value=f"got {weights.size}"
            )
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if bad.size or weights.sum() <= 0:
            place, value = (f"state {bad[0]}", f"has {weights[bad[0]]}") if bad.size else ("", "")
            raise ArgumentError(
                "occupancy weights must be finite, non-negative and not all zero",
                location=place,
                value=value,
            )
        return DrawnStates(rng.choice(labels.size, size=n, p=weights / weights.sum()), n)


@dataclass(frozen=True)
class Stratified:
    """As many draws from each action's region, uniform within it, with replacement.

    What does not divide evenly goes to the regions of the lowest actions. Knowing the regions
    takes the exact label of every state, and the sample says so.
    """

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        regions = [np.flatnonzero(labels == action) for action in np.unique(labels)]
        share, rest = divmod(n, len(regions))
        counts = [share + (i < rest) for i in range(len(regions))]
        drawn = [rng.choice(region, k) for region, k in zip(regions, counts, strict=True)]
        return DrawnStates(np.concatenate(drawn), labels.size)


def as_numbers(values: ArrayLike | None, requirement: str) -> NDArray[np.float64]:
    """``values`` as floats; text is refused even where it spells a number."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "USc":
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError):
        raise ArgumentError(requirement, value=f"got {values!r}") from None
