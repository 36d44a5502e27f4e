"""Training samples: states with their exact labels, as an observer sees them.

    x_i = s_i + noise * step * e_i,   e_i ~ N(0, I),     y_i = pi*(s_i)

``step`` is the axis's own spacing, so ``noise`` is in grid steps (the paper's sigma). The label is
the true state's; only the observed coordinates are disturbed. A sampling scheme chooses the states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, is_count, raise_for_first, require_type
from tessella.grid import StateGrid
from tessella.mdp.checks import as_numbers, check_observation_noise
from tessella.mdp.dynamics import as_generator
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy


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
    """Every state with the same probability.

    Args:
        replace: True to draw with replacement, as in the paper; False for each state at most once.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> sample = ts.draw(solution, 100, scheme=ts.Uniform(replace=False))
        >>> len(np.unique(sample.states))
        100
    """

    replace: bool = True

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        if self.replace:
            return DrawnStates(rng.integers(0, labels.size, n), n)
        if n > labels.size:
            requirement = f"without replacement n is at most {labels.size} states"
            raise ArgumentError(requirement, value=f"got {n}")
        return DrawnStates(rng.permutation(labels.size)[:n], n)


@dataclass(frozen=True, eq=False)
class ByOccupancy:
    """Each state with probability proportional to its weight, with replacement.

    Args:
        weights: (grid) or (S,) non-negative, such as the discounted occupancy of a policy.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> visits = ts.occupancy(solution.mdp, solution).share
        >>> ts.draw(solution, 100, scheme=ts.ByOccupancy(visits)).labels.shape
        (100,)
    """

    weights: ArrayLike

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        weights = as_numbers(self.weights, "occupancy weights", error=ArgumentError).ravel()
        if weights.size != labels.size:
            requirement = f"occupancy weights need {labels.size} entries"
            raise ArgumentError(requirement, value=f"got {weights.size}")
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
    takes the exact label of every state, which ``exact_labels`` counts.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> np.bincount(ts.draw(solution, 100, scheme=ts.Stratified()).labels)
        array([50, 50])
    """

    def draw_states(self, labels: NDArray, n: int, rng: np.random.Generator) -> DrawnStates:
        regions = [np.flatnonzero(labels == action) for action in np.unique(labels)]
        share, rest = divmod(n, len(regions))
        counts = [share + (i < rest) for i in range(len(regions))]
        drawn = [rng.choice(region, k) for region, k in zip(regions, counts, strict=True)]
        return DrawnStates(np.concatenate(drawn), labels.size)


@runtime_checkable
class SolutionLike(Protocol):
    """What ``draw`` needs of a solution; this folder never solves anything itself."""

    @property
    def mdp(self) -> MDP: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def margin(self) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class Sample:
    """n labelled observations.

    Attributes:
        points: (n, d) observed coordinates, in the axes' own values.
        labels: (n,) action indices of the true states.
        margins: (n,) margin of the label over the next-best action; inf where alone feasible.
        states: (n,) flat index of the true state behind each point.
        grid: the states a policy must decide.
        actions: the meaning of the labels.
        exact_labels: how many labels of the exact solution it took to make the sample.
        feasible: (S, A) which actions a policy may take, or None where all.
        action_name: what an action is called.
    """

    points: NDArray[np.float64]
    labels: NDArray[np.int32]
    margins: NDArray[np.float64]
    states: NDArray[np.int64]
    grid: StateGrid
    actions: tuple
    exact_labels: int = 0
    feasible: NDArray[np.bool_] | None = None
    action_name: str = "action"

    def __post_init__(self) -> None:
        points = as_numbers(self.points, "points", error=ArgumentError)
        if points.ndim != 2 or points.shape[1] != self.grid.ndim or not len(points):
            requirement = f"points must have shape (n, {self.grid.ndim})"
            raise ArgumentError(requirement, value=f"got {points.shape}")
        _raise_for_rows(points, ~np.isfinite(points).all(axis=1), "points must be finite")
        labels = _require_column(self.labels, len(points), "labels")
        is_valid = _is_valid_index(labels, len(self.actions))
        _raise_for_rows(
            labels, ~is_valid, f"labels must be action indices 0..{len(self.actions) - 1}"
        )
        margins = as_numbers(self.margins, "margins", error=ArgumentError)
        margins = _require_column(margins, len(points), "margins")
        _raise_for_rows(margins, ~(margins >= 0), "margins must not be negative")
        states = _require_column(self.states, len(points), "states")
        is_valid = _is_valid_index(states, self.grid.size)
        _raise_for_rows(states, ~is_valid, f"states must lie in 0..{self.grid.size - 1}")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "labels", labels.astype(np.int32))
        object.__setattr__(self, "margins", margins)
        object.__setattr__(self, "states", states.astype(np.int64))
        object.__setattr__(self, "exact_labels", self.exact_labels or len(points))

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        counts = np.bincount(self.labels, minlength=len(self.actions))
        most = np.argsort(-counts, kind="stable")[:8]
        labels = [f"{self.actions[a]}: {counts[a]:,}" for a in most if counts[a]]
        rest = np.count_nonzero(counts) - len(labels)
        return (
            f"Sample: {len(self):,} observations of {self.distinct_states:,} states, "
            f"of {self.grid.size:,}\n"
            f"labels {', '.join(labels)}" + (f" and {rest} more actions" if rest else "")
        )

    @property
    def distinct_states(self) -> int:
        """How many different states the labels come from."""
        return len(np.unique(self.states))


def draw(
    solution: SolutionLike,
    n: int,
    noise: float | ArrayLike | None = None,
    rng: np.random.Generator | int = 0,
    *,
    scheme: SamplingScheme | None = None,
) -> Sample:
    """n labelled observations of an exact solution.

    Args:
        solution: of the model that is observed.
        n: how many observations.
        noise: standard deviation of the observation noise in grid steps, one number or one for
            each axis; None takes the model's own ``observation_noise``, or none.
        rng: a generator or an integer seed.
        scheme: Uniform() (with replacement, the default), Uniform(replace=False),
            ByOccupancy(weights) or Stratified().

    Returns:
        Points as observed, with labels, margins and states.

    Raises:
        ArgumentError: ``n``, the noise or the scheme is out of range.

    Example:
        >>> sample = ts.draw(ts.solve(ts.benchmark("QUE-Lin")), 200, rng=0)
        >>> sample.points.shape, sample.labels.shape
        ((200, 2), (200,))
    """
    require_type("draw", solution, SolutionLike, "Solution")
    if not is_count(n):
        raise ArgumentError("a sample needs at least 1 state", value=f"got n={n}")
    scheme = Uniform() if scheme is None else scheme
    if isinstance(scheme, type) or not isinstance(scheme, SamplingScheme):
        requirement = "scheme must be a way to draw states, such as Uniform()"
        raise ArgumentError(requirement, value=f"got {scheme!r}")
    mdp = solution.mdp
    labels = solution.policy.table.ravel()
    rng = as_generator(rng)
    drawn = scheme.draw_states(labels, int(n), rng)
    sigma = _noise_deviations(mdp, noise)
    exact = mdp.grid.points_of(drawn.states)
    return Sample(
        points=exact + sigma * rng.standard_normal(exact.shape),
        labels=labels[drawn.states],
        margins=solution.margin.ravel()[drawn.states],
        states=drawn.states,
        grid=mdp.grid,
        actions=mdp.actions,
        exact_labels=drawn.exact_labels,
        feasible=mdp.feasible,
        action_name=mdp.action_name,
    )


def _noise_deviations(mdp: MDP, noise: float | ArrayLike | None) -> NDArray[np.float64]:
    """(d,) standard deviations in the axes' own values."""
    if noise is None:
        noise = mdp.observation_noise
    sigma = check_observation_noise(noise, mdp.grid, ArgumentError)
    steps = [np.abs(np.diff(v)).mean() if len(v) > 1 else 1.0 for v in mdp.grid.numbers]
    return sigma * np.array(steps)


def _require_column(values: ArrayLike, n: int, noun: str) -> NDArray:
    array = np.asarray(values)
    if array.shape != (n,):
        requirement = f"{noun} must have shape ({n},), one for each point"
        raise ArgumentError(requirement, value=f"got {array.shape}")
    return array


def _is_valid_index(array: NDArray, count: int) -> NDArray[np.bool_]:
    """Which entries are one of ``0..count - 1``, without an array of that length."""
    if array.dtype.kind not in "biuf":
        return np.zeros(len(array), dtype=bool)
    return (array >= 0) & (array < count) & (array == np.floor(array))


def _raise_for_rows(array: NDArray, bad: ArrayLike, requirement: str) -> None:
    raise_for_first(
        requirement,
        np.asarray(bad),
        lambda row: f"row {row}",
        lambda row: f"is {array[row]}",
        "rows",
        error=ArgumentError,
    )
