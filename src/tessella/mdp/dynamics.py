"""The dynamics of one period: the interface of all representations of a model.

For an array ``w`` over next states, and every state ``s`` and action ``a`` (names of arrays end in
_S if they are over states, in _A if over actions),

    backup(w)[s, a] = r(s, a) + sum_s' P(s' | s, a) w(s').

It has two halves: the part that depends on no action is computed once (``shared_backup``), the rest
once per action (``action_backup``), so that a maximum over actions never stores states x actions.
Solvers, evaluation and occupancies use these; simulation, files and bounds use ``Dynamics``.

A simulation draws the outcomes of many walkers (independent paths) at once, by inversion:

    k = #{j : F_j <= u F_K},    u uniform on [0, 1),    F the cumulated probabilities.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, ModelError
from tessella.mdp.state_action_space import StateActionSpace
from tessella.numerics import array_namespace
from tessella.rounding import EPS, RoundingBounds, RowSumBounds

if TYPE_CHECKING:
    import scipy.sparse as sp
    from scipy.sparse.linalg import SuperLU

    from tessella.mdp.stages.sharded import ShardLayout
    from tessella.mdp.tabular.rows import LayoutRule

Built = TypeVar("Built")
TILED_MIN_LAST_AXIS = 64  # length of the last axis from which tiles are faster than plain forms


@dataclass(frozen=True)
class TileSizes:
    """How kernels of an accelerator cut a grid into tiles.

    Args:
        columns, window_bytes, unrolled_terms, warps: see the fields.
        interpret: True to run kernels in Python, for tests.

    Example:
        >>> ts.TileSizes(columns=64).columns
        64
    """

    columns: int = 128  # of a tile: a power of two
    # Bytes of a column in a sliding window, which lies in registers: 32 rows in single precision.
    # Twice as many take 0.3 s less for a billion states, and 90 s more to compile.
    window_bytes: int = 128
    unrolled_terms: int = 4  # terms of a sliding sum in one iteration of its loop
    warps: int = 4  # of a program on the device
    interpret: bool = False  # run the kernels without an accelerator, slowly


class Backend(ABC):
    """How a backup is computed: hashable structure, with the numbers passed in as arrays.

    Two models of one structure and shape share a backend, and so share compiled code. A backend
    writes the two halves of a backward pass; it may have faster ways for a policy, for all actions
    at once, and for the linear system of a policy.
    """

    n_actions: int
    is_compiled: ClassVar[bool] = True  # by JAX; else NumPy runs it at once
    has_direct_solve: ClassVar[bool] = False  # ``solve_policy_system`` is there
    has_separate_reward: ClassVar[bool] = False  # an action value is a reward plus the next values

    @abstractmethod
    def shared_backup(self, arrays: Any, w_S: Any, include_reward: bool) -> Any:
        """The part of the backward pass that no action touches."""

    @abstractmethod
    def action_backup(self, arrays: Any, w: Any, action: Any, include_reward: bool) -> Any:
        """The rest of the backward pass, for one action: an array over states."""

    def supports_policy_arrays(self, arrays: Any) -> bool:
        """Whether ``finish_policy_backup`` computes all states at once, not action by action."""
        return False

    def finish_policy_backup(self, arrays: Any, w: Any, policy: Any, include_reward: bool) -> Any:
        """The same as ``action_backup``, with each state's own action in ``policy`` (grid)."""
        raise NotImplementedError

    def policy_backup(self, arrays: Any, w_S: Any, policy: Any, include_reward: bool) -> Any:
        """The whole backward pass with each state's own action, in the precision of ``w_S``."""
        w = self.shared_backup(arrays, w_S, include_reward)
        if self.supports_policy_arrays(arrays):
            return self.finish_policy_backup(arrays, w, policy, include_reward)
        xp = array_namespace(w_S)

        def step(action, total):
            return xp.where(
                policy == action, self.action_backup(arrays, w, action, include_reward), total
            )

        return fold_actions(self, step, xp.zeros_like(w_S))

    def policy_adjoint(self, arrays: Any, policy: Any, template: Any) -> Callable[[Any], Any]:
        """x -> P_pi' x for arrays like ``template``: a distribution, one period later."""
        import jax

        forward = jax.linear_transpose(
            lambda v: self.policy_backup(arrays, v, policy, False), template
        )
        return lambda x: forward(x)[0]

    def sweeps_are_cheap(self, arrays: Any) -> bool:
        """Whether a pass over all actions costs little more than its function calls."""
        return False

    def all_action_values(self, arrays: Any, w_S: Any) -> Any:
        """(A, grid) the whole pass for all actions; None where that takes too much memory."""
        return None

    def shard_layout(self, shape: tuple[int, ...]) -> ShardLayout | None:
        """How arrays over a grid of ``shape`` lie on several devices; None on one."""
        return None

    def has_long_rows(self, arrays: Any) -> bool:
        """Whether rows have enough entries that the factors of a linear system fill up."""
        return False

    def solve_policy_system(self, arrays: Any, rhs: Any, policy: Any, discount: float) -> Any:
        """The solution x of (I - discount P_pi) x = rhs."""
        raise NotImplementedError


@dataclass(frozen=True)
class CompileOptions:
    """How JAX runs a model; an execution plan chooses it."""

    tiles: TileSizes | None = None  # of the kernels of an accelerator; None for plain forms
    one_period_at_a_time: bool = False  # of a horizon, to save memory


PLAIN_FORMS = CompileOptions()


@dataclass(frozen=True)
class BackendModel:
    """Dynamics ready for the solvers."""

    backend: Backend
    arrays: object


REWARD = "reward"  # the name of the objective among the amounts of a period


@dataclass(frozen=True, eq=False)
class Payment:
    """An amount that is paid, or counted by a measure, in a period or in one of its stages."""

    expected: Any  # over the noise, as an array by action and state
    error: float = 0.0  # bound on what rounding did to it
    function: Callable[..., Any] | None = None  # of coordinates, action and noise, for simulation


def combine_payments(parts: Mapping[str, Payment], weights: Mapping[str, float]) -> Payment:
    """The weighted sum of amounts, those without a weight counting 0, and its rounding."""
    weighted = [(weights.get(name, 0.0), part) for name, part in parts.items()]
    terms = [weight * np.asarray(part.expected) for weight, part in weighted]
    total_size = sum(float(np.abs(term).max()) for term in terms)
    error = sum(abs(weight) * part.error for weight, part in weighted)
    error = (error + EPS * len(terms) * total_size) * (1 + EPS * len(terms))
    return Payment(sum(terms[1:], start=terms[0]), error)


@dataclass(frozen=True)
class StepResult:
    """One sampled transition of each of n independent walkers."""

    next_states: NDArray[np.int64]  # (n,)
    rewards: NDArray[np.float64]  # (n,)
    ended: NDArray[np.bool_]  # (n,) whether the process ended in this period


class Dynamics(ABC):
    """Transition law and rewards of an MDP on a grid."""

    space: StateActionSpace
    has_stages: ClassVar[bool] = False  # a period is a list of stages, which can be cut into blocks
    offers_rows: ClassVar[bool] = False  # ``as_rows`` gives a table where it is small enough

    @property
    def is_table(self) -> bool:
        """Whether the dynamics, or all their periods, are given as rows."""
        return False

    @property
    def n_periods(self) -> int | None:
        """Periods of a horizon; None without one."""
        return None

    @property
    def distinct_periods(self) -> Sequence[Dynamics]:
        """The dynamics of each period, those that are the same once."""
        return [self]

    @property
    def max_row_entries(self) -> int:
        """Upper bound on the probabilities in the largest table of a period; 0 without a table.

        Of tables, their number.
        """
        return 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.space.grid.shape

    @property
    def n_actions(self) -> int:
        return len(self.space.actions)

    @abstractmethod
    def compute_row_sums(self) -> RowSumBounds:
        """Bounds on the row sums."""

    @property
    def is_interpolated(self) -> bool:
        """Whether a coordinate may land between grid points, and goes to the neighbours."""
        return False

    @property
    @abstractmethod
    def rounding(self) -> RoundingBounds:
        """What rounding may do to its numbers and to a backup."""

    @property
    @abstractmethod
    def longest_row(self) -> int:
        """Most next states of one state and action, or a bound on them."""

    @property
    @abstractmethod
    def adjoint_rounding_terms(self) -> int:
        """``rounding.backup_terms`` of the adjoint, which adds up all flow into a state."""

    @property
    @abstractmethod
    def reward_scale(self) -> float:
        """An upper bound on the size of any expected reward, and of partial sums over stages."""

    @property
    def kind(self) -> str:
        """The word for these dynamics in descriptions, messages and files: ``staged``."""
        return type(self).__name__.lower()

    @abstractmethod
    def compile(self, options: CompileOptions = PLAIN_FORMS) -> BackendModel:
        """The compiled backend and its arrays, as an execution plan chose (imports JAX)."""

    def as_rows(self, max_entries: float = math.inf) -> Dynamics | None:
        """The same dynamics by rows, which NumPy multiplies; None where they offer none.

        None also where rows turn out to have more than ``max_entries`` probabilities.
        """
        return None

    def build_numpy_model(self, choose_layout: LayoutRule | None = None) -> BackendModel:
        """The backend that NumPy runs, of dynamics that are rows, laid out by a rule."""
        raise TypeError(f"{type(self).__name__} are not rows")

    @abstractmethod
    def to_sparse(self) -> list[sp.csr_array]:
        """One (S, S) matrix for each action: ``P_a[s, s']``."""

    def policy_matrix(self, policy: NDArray) -> sp.csr_array:
        """(S, S) P_pi, sparse, for a table of actions."""
        import scipy.sparse as sp

        actions = policy.ravel()
        rows_by_action = [
            sp.diags_array((actions == a).astype(float)) @ matrix
            for a, matrix in enumerate(self.to_sparse())
        ]
        return sp.csr_array(sum(rows_by_action[1:], rows_by_action[0]))

    @abstractmethod
    def action_reward(self, action: int) -> NDArray[np.float64]:
        """(S,) expected one-period reward of one action."""

    def expected_reward(self) -> NDArray[np.float64]:
        """(S, A) expected one-period reward."""
        return np.stack([self.action_reward(a) for a in range(self.n_actions)], axis=1)

    @property
    def counts(self) -> frozenset[str]:
        """Names of the amounts that measures count in addition to the reward."""
        return frozenset()

    def with_reward(self, weights: Mapping[str, float]) -> Dynamics:
        """The same transitions with another reward: a weighted sum of reward and counts."""
        raise ModelError(f"{self.kind} dynamics count nothing but the reward")

    @abstractmethod
    def step(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rng: np.random.Generator
    ) -> StepResult:
        """Sample one period from each (state, action)."""

    def factorise_policy_system(self, policy: NDArray, discount: float) -> SuperLU | None:
        """``I - discount P_pi``, factorised; None from dynamics that offer no direct solve.

        Solvers use it where iterations make no progress.
        """
        return None

    def max_displacement(self, axis: int) -> tuple[int, int] | None:
        """How far a period may move a state down and up ``axis``; None where that is not known."""
        return None

    @cached_property
    def row_sums(self) -> RowSumBounds:
        return self.compute_row_sums()

    @cached_property
    def backend_model(self) -> BackendModel:
        """As the dynamics were given: NumPy multiplies rows, JAX compiles all else."""
        return self.build_numpy_model() if self.is_table else self.compile()

    def get_or_build(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """The result of ``build``, computed once for each key and kept with the dynamics."""
        if "_built" not in self.__dict__:
            object.__setattr__(self, "_built", {})
        built = self.__dict__["_built"]
        if key not in built:
            built[key] = build()
        return built[key]

    def __getstate__(self) -> dict[str, Any]:
        # Compiled arrays would be read back in the process's own precision, which may be 32 bits.
        left_out = {"backend_model", "_built"}
        return {key: value for key, value in self.__dict__.items() if key not in left_out}


@dataclass(frozen=True, eq=False)
class ModelParts:
    """The result of a builder: all parts of a model but its criterion and its name."""

    space: StateActionSpace
    dynamics: Dynamics
    feasible: NDArray[np.bool_] | None = None  # (S, A)
    start: NDArray[np.float64] | None = None  # (S,)


@dataclass(frozen=True)
class SourceModel:
    """The saved model whose tables a loaded model consists of.

    Its numbers are those of the tables up to the rounding that the file states, and bounds of
    either hold for it, so a loaded model has its fingerprint as long as the tables are unchanged.
    """

    kind: str  # of dynamics: ``staged``
    fingerprint: str
    table_fingerprint: str  # of the tables in the file


def fold_actions(backend: Backend, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """``carry = step(action, carry)`` for every action, from ``start`` on."""
    first = start[0] if isinstance(start, tuple) else start
    return array_namespace(first).fold(backend.n_actions, step, start)


def as_generator(rng: object) -> np.random.Generator:
    """A generator from ``rng``: a generator or a seed, but not None."""
    try:
        if rng is not None:
            return np.random.default_rng(rng)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    raise ArgumentError("rng must be a generator or an integer seed", value=f"got {rng!r}")


def draw_indices(cumulative: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index for each row of cumulated probabilities, drawn by inversion."""
    u = rng.random(len(cumulative)) * cumulative[:, -1]  # below the total even after rounding
    return (cumulative <= u[:, None]).sum(axis=-1)


def take_walker_entries(array: NDArray, actions: NDArray, positions: Sequence[NDArray]) -> NDArray:
    """Entries of ``array`` (A | 1, *broadcast, ...) at the walkers' actions and positions."""
    index = [x if n > 1 else 0 for x, n in zip(positions, array.shape[1:], strict=False)]
    return array[(actions if len(array) > 1 else np.zeros_like(actions), *index)]
