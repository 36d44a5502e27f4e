"""What happens in one period, behind one small interface.

For an array ``w`` over next states, and every state ``s`` and action ``a``,

    backup(w)[s, a] = r(s, a) + sum_s' P(s' | s, a) w(s').

It comes in two halves: what no action touches is done once (``tail``), the rest once per action
(``head``), so that a maximum over actions never stores states x actions. Solvers, evaluation and
occupancies need no more; simulation, files and bounds ask for the rest of ``Dynamics``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.scope import Scope
from tessella.numerics import numerics
from tessella.rounding import Built, Mass

if TYPE_CHECKING:
    import scipy.sparse as sp


class Program(Protocol):
    """The compiled side of dynamics: hashable structure, with the numbers passed in as arrays.

    Two models of one structure and shape share a program, and so share compiled code.
    """

    @property
    def n_actions(self) -> int: ...

    def tail(self, arrays: Any, w_S: Any, pay: bool) -> Any:
        """The part of the backward pass that no action touches."""
        ...

    def head(self, arrays: Any, w: Any, action: Any, pay: bool) -> Any:
        """The rest of the backward pass, for one action: an array over states."""
        ...

    def follows(self, arrays: Any) -> bool:
        """Whether ``head_under`` does the rest for a policy in one go, not action by action."""
        ...

    def head_under(self, arrays: Any, w: Any, policy: Any, pay: bool) -> Any:
        """The same as ``head``, with each state's own action in ``policy`` (grid)."""
        ...


class Plain(ABC):
    """A program that NumPy runs at once; nothing is compiled for it.

    It has the halves of a backward pass as every program has, and these beside them.
    """

    n_actions: int

    @abstractmethod
    def tail(self, arrays: Any, w_S: Any, pay: bool) -> Any: ...

    @abstractmethod
    def head(self, arrays: Any, w: Any, action: Any, pay: bool) -> Any: ...

    @abstractmethod
    def under(self, arrays: Any, w_S: Any, policy: Any, pay: bool) -> Any:
        """The whole backward pass with each state's own action in ``policy`` (grid)."""

    def quick(self, arrays: Any) -> bool:
        """Whether a pass over all actions takes hardly longer than the calls that it is made of."""
        return False

    def iterates(self, arrays: Any) -> bool:
        """Whether ``solved`` iterates where it is given a tolerance."""
        return False

    def all_actions(self, arrays: Any, w_S: Any) -> Any:
        """(A, grid) the whole pass for all actions at once; None where that would hold too much."""
        return None

    def swept(
        self, arrays: Any, v_S: Any, policy: Any, count: int, discount: float, gain: float
    ) -> Any:
        """``count`` times v = under(discount v) - gain."""
        for _ in range(count):
            v_S = self.under(arrays, discount * v_S, policy, True) - gain
        return v_S

    @abstractmethod
    def solved(self, arrays: Any, rhs: Any, policy: Any, discount: float, tol: float = 0.0) -> Any:
        """The solution x of (I - discount P_pi) x = rhs, or one with a residual of ``tol``."""

    @abstractmethod
    def forward(self, arrays: Any, x: Any, policy: Any) -> Any:
        """P_pi' x: where shares ``x`` of walkers are one period later."""


@dataclass(frozen=True)
class Lowered:
    """Dynamics ready for the solvers."""

    program: Program | Plain
    arrays: object


@dataclass(frozen=True)
class Steps:
    """One transition each of n independent walkers."""

    states: NDArray[np.int64]  # (n,) where they arrive
    rewards: NDArray[np.float64]  # (n,) what was paid on the way
    ended: NDArray[np.bool_]  # (n,) whether the process stopped


class Factorised(Protocol):
    """A linear system that has been factorised, such as scipy's sparse LU."""

    def solve(self, rhs: NDArray, trans: str = "N") -> NDArray:
        """Solve it, or with ``trans="T"`` its transpose."""
        ...


class Dynamics(ABC):
    """Transition law and rewards of an MDP on a grid."""

    scope: Scope  # its states and actions

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scope.grid.shape

    @property
    def n_actions(self) -> int:
        return len(self.scope.actions)

    @abstractmethod
    def row_mass(self) -> Mass:
        """Bounds on the row sums."""

    @property
    def interpolated(self) -> bool:
        """Whether a coordinate may land between cut points, and goes to the neighbours."""
        return False

    @property
    @abstractmethod
    def built(self) -> Built:
        """What building cost: how far the stored numbers may be off the given ones."""

    @property
    def stored(self) -> Built:
        """The same for the numbers as they came, where ``built`` counts rows made of them too."""
        return self.built

    @property
    @abstractmethod
    def written(self) -> Built:
        """The same for the rows and rewards that a file of this model holds."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """Most floating-point additions and products behind one number of a backup."""

    @property
    @abstractmethod
    def longest_row(self) -> int:
        """Most next states of one state and action, or a bound on them."""

    @property
    @abstractmethod
    def adjoint_terms(self) -> int:
        """The same for the adjoint, where all that reaches one state is added up."""

    @property
    @abstractmethod
    def reward_scale(self) -> float:
        """An upper bound on the size of any expected reward, and of partial sums over stages."""

    @abstractmethod
    def lower(self) -> Lowered:
        """Program and arrays for the compiled engine (imports JAX)."""

    @abstractmethod
    def to_sparse(self) -> list[sp.csr_array]:
        """One (S, S) matrix for each action: ``P_a[s, s']``."""

    @abstractmethod
    def reward_under(self, action: int) -> NDArray[np.float64]:
        """(S,) expected one-period reward of one action."""

    def expected_reward(self) -> NDArray[np.float64]:
        """(S, A) expected one-period reward."""
        return np.stack([self.reward_under(a) for a in range(self.n_actions)], axis=1)

    @abstractmethod
    def step(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rng: np.random.Generator
    ) -> Steps:
        """Sample one period from each (state, action)."""

    def factorised(self, policy: NDArray, discount: float) -> Factorised | None:
        """``I - discount P_pi``, factorised; None from dynamics that offer no direct solve.

        It is asked for where iterations get nowhere.
        """
        return None

    def reach(self, axis: int) -> tuple[int, int] | None:
        """How far a period may move a state down and up ``axis``; None where that is not known."""
        return None

    @cached_property
    def mass(self) -> Mass:
        return self.row_mass()

    @cached_property
    def lowered(self) -> Lowered:
        return self.lower()

    @cached_property
    def compiled(self) -> Lowered:
        """The same for whoever needs a program that can be compiled."""
        return self.lower() if isinstance(self.lowered.program, Plain) else self.lowered

    def __getstate__(self) -> dict[str, Any]:
        # Engine arrays would be read back in the process's own precision, which may be 32 bits.
        left = {"lowered", "compiled"}
        return {key: value for key, value in self.__dict__.items() if key not in left}


@dataclass(frozen=True, eq=False)
class Parts:
    """What a builder makes: all of a model but its discount and its name."""

    scope: Scope  # states and actions
    dynamics: Dynamics
    feasible: NDArray[np.bool_] | None = None  # (S, A)
    start: NDArray[np.float64] | None = None  # (S,)


def over_actions(program: Program | Plain, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """Fold ``step(action, carry)`` over all actions."""
    first = start[0] if isinstance(start, tuple) else start
    return numerics(first).fold(program.n_actions, step, start)


def under_policy(program: Program | Plain, arrays: Any, policy: Any, w_S: Any, pay: bool) -> Any:
    """The backward pass with each state's own action, in the precision of ``w_S``."""
    if isinstance(program, Plain):
        return program.under(arrays, w_S, policy, pay)
    w = program.tail(arrays, w_S, pay)
    if program.follows(arrays):
        return program.head_under(arrays, w, policy, pay)
    xp = numerics(w_S)

    def step(action, total):
        return xp.where(policy == action, program.head(arrays, w, action, pay), total)

    return over_actions(program, step, xp.zeros_like(w_S))


def adjoint_under(
    program: Program | Plain, arrays: Any, policy: Any, like: Any
) -> Callable[[Any], Any]:
    """x -> P_pi' x, for arrays like ``like``: the way forward in time."""
    if isinstance(program, Plain):
        return lambda x: program.forward(arrays, x, policy)
    import jax

    forward = jax.linear_transpose(lambda v: under_policy(program, arrays, policy, v, False), like)
    return lambda x: forward(x)[0]
