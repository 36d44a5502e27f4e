"""Playing a model forward: n independent paths under a policy, from a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy

Rng = np.random.Generator | int


@dataclass(frozen=True, eq=False)
class Paths:
    """n simulated paths of T periods."""

    mdp: MDP
    states: NDArray[np.int64]  # (n, T + 1) flat state indices
    actions: NDArray[np.int64]  # (n, T); -1 after the process has ended
    rewards: NDArray[np.float64]  # (n, T); 0 after the end

    @property
    def returns(self) -> NDArray[np.float64]:
        """(n,) discounted sums of rewards."""
        return self.rewards @ self.mdp.discount ** np.arange(self.rewards.shape[1])


def simulate(
    mdp: MDP,
    policy: Policy | ArrayLike,
    periods: int,
    rng: Rng,
    *,
    paths: int = 1,
    start: ArrayLike | None = None,
) -> Paths:
    """Play ``policy`` for ``periods``, on ``paths`` independent paths.

    Args:
        rng: a generator or an integer seed.
        start: None for a uniform start, one state index, (paths,) state indices, or a
            distribution over all states given as floats.
    """
    if periods < 1 or paths < 1:
        raise ModelError(f"periods and paths must be at least 1; got {periods} and {paths}")
    rng = np.random.default_rng(rng)
    table = mdp.policy(policy.table if isinstance(policy, Policy) else policy).table.ravel()
    states = np.empty((paths, periods + 1), dtype=np.int64)
    actions = np.full((paths, periods), -1, dtype=np.int64)
    rewards = np.zeros((paths, periods))
    states[:, 0] = _starts(mdp, start, paths, rng)
    alive = np.ones(paths, dtype=bool)
    for t in range(periods):
        states[:, t + 1] = states[:, t]
        on = np.flatnonzero(alive)
        if not on.size:
            break
        actions[on, t] = table[states[on, t]]
        steps = mdp.dynamics.step(states[on, t], actions[on, t], rng)
        states[on, t + 1], rewards[on, t] = steps.states, steps.rewards
        alive[on] = ~steps.ended
    return Paths(mdp, states, actions, rewards)


def start_distribution(mdp: MDP, start: ArrayLike | None) -> NDArray[np.float64]:
    """(S,) probabilities: uniform, one state, or as given."""
    if start is None:
        return np.full(mdp.n_states, 1.0 / mdp.n_states)
    array = np.asarray(start)
    if array.ndim == 0 and array.dtype.kind in "iu":
        weights = np.zeros(mdp.n_states)
        weights[_checked_states(mdp, array[None])[0]] = 1.0
        return weights
    weights = np.asarray(array, dtype=float).ravel()
    if weights.size != mdp.n_states:
        raise ModelError(f"a start distribution has {mdp.n_states} entries; got {weights.size}")
    if not np.isfinite(weights).all() or (weights < 0).any() or abs(weights.sum() - 1) > 1e-9:
        raise ModelError(
            f"a start distribution must be non-negative and sum to 1; it sums to {weights.sum()}"
        )
    return weights / weights.sum()


def _starts(mdp: MDP, start: ArrayLike | None, paths: int, rng: np.random.Generator) -> NDArray:
    if start is not None and np.asarray(start).dtype.kind in "iu":
        states = _checked_states(mdp, np.atleast_1d(np.asarray(start)))
        if len(states) not in (1, paths):
            raise ModelError(f"start must name 1 or {paths} states; got {len(states)}")
        return np.broadcast_to(states, (paths,)).copy()
    return rng.choice(mdp.n_states, size=paths, p=start_distribution(mdp, start))


def _checked_states(mdp: MDP, states: NDArray) -> NDArray[np.int64]:
    if ((states < 0) | (states >= mdp.n_states)).any():
        raise ModelError(f"states must lie in 0..{mdp.n_states - 1}; got {states.tolist()[:5]}")
    return states.astype(np.int64)
