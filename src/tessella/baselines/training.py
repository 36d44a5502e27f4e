"""The input and the output of training: transitions of a simulator, a policy and its curve.

    (s, a) uniform over the feasible pairs,    (r, s') ~ simulator(s, a)

Transitions are drawn in blocks, each with a generator of its own, so that the first n transitions
of a seed are the same whatever the budget they are part of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy

TRANSITIONS_PER_BLOCK = 4096  # transitions drawn at a time


class Transitions(NamedTuple):
    """n transitions, an (n,) array in each field; or one, a number in each."""

    states: Any
    actions: Any
    rewards: Any
    nexts: Any
    ended: Any  # after which nothing follows
    coins: Any  # 0 or 1, for methods that choose between two tables

    def take_first(self, n: int) -> Transitions:
        return Transitions(*(column[:n] for column in self))


def draw_uniform_transitions(mdp: MDP, n: int, seed: int) -> Transitions:
    """The first n transitions of a seed."""
    blocks = islice(draw_blocks(mdp, seed), -(-n // TRANSITIONS_PER_BLOCK))
    columns = zip(*blocks, strict=True)
    return Transitions(*(np.concatenate(column)[:n] for column in columns))


def draw_blocks(mdp: MDP, seed: int) -> Iterator[Transitions]:
    """Transitions from uniform feasible pairs, block after block, without end."""
    pairs = None if mdp.feasible is None else np.flatnonzero(mdp.feasible.ravel())
    for index in count():
        yield _draw_block(mdp, pairs, np.random.default_rng([seed, index]))


def _draw_block(mdp: MDP, pairs: NDArray | None, rng: np.random.Generator) -> Transitions:
    """One block; ``pairs`` are the feasible ones, None where all are."""
    n = mdp.n_states * mdp.n_actions if pairs is None else len(pairs)
    drawn = rng.integers(0, n, TRANSITIONS_PER_BLOCK)
    states, actions = np.divmod(drawn if pairs is None else pairs[drawn], mdp.n_actions)
    outcomes = mdp.dynamics.step(states, actions, rng)
    coins = rng.integers(0, 2, TRANSITIONS_PER_BLOCK)
    return Transitions(
        states, actions, outcomes.rewards, outcomes.next_states, outcomes.ended, coins
    )


@dataclass(frozen=True, eq=False)
class TrainingCurve:
    """How training went, without reading the exact solution."""

    unit: Literal["updates", "iterations"]  # what ``at`` counts
    at: NDArray[np.int64]  # (m,) updates, or iterations, done
    tables: NDArray[np.int32]  # (m, grid) the greedy policy at that time
    # (m,) mean absolute change: the temporal difference of the updates since the last entry, or the
    # change of the action values in that iteration.
    residual: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.at)

    def up_to(self, last: int) -> TrainingCurve:
        keep = self.at <= last
        return TrainingCurve(self.unit, self.at[keep], self.tables[keep], self.residual[keep])


@dataclass(frozen=True, eq=False, repr=False)
class TrainedPolicy(Policy):
    """A policy learned from a simulator."""

    curve: TrainingCurve | None = field(default=None, repr=False)  # how training went
    simulator_calls: int = 0  # transitions it was shown

    @classmethod
    def of_method(
        cls, method: Any, mdp: MDP, table: NDArray, curve: TrainingCurve, calls: int
    ) -> Self:
        """The policy that a baseline has learned as a table."""
        return cls.from_table(
            mdp.grid,
            mdp.actions,
            table,
            size=method.size(mdp),
            name=method.title,
            action_name=mdp.action_name,
            curve=curve,
            simulator_calls=calls,
        )


def select_greedy(q_SA: NDArray[np.float64], mdp: MDP) -> NDArray[np.int32]:
    """(grid) lowest feasible action of highest value."""
    best = np.where(mdp.feasible_mask, q_SA, -np.inf).argmax(axis=1)
    return best.reshape(mdp.grid.shape).astype(np.int32)
