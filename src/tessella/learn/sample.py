"""Training samples: states with their exact labels, as an observer sees them.

    x_i = s_i + noise * step * e_i,   e_i ~ N(0, I),     y_i = pi*(s_i)

``step`` is the axis's own spacing, so ``noise`` is in grid steps (the paper's sigma). The label is
the true state's; only the observed coordinates are disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, is_count, require_type
from tessella.grid import StateGrid
from tessella.learn.schemes import SamplingScheme, Uniform, as_numbers
from tessella.mdp.checks import check_observation_noise
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.sampling import generator


@runtime_checkable
class SolutionLike(Protocol):
    """What ``draw`` needs of a solution; this package never solves anything itself."""

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
        margins: (n,) by how much the label beats the next-best action; inf where alone.
        states: (n,) flat index of the true state behind each point.
        grid: the states a policy must decide.
        actions: what the labels stand for.
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
        points = as_numbers(self.points, "points must be numbers")
        if points.ndim != 2 or points.shape[1] != self.grid.ndim or not len(points):
            raise ArgumentError(
                f"points must have shape (n, {self.grid.ndim})", value=f"got {points.shape}"
            )
        _raise_for_rows(points, ~np.isfinite(points).all(axis=1), "points must be finite")
        labels = _require_column(self.labels, len(points), "labels")
        known = _is_valid_index(labels, len(self.actions))
        _raise_for_rows(labels, ~known, f"labels must be action indices 0..{len(self.actions) - 1}")
        margins = as_numbers(self.margins, "margins must be numbers")
        margins = _require_column(margins, len(points), "margins")
        _raise_for_rows(margins, ~(margins >= 0), "margins must not be negative")
        states = _require_column(self.states, len(points), "states")
        known = _is_valid_index(states, self.grid.size)
        _raise_for_rows(states, ~known, f"states must lie in 0..{self.grid.size - 1}")
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
        noise: standard deviation of the observation noise in grid steps, one number or one for
            each axis; None takes the model's own ``observation_noise``, or none.
        rng: a generator or an integer seed.
        scheme: Uniform() (with replacement, the default), Uniform(replace=False),
            ByOccupancy(weights) or Stratified().
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
    rng = generator(rng)
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
        raise ArgumentError(
            f"{noun} must have shape ({n},), one for each point", value=f"got {array.shape}"
        )
    return array


def _is_valid_index(array: NDArray, count: int) -> NDArray[np.bool_]:
    """Which entries are one of ``0..count - 1``; nothing as long as ``count`` is made."""
    if array.dtype.kind not in "biuf":
        return np.zeros(len(array), dtype=bool)
    return (array >= 0) & (array < count) & (array == np.floor(array))


def _raise_for_rows(array: NDArray, bad: ArrayLike, requirement: str) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        place = f"row {rows[0]}"
        value = f"is {array[rows[0]]}"
        raise ArgumentError(
            requirement, location=place, value=value, count=rows.size, total=len(array), noun="rows"
        )
