"""Playing a model forward: n independent paths under a policy, from a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, expect
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import listed_states, start_distribution

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
        start: None for the model's own start, one state index for all paths, (paths,) state
            indices, or a distribution over all states given as floats.
    """
    expect("simulate", mdp, MDP)
    if periods < 1 or paths < 1:
        raise ModelError("periods and paths must be at least 1", "", f"got {periods} and {paths}")
    if rng is None:
        raise ModelError("rng must be a generator or an integer seed", "", "got None")
    rng = np.random.default_rng(rng)
    table = mdp.policy(policy).table.ravel()
    states = np.empty((paths, periods + 1), dtype=np.int64)
    actions = np.full((paths, periods), -1, dtype=np.int64)
    rewards = np.zeros((paths, periods))
    states[:, 0] = _starts(mdp, start, paths, rng)
    alive = np.ones(paths, dtype=bool)
    for t in range(periods):
        on = np.flatnonzero(alive)
        if not on.size:
            states[:, t + 1 :] = states[:, t : t + 1]
            break
        states[:, t + 1] = states[:, t]
        actions[on, t] = table[states[on, t]]
        steps = mdp.dynamics.step(states[on, t], actions[on, t], rng)
        states[on, t + 1], rewards[on, t] = steps.states, steps.rewards
        alive[on] = ~steps.ended
    return Paths(mdp, states, actions, rewards)


def _starts(mdp: MDP, start: ArrayLike | None, paths: int, rng: np.random.Generator) -> NDArray:
    states = None if start is None else listed_states(mdp, start)
    if states is None:
        return rng.choice(mdp.n_states, size=paths, p=start_distribution(mdp, start))
    if len(states) not in (1, paths):
        raise ModelError(f"start must name 1 or {paths} states", "", f"got {len(states)}")
    return np.broadcast_to(states, (paths,)).copy()
