"""Tabular dynamics: rows ``P(. | s, a)``, identical rows stored once.

With U the distinct rows and ``row_of[s, a]`` the one that (s, a) uses,

    backup(w)[s, a] = r(s, a) + (U w)[row_of[s, a]].

A row may sum to less than 1: with the missing probability the process ends, and earns 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.grid import index_type
from tessella.mdp.checks import ROW_SUM_TOLERANCE
from tessella.mdp.dynamics import (
    PLAIN_FORMS,
    REWARD,
    BackendModel,
    CompileOptions,
    Dynamics,
    Payment,
    StepResult,
    combine_payments,
)
from tessella.mdp.state_action_space import StateActionSpace
from tessella.mdp.tabular.rows import (
    CompiledRowBackend,
    LayoutRule,
    RowArrays,
    RowBackend,
    RowLayout,
    compile_rows,
    count_max_repeats,
    draw_entries,
    find_first,
    find_unique_rows,
    round_up_size,
)
from tessella.rounding import (
    EPS,
    NO_ROUNDING,
    ModelRounding,
    RoundingBounds,
    RowSumBounds,
    bound_expectation_error,
    bound_row_sums,
)

if TYPE_CHECKING:
    import scipy.sparse as sp
    from scipy.sparse.linalg import SuperLU


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Single outcomes of each (state, action), for models that pay by outcome or can end.

    Those of pair ``s * A + a`` are ``pair_starts[pair]:pair_starts[pair + 1]``.
    """

    pair_starts: NDArray[np.int64]
    state: NDArray[np.int64]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]
    ended: NDArray[np.bool_]

    @staticmethod
    def from_list(
        pair: NDArray,
        n_pairs: int,
        state: NDArray,
        probability: NDArray,
        reward: NDArray,
        ended: NDArray | None = None,
    ) -> Outcomes:
        """From a list of outcomes in any order; ``pair`` holds the pair of each of them."""
        order = np.argsort(pair, kind="stable")
        count = np.bincount(pair, minlength=n_pairs)
        ended = np.zeros(len(pair), dtype=bool) if ended is None else ended
        return Outcomes(
            np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            state[order].astype(np.int64),
            probability[order],
            reward[order],
            ended[order],
        )

    @property
    def pair(self) -> NDArray[np.int64]:
        """The pair of each outcome."""
        return np.repeat(np.arange(len(self.pair_starts) - 1), np.diff(self.pair_starts))

    @property
    def expected_reward(self) -> NDArray[np.float64]:
        """(S * A,) expected over the outcomes, 0 for a pair without any."""
        return self.expected(self.reward)

    def rounding(self, factors: int = 1) -> ModelRounding:
        """Rounding error of adding up outcomes with the same next state, and expected rewards.

        Each probability is a product of ``factors`` numbers.
        """
        max_terms = int(np.diff(self.pair_starts).max(initial=0)) + factors - 1
        merged = count_max_repeats(self.pair, self.state) + factors - 1
        sizes = self.expected(np.abs(self.reward))
        return ModelRounding(
            EPS * merged if merged > 1 else 0.0, bound_expectation_error(max_terms, sizes)
        )

    def expected(self, paid: NDArray) -> NDArray[np.float64]:
        """(S * A,) expectation of ``paid``, the amount of each outcome."""
        total = np.bincount(self.pair, self.probability * paid, minlength=len(self.pair_starts) - 1)
        return total.astype(float)


@dataclass(frozen=True, eq=False)
class Tabular(Dynamics):
    """Dynamics given as arrays; built by ``MDP.from_arrays`` and other builders."""

    space: StateActionSpace
    rows: sp.csr_array  # (n_rows, S) distinct rows
    row_of: NDArray[np.integer]  # (S, A); 0 where the action is infeasible
    reward: NDArray[np.float64]  # (S, A); 0 where the action is infeasible
    outcomes: Outcomes | None = None
    build_rounding: ModelRounding = NO_ROUNDING  # rounding errors of its construction
    counted: Mapping[str, Payment] = field(default_factory=dict)  # (S, A) expected amounts

    offers_rows = True

    def fingerprint_key(self) -> tuple:
        """What enters the fingerprint of a model: not its measures."""
        table = self.space, self.rows, self.row_of, self.reward
        return (*table, self.outcomes, self.build_rounding)

    @property
    def counts(self) -> frozenset[str]:
        return frozenset(self.counted)

    def with_reward(self, weights: Mapping[str, float]) -> Tabular:
        reward = Payment(self.reward, self.build_rounding.reward_error)
        total = combine_payments({**self.counted, REWARD: reward}, weights)
        outcomes = self.outcomes
        if outcomes is not None:  # each outcome pays the expected reward of its pair
            outcomes = replace(outcomes, reward=total.expected.ravel()[outcomes.pair])
        rounding = ModelRounding(self.build_rounding.row_error, total.error)
        return replace(self, reward=total.expected, outcomes=outcomes, build_rounding=rounding)

    @staticmethod
    def build(
        space: StateActionSpace,
        rows: sp.csr_array,
        row_of: NDArray,
        reward: NDArray,
        outcomes: Outcomes | None = None,
        build_rounding: ModelRounding = NO_ROUNDING,
    ) -> Tabular:
        """Store each distinct row once; ``row_of`` is -1 where the action is infeasible.

        Rows are in the order in which pairs first use them.
        """
        is_feasible = row_of >= 0
        first, index = find_first(row_of[is_feasible])
        distinct, which = find_unique_rows(rows[row_of[is_feasible][first]])
        row_index = np.zeros(row_of.shape, dtype=index_type(len(distinct.indptr) - 1))
        row_index[is_feasible] = which[index]
        return Tabular(space, distinct, row_index, reward, outcomes, build_rounding)

    def compute_row_sums(self) -> RowSumBounds:
        return bound_row_sums(self.rows)

    @property
    def rounding(self) -> RoundingBounds:
        return RoundingBounds(self.build_rounding, self.build_rounding, self.longest_row + 2)

    @cached_property
    def longest_row(self) -> int:  # type: ignore[override]
        return int(np.diff(self.rows.indptr).max())

    @cached_property
    def adjoint_rounding_terms(self) -> int:  # type: ignore[override]
        """An upper bound over all policies, in which states may share a row by different actions.

        The flow into a state is added up row by row, and within a row state by state; or over all
        states at once that have a row which reaches it.
        """
        n = len(self.row_of)
        n_rows = len(self.rows.indptr) - 1
        pairs = np.arange(n, dtype=np.int64)[:, None] * n_rows + self.row_of
        users = np.bincount(np.unique(pairs) % n_rows, minlength=n_rows)
        into = np.bincount(self.rows.indices, np.repeat(users, np.diff(self.rows.indptr)), 1)
        by_row = int(users.max()) + int(np.bincount(self.rows.indices, minlength=1).max())
        return max(by_row, min(n, int(into.max()))) + 2

    @cached_property
    def reward_scale(self) -> float:  # type: ignore[override]
        return float(np.abs(self.reward).max())

    @property
    def is_table(self) -> bool:
        return True

    @property
    def max_row_entries(self) -> int:
        return self.rows.nnz

    def as_rows(self, max_entries: float = math.inf) -> Tabular | None:
        return self if self.rows.nnz <= max_entries else None

    def build_numpy_model(self, choose_layout: LayoutRule) -> BackendModel:
        layout = choose_layout(self.rows, self.row_of.size)
        table = RowArrays.build(self.rows, self.row_of, self.reward, layout)
        return BackendModel(RowBackend(self.n_actions, self.shape), table)

    @cached_property
    def backend_model(self) -> BackendModel:
        return self.build_numpy_model(lambda rows, n_pairs: RowLayout())

    def compile(self, options: CompileOptions = PLAIN_FORMS) -> BackendModel:
        from tessella.mdp.compilation import to_device

        arrays = compile_rows(self.rows, self.space.grid.size)
        arrays["row_of"] = np.ascontiguousarray(self.row_of.T)
        arrays["reward"] = np.ascontiguousarray(self.reward.T)
        n_rows = round_up_size(len(self.rows.indptr) - 1)
        backend = CompiledRowBackend(n_rows, self.n_actions, self.shape)
        return BackendModel(backend, to_device(arrays))

    def factorise_policy_system(self, policy: NDArray, discount: float) -> SuperLU:
        """A sparse LU of ``I - discount P_pi``, (S, S)."""
        from scipy.sparse import csc_array, eye_array
        from scipy.sparse.linalg import splu

        identity = eye_array(len(self.row_of), format="csr")
        return splu(csc_array(identity - discount * self.policy_matrix(policy)))

    def to_sparse(self) -> list[sp.csr_array]:
        return [self.rows[self.row_of[:, a]] for a in range(self.n_actions)]

    def policy_matrix(self, policy: NDArray) -> sp.csr_array:
        return self.rows[self.row_of[np.arange(len(self.row_of)), policy.ravel()]]

    def reward_with_final(self, final: NDArray) -> NDArray[np.float64]:
        """(S, A) expected reward, with ``final`` (S,) paid in the state reached."""
        return self.reward + (self.rows @ final)[self.row_of]

    def action_reward(self, action: int) -> NDArray[np.float64]:
        return self.reward[:, action].copy()

    def step(self, states, actions, rng) -> StepResult:
        outcomes = self.outcomes
        if outcomes is not None:
            pairs = states * self.n_actions + actions
            entry = draw_entries(outcomes.pair_starts, outcomes.probability, pairs, rng)
            return StepResult(outcomes.state[entry], outcomes.reward[entry], outcomes.ended[entry])
        row_indices = self.row_of[states, actions]
        reached = states.copy()
        continue_probability = self.rows.sum(axis=1)[row_indices]  # the rest of 1 ends the process
        ended = np.zeros(len(states), dtype=bool)
        if (continue_probability < 1 - ROW_SUM_TOLERANCE).any():
            ended = rng.random(len(states)) >= continue_probability
        if not ended.all():
            entry = draw_entries(self.rows.indptr, self.rows.data, row_indices[~ended], rng)
            reached[~ended] = self.rows.indices[entry]
        return StepResult(reached, self.reward[states, actions], ended)
