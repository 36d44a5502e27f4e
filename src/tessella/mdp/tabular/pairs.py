"""State-action pairs and their rows, the common form of all tables of transitions.

For each of L feasible pairs (s, a) there is one row ``P(. | s, a)`` over the S states. A pair that
is not listed is infeasible. Any model is written out as such rows, in the layouts that
``MDP.from_arrays`` and ``MDP.from_pairs`` read: rows of infeasible actions are empty. A model that
can end has rows that sum to less than 1, which those reject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import format_value, raise_for_first
from tessella.mdp.checks import ROW_SUM_TOLERANCE
from tessella.mdp.dynamics import ModelParts
from tessella.mdp.state_action_space import StateActionSpace
from tessella.mdp.tabular.tabular import Outcomes, Tabular
from tessella.rounding import NO_ROUNDING, ModelRounding

if TYPE_CHECKING:
    import scipy.sparse as sp

ArrayLayout = Literal["ASS", "SAS"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """L state-action pairs and their rows."""

    space: StateActionSpace
    states: NDArray[np.int64]  # (L,)
    choices: NDArray[np.int64]  # (L,)
    rows: sp.csr_array  # (L, S)

    @property
    def pair_indices(self) -> NDArray[np.int64]:
        """(L,) ``s * A + a``."""
        return self.states * len(self.space.actions) + self.choices

    @property
    def pair_of_entry(self) -> NDArray[np.int64]:
        """The pair that each stored entry of ``rows`` belongs to."""
        return np.repeat(np.arange(len(self.states)), np.diff(self.rows.indptr))

    def describe(self, pair: int) -> str:
        return self.space.describe_pair(self.states[pair], self.choices[pair])

    def raise_for_pairs(
        self, requirement: str, bad: NDArray, value: Callable[[int], str], noun: str = "pairs"
    ) -> None:
        """Raise for the first of the ``bad`` pairs, and count them."""
        raise_for_first(requirement, bad, self.describe, value, noun)

    def raise_for_entries(
        self, requirement: str, bad: NDArray, value: Callable[[int], str], noun: str = "pairs"
    ) -> None:
        """The same for ``bad`` stored entries; ``value`` describes the first of them."""
        if not bad.any():
            return
        bad_pairs = np.zeros(len(self.states), dtype=bool)
        bad_pairs[self.pair_of_entry[bad]] = True
        # The first bad entry of all is that of the first broken pair.
        first = int(bad.argmax())
        self.raise_for_pairs(requirement, bad_pairs, lambda _: value(first), noun)


def check_rows(pairs: Pairs) -> None:
    """Raise an error for rows that are not probability distributions."""
    check_entries(pairs)
    check_sums(pairs, ROW_SUM_TOLERANCE)


def check_entries(pairs: Pairs) -> None:
    """Raise an error for entries that are negative or not finite."""
    rows = pairs.rows
    grid = pairs.space.grid

    def entry(i: int) -> str:
        return f"holds {format_value(float(rows.data[i]))} for {grid.describe(rows.indices[i])}"

    finite = np.isfinite(rows.data)
    pairs.raise_for_entries("transition rows must be finite", ~finite, entry, "rows")
    pairs.raise_for_entries("transition rows must not be negative", rows.data < 0, entry, "rows")


def check_sums(pairs: Pairs, tolerance: float) -> None:
    """Raise an error for rows whose sum differs from 1 by more than ``tolerance``."""
    sums = pairs.rows.sum(axis=1)
    is_off = np.abs(sums - 1) > tolerance
    requirement = "transition rows must sum to 1"
    pairs.raise_for_pairs(
        requirement, is_off, lambda i: f"sums to {format_value(float(sums[i]))}", "rows"
    )


def check_rewards(pairs: Pairs, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """``rewards`` (L,), checked to be finite."""

    def value(i: int) -> str:
        hint = ", though feasible= says that it can be done" if rewards[i] == -np.inf else ""
        return f"pays {rewards[i]}{hint}"

    pairs.raise_for_pairs("rewards must be finite", ~np.isfinite(rewards), value)
    return rewards


def pairs_from_outcomes(space: StateActionSpace, outcomes: Outcomes, probability: NDArray) -> Pairs:
    """The pairs that have outcomes, with rows of these probabilities."""
    import scipy.sparse as sp

    shape = (len(outcomes.pair_starts) - 1, space.grid.size)
    rows = sp.csr_array((probability, (outcomes.pair, outcomes.state)), shape=shape)
    rows.eliminate_zeros()
    feasible = np.flatnonzero(np.diff(outcomes.pair_starts))
    states, choices = np.divmod(feasible, len(space.actions))
    return Pairs(space, states, choices, rows[feasible])


def select_feasible_rows(
    matrices: list[sp.csr_array], mask: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], sp.csr_array]:
    """States, actions and rows of the feasible pairs, out of a matrix (S, S) for each action."""
    import scipy.sparse as sp

    states, choices = np.nonzero(mask)
    stacked = sp.csr_array(sp.vstack(matrices, format="csr"))
    return states, choices, stacked[choices * len(mask) + states]


def build_tabular(
    pairs: Pairs,
    expected: NDArray[np.float64],
    outcomes: Outcomes | None = None,
    build_rounding: ModelRounding = NO_ROUNDING,
) -> ModelParts:
    """A model's parts from pairs and their ``expected`` rewards (L,)."""
    shape = (pairs.space.grid.size, len(pairs.space.actions))
    row_of = np.full(shape, -1, dtype=np.int64)
    row_of[pairs.states, pairs.choices] = np.arange(len(pairs.states))
    reward = np.zeros(shape)
    reward[pairs.states, pairs.choices] = expected
    dynamics = Tabular.build(pairs.space, pairs.rows, row_of, reward, outcomes, build_rounding)
    return ModelParts(pairs.space, dynamics, row_of >= 0)


@dataclass(frozen=True, eq=False)
class SparseModel:
    """One sparse matrix for each action."""

    transition: list[sp.csr_array]  # A matrices (S, S)
    reward: NDArray[np.float64]  # (S, A), -inf where infeasible
    feasible: NDArray[np.bool_]  # (S, A)
    discount: float


@dataclass(frozen=True, eq=False)
class DenseModel:
    """One dense array, (A, S, S) or (S, A, S)."""

    transition: NDArray[np.float64]
    reward: NDArray[np.float64]  # (S, A), -inf where infeasible
    feasible: NDArray[np.bool_]  # (S, A)
    discount: float


@dataclass(frozen=True, eq=False)
class PairModel:
    """The L feasible pairs, in the order of states and then of actions."""

    states: NDArray[np.int64]  # (L,)
    choices: NDArray[np.int64]  # (L,)
    transition: sp.csr_array  # (L, S)
    reward: NDArray[np.float64]  # (L,)
    discount: float
