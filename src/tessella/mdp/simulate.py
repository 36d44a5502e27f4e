"""Simulation: n independent paths under a policy, from a seeded generator."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, counted, is_count, require_type
from tessella.mdp.dynamics import REWARD, as_generator
from tessella.mdp.measures import CONSTANT, MeasureFormula
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import Start, draw_start_states, find_listed_states

Rng = np.random.Generator | int


@dataclass(frozen=True)
class MeasureEstimate:
    """A simulated measure."""

    value: float
    standard_error: float  # not a number for a single path

    def __str__(self) -> str:
        is_known = not np.isnan(self.standard_error)
        error_text = f"{self.standard_error:.2g}" if is_known else "unknown"
        return f"{self.value:.6g}, standard error {error_text}"


@dataclass(frozen=True, eq=False)
class Paths:
    """n simulated paths of T periods."""

    mdp: MDP
    states: NDArray[np.int64]  # (n, T + 1) flat state indices
    actions: NDArray[np.int64]  # (n, T); -1 after the process has ended
    rewards: NDArray[np.float64]  # (n, T); 0 after the end
    policy: Policy
    rng: np.random.Generator  # as it was before the first period

    @property
    def returns(self) -> NDArray[np.float64]:
        """(n,) discounted sums of rewards."""
        return self.rewards @ self.mdp.discount ** np.arange(self.rewards.shape[1])

    @cached_property
    def measures(self) -> dict[str, MeasureEstimate | None]:
        """Estimates of measures; None where the denominator is 0."""
        n, periods = self.rewards.shape
        scale = average_unit(self.mdp.clock)[0] / periods if self.mdp.criterion.has_gain else 1.0
        sums = {REWARD: scale * self.returns, CONSTANT: np.ones(n)}
        for name in self.mdp.dynamics.counts:  # simulated on the same paths
            mdp = self.mdp.with_objective({name: 1.0})
            rng = copy.deepcopy(self.rng)
            counted_paths = simulate(
                mdp, self.policy, periods, rng, paths=n, start=self.states[:, 0]
            )
            sums[name] = scale * counted_paths.returns
        return {
            name: estimate_measure(measure, sums) for name, measure in self.mdp.measures.items()
        }

    def __str__(self) -> str:
        n, periods = self.rewards.shape
        returns = self.mdp.sense.display(self.returns)
        ended = int((self.actions[:, -1] < 0).sum())
        subject = "discounted " if self.mdp.discount < 1 else "total "
        subject += "cost" if self.mdp.sense.is_cost else "return"
        visited = len(np.unique(self.states))
        return (
            f"Paths, {self.mdp.name or 'model'}: {counted(n, 'path')} of "
            f"{counted(periods, 'period')}, "
            f"{ended:,} ended early\n"
            f"{subject}: mean {returns.mean():.6g}, "
            f"from {returns.min():.6g} to {returns.max():.6g}\n"
            f"{visited:,} of {self.mdp.n_states:,} states visited"
        )


def simulate(
    mdp: MDP, policy: Any, periods: int, rng: Rng, *, paths: int = 1, start: Start = None
) -> Paths:
    """Simulate ``paths`` independent paths of ``policy`` for ``periods``.

    Args:
        mdp: the model.
        periods: length of each path.
        paths: how many.
        policy: anything that ``tessella.as_policy`` converts.
        rng: a generator or an integer seed.
        start: any start (see ``tessella.mdp.start``); a list of indices has one per path.

    Returns:
        States, actions, rewards and returns of each path.

    Raises:
        PolicyError: the policy takes an infeasible or unknown action.

    Example:
        >>> mdp = ts.problem("machine_replacement").build()
        >>> paths = ts.simulate(mdp, ts.solve(mdp), periods=50, rng=1, paths=10)
        >>> paths.rewards.shape
        (10, 50)
    """
    require_type("simulate", mdp, MDP)
    if not (is_count(periods) and is_count(paths)):
        raise ArgumentError(
            "periods and paths must be at least 1", value=f"got {periods!r} and {paths!r}"
        )
    rng = as_generator(rng)
    policy_used = mdp.policy(policy)
    states = np.empty((paths, periods + 1), dtype=np.int64)
    actions = np.full((paths, periods), -1, dtype=np.int64)
    rewards = np.zeros((paths, periods))
    states[:, 0] = _start_states(mdp, start, policy_used, paths, rng)
    rng_before = copy.deepcopy(rng)
    is_active = np.ones(paths, dtype=bool)
    for t in range(periods):
        active = np.flatnonzero(is_active)
        if not active.size:
            states[:, t + 1 :] = states[:, t : t + 1]
            break
        states[:, t + 1] = states[:, t]
        actions[active, t] = policy_used.at(states[active, t])
        steps = mdp.dynamics.step(states[active, t], actions[active, t], rng)
        states[active, t + 1] = steps.next_states
        rewards[active, t] = steps.rewards
        is_active[active] = ~steps.ended
    return Paths(mdp, states, actions, rewards, policy_used, rng_before)


def estimate_measure(
    measure: MeasureFormula, sums: Mapping[str, NDArray]
) -> MeasureEstimate | None:
    """A ratio of means; its standard error is that of its linear approximation."""
    numerator, denominator = (
        np.sum([weight * sums[name] for name, weight in part.items()], axis=0)
        for part in (measure.numerator, measure.denominator)
    )
    if not denominator.mean():
        return None
    value = float(numerator.mean() / denominator.mean())
    spread = (numerator - value * denominator).std(ddof=1) if len(numerator) > 1 else np.nan
    return MeasureEstimate(value, float(spread / abs(denominator.mean()) / np.sqrt(len(numerator))))


def _start_states(
    mdp: MDP, start: Start, policy: Policy, paths: int, rng: np.random.Generator
) -> NDArray:
    states = find_listed_states(mdp, start)
    if states is None or (isinstance(start, Mapping) and len(states) > 1):
        return draw_start_states(mdp, start, policy, paths, rng)
    if len(states) not in (1, paths):
        requirement = f"a list of start states has one state, or one for each of {paths} paths"
        raise ArgumentError(requirement, value=f"got {len(states)}")
    return np.broadcast_to(states, (paths,)).copy()
