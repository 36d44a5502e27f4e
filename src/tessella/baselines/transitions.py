"""What the simulator showed: transitions (s, a, r, s'), drawn in the order of a budget.

    (s, a) uniform over the feasible pairs,    (r, s') ~ simulator(s, a)

Draws come in blocks, each with a generator of its own, so that the first n transitions of a seed
are the same whatever the budget they are part of.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.model import MDP

BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Transitions:
    """n transitions."""

    states: NDArray[np.int64]  # (n,)
    actions: NDArray[np.int64]  # (n,)
    rewards: NDArray[np.float64]  # (n,)
    nexts: NDArray[np.int64]  # (n,)
    ended: NDArray[np.bool_]  # (n,) after which nothing follows
    coins: NDArray[np.int64]  # (n,) 0 or 1, for methods that choose between two tables

    def __len__(self) -> int:
        return len(self.states)

    def first(self, n: int) -> Transitions:
        """The first n of them."""
        return Transitions(*(getattr(self, f.name)[:n] for f in fields(self)))


def uniform_transitions(mdp: MDP, n: int, seed: int, begin: int = 0) -> Transitions:
    """Transitions ``begin`` (a multiple of BLOCK) to n, from uniform feasible pairs."""
    pairs = None if mdp.feasible is None else np.flatnonzero(mdp.feasible.ravel())
    numbers = range(begin // BLOCK, -(-n // BLOCK))
    blocks = [_block(mdp, pairs, np.random.default_rng([seed, i])) for i in numbers]
    columns = zip(*blocks, strict=True)
    return Transitions(*(np.concatenate(column)[: n - begin] for column in columns))


def _block(mdp: MDP, pairs: NDArray | None, rng: np.random.Generator) -> tuple[NDArray, ...]:
    """One block; ``pairs`` are the feasible ones, None where all are."""
    n = mdp.n_states * mdp.n_actions if pairs is None else len(pairs)
    drawn = rng.integers(0, n, BLOCK)
    states, actions = np.divmod(drawn if pairs is None else pairs[drawn], mdp.n_actions)
    steps = mdp.dynamics.step(states, actions, rng)
    return states, actions, steps.rewards, steps.states, steps.ended, rng.integers(0, 2, BLOCK)
