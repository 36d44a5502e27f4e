"""Playing a model forward: n independent paths under a policy, from a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, expect, shown
from tessella.grid import unmasked
from tessella.mdp.checks import SUM_TOLERANCE, as_numbers, shape_of
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

    def __str__(self) -> str:
        n, periods = self.rewards.shape
        returns, ended = self.returns, int((self.actions[:, -1] < 0).sum())
        visited = len(np.unique(self.states))
        return (
            f"Paths, {self.mdp.name or 'MDP'}: {n:,} paths of {periods:,} periods, "
            f"{ended:,} ended early\n"
            f"discounted return: mean {returns.mean():.6g}, "
            f"from {returns.min():.6g} to {returns.max():.6g}\n"
            f"{visited:,} of {self.mdp.n_states:,} states visited"
        )


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


def start_distribution(mdp: MDP, start: ArrayLike | None) -> NDArray[np.float64]:
    """(S,) probabilities of the first state, from whatever is called a start:

    None            the model's own, or all states as likely
    an integer      that state
    integers        a list of states, each entry as likely
    floats          the probabilities of all states, flat or in the grid's shape
    """
    if start is None:
        return np.full(mdp.n_states, 1.0 / mdp.n_states) if mdp.start is None else mdp.start
    states = _listed_states(mdp, start)
    if states is not None:
        return np.bincount(states, minlength=mdp.n_states) / len(states)
    weights = as_numbers(start, "start probabilities").ravel()
    if weights.size != mdp.n_states:
        raise ModelError(
            f"a start distribution has {mdp.n_states} entries", "", f"got {weights.size}"
        )
    bad = np.flatnonzero(~(weights >= 0) | np.isinf(weights))
    if bad.size:
        place, value = mdp.grid.describe(int(bad[0])), f"has {weights[bad[0]]}"
        rule = "start probabilities must be finite and not negative"
        raise ModelError(rule, place, value, bad.size, weights.size, "states")
    total = weights.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise ModelError("start probabilities must sum to 1", "", f"they sum to {shown(total)}")
    # Rounding is left alone, so that a start comes back as it was given.
    return weights if abs(total - 1) <= 1e-14 else weights / total


def _starts(mdp: MDP, start: ArrayLike | None, paths: int, rng: np.random.Generator) -> NDArray:
    states = None if start is None else _listed_states(mdp, start)
    if states is None:
        return rng.choice(mdp.n_states, size=paths, p=start_distribution(mdp, start))
    if len(states) not in (1, paths):
        raise ModelError(f"start must name 1 or {paths} states", "", f"got {len(states)}")
    return np.broadcast_to(states, (paths,)).copy()


def _listed_states(mdp: MDP, start: ArrayLike) -> NDArray[np.int64] | None:
    """The states that a start of integers names; None if it is a distribution."""
    shape_of(start, "start")
    array = np.asarray(unmasked(start, "start"))
    rule = "a start is a state index, a list of them, or a distribution written as floats"
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and (array.ndim > 1 or not array.size)):
        raise ModelError(rule, "", f"got {array.dtype} of shape {array.shape}")
    if array.dtype.kind not in "iu":
        return None
    states = np.atleast_1d(array)
    if array.shape == (mdp.n_states,) and states.max() == 1 and states.min() >= 0:
        raise ModelError(rule, "", f"0 and 1 for each of {len(states)} states could mean either")
    bad = states[(states < 0) | (states >= mdp.n_states)]
    if bad.size:
        raise ModelError(f"states must lie in 0..{mdp.n_states - 1}", "", f"got {bad[0]}")
    return states.astype(np.int64)
