"""Tables by NumPy and SciPy: what a processor does with rows, without compiling anything.

With U the distinct rows, one sweep over all actions is one product U w, from which every action
picks its own. A sweep of one policy touches that policy's rows only: they are taken out once, and
kept while the policy stays the same. Where states share rows, so that there are fewer of them than
states, multiplying all of them is less work still. A run begins at w = 0, where U w needs no work.

A call of NumPy takes a microsecond, as long as some hundred products: the actions of a small table
are compared in one go, not one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Backend
from tessella.mdp.tabular.rows import DENSE_MIN_SHARE
from tessella.numerics import NUMPY

Made = TypeVar("Made")


@dataclass(frozen=True)
class RowLayout:
    """How rows are held, and how their linear systems are solved; an execution plan chooses it."""

    dense: bool = False  # rows are a dense matrix
    sweeps_are_cheap: bool = False  # over all actions, whose values are then held at once
    solves_iteratively: bool = False  # linear systems are solved by iterations first ...
    iterations_max_steps: int = 40  # ... of so many steps of two products, at most
    dense_solve_max_states: int = 0  # states up to which a linear system is solved as a dense one


LayoutRule = Callable[[Any, int], RowLayout]  # sparse rows, pairs of states and actions -> layout


class LastPolicyCache(Generic[Made]):
    """What was made of the last policy: made anew only where another one comes."""

    def __init__(self) -> None:
        self._entry: tuple[NDArray, Made] | None = None

    def get(self, policy: NDArray, make: Callable[[NDArray], Made]) -> Made:
        kept = self._entry
        if kept is not None and kept[0] is policy:
            return kept[1]
        same = kept is not None and np.array_equal(kept[0], policy)
        made = kept[1] if kept is not None and same else make(policy)
        self._entry = policy, made
        return made


@dataclass(eq=False)
class RowArrays:
    """The numbers of a model, ready to be multiplied."""

    rows: Any  # (U, S) sparse or dense
    row_of: NDArray[np.integer]  # (A, S)
    reward: NDArray[np.float64]  # (A, S)
    row_slices: tuple[slice, ...] | None  # each action's rows, where they stand at regular places
    layout: RowLayout
    _cache: LastPolicyCache[PolicyRows] = field(default_factory=LastPolicyCache, repr=False)

    @staticmethod
    def build(rows: Any, row_of: NDArray, reward: NDArray, layout: RowLayout) -> RowArrays:
        """From distinct sparse rows (U, S) and (S, A) of all else."""
        index = np.intp if layout.sweeps_are_cheap else None
        by_action = np.ascontiguousarray(row_of.T, dtype=index)
        paid = np.ascontiguousarray(reward.T)
        held = rows.toarray() if layout.dense else rows
        return RowArrays(held, by_action, paid, _regular_slices(row_of), layout)

    def action_entries(self, w: NDArray, action: int) -> NDArray[np.float64]:
        """(S,) the entries of ``w = U v`` that belong to an action."""
        return w[self.row_of[action] if self.row_slices is None else self.row_slices[action]]

    def policy_rows(self, policy: NDArray) -> PolicyRows:
        """The rows of one policy; the last is remembered."""
        return self._cache.get(policy, lambda policy: self.select_rows(policy.ravel()))

    def select_rows(self, actions: NDArray) -> PolicyRows:
        """The rows of (S,) actions."""
        states = np.arange(len(actions))
        own = self.row_of[actions, states]
        paid = self.reward[actions, states]
        if self.rows.shape[0] <= len(actions):
            return PolicyRows(self.rows, own, paid, self.layout)
        return PolicyRows(self.rows[own], None, paid, self.layout)


def _regular_slices(row_of: NDArray) -> tuple[slice, ...] | None:
    """Where the rows of each action stand, if all pairs stand in order; None if they do not."""
    (n, n_actions), every = row_of.shape, np.arange(row_of.size)
    if (row_of.ravel() == every).all():
        return tuple(slice(a, None, n_actions) for a in range(n_actions))
    if (row_of.T.ravel() == every).all():
        return tuple(slice(a * n, (a + 1) * n) for a in range(n_actions))
    return None


@dataclass(frozen=True, eq=False)
class PolicyRows:
    """The rows of one policy, or those of all with the places of its own."""

    rows: Any
    row_index: NDArray[np.integer] | None
    reward: NDArray[np.float64]
    layout: RowLayout = RowLayout()

    def expect(self, w: NDArray) -> NDArray[np.float64]:
        """(S,) P_pi w."""
        after = self.rows @ w
        return after if self.row_index is None else after[self.row_index]

    def solve_system(self, rhs: NDArray, discount: float, tol: float = 0.0) -> NDArray[np.float64]:
        """(S,) the solution of (I - discount P_pi) x = rhs: directly, or to a residual of ``tol``.

        Long rows fill up as they are eliminated, and mostly mix, so that few iterations will do.
        """
        size = abs(rhs).max(initial=0.0)
        if tol and self.layout.solves_iteratively and size:
            x = self._solve_iteratively(rhs / size, discount, tol)
            if x is not None:
                return size * x
        return self._solve_directly(rhs, discount)

    def _solve_iteratively(self, rhs: NDArray, discount: float, tol: float) -> NDArray | None:
        """By BiCGSTAB; None where that leaves more than twice ``tol`` of the norm."""

        def system(x):
            return x - self.expect(discount * x)

        x = NUMPY.bicgstab(system, rhs, tol=tol, maxiter=self.layout.iterations_max_steps)
        left = np.linalg.norm(rhs - system(x))
        return x if left <= 2 * tol * np.linalg.norm(rhs) else None

    def _solve_directly(self, rhs: NDArray, discount: float) -> NDArray[np.float64]:
        import scipy.sparse as sp
        from scipy.sparse.linalg import splu

        rows = self.rows if self.row_index is None else self.rows[self.row_index]
        n = len(rhs)
        full = isinstance(rows, np.ndarray)
        if n <= self.layout.dense_solve_max_states or (
            full and np.count_nonzero(rows) >= DENSE_MIN_SHARE * rows.size
        ):
            system = -discount * (rows if full else rows.toarray())
            system.ravel()[:: n + 1] += 1
            return np.asarray(np.linalg.solve(system, rhs), dtype=np.float64)
        # Each row begins with the 1 of I. As columns they are the transpose, which is factorised.
        rows = sp.csr_array(rows) if full else rows
        states = np.arange(n + 1, dtype=np.int32)
        first = rows.indptr[:-1]
        entries = np.insert(-discount * rows.data, first, 1.0)
        places = np.insert(rows.indices, first, states[:-1])
        system = sp.csc_array((entries, places, rows.indptr + states), shape=(n, n))
        return splu(system).solve(rhs, "T")

    def adjoint(self, x: NDArray) -> NDArray[np.float64]:
        """(S,) P_pi' x."""
        if self.row_index is not None:
            x = np.bincount(self.row_index, x, minlength=self.rows.shape[0])
        return self.rows.T @ x


@dataclass(frozen=True)
class RowBackend(Backend):
    """The backward pass of a table."""

    n_actions: int
    shape: tuple[int, ...]
    is_compiled: ClassVar[bool] = False
    has_direct_solve: ClassVar[bool] = True
    pays_at_the_end: ClassVar[bool] = True

    def shared_backup(self, arrays: RowArrays, w_S, pay):
        if not w_S.any():
            return np.zeros(arrays.rows.shape[0])
        return arrays.rows @ w_S.ravel()

    def action_backup(self, arrays: RowArrays, w, action, pay):
        q_S = arrays.action_entries(w, action)
        return (q_S + arrays.reward[action] if pay else q_S).reshape(self.shape)

    def sweeps_are_cheap(self, arrays: RowArrays) -> bool:
        return arrays.layout.sweeps_are_cheap

    def solves_iteratively(self, arrays: RowArrays) -> bool:
        return arrays.layout.solves_iteratively

    def all_action_values(self, arrays: RowArrays, w_S):
        if not arrays.layout.sweeps_are_cheap:
            return None
        q_AS = (arrays.rows @ w_S.ravel()).take(arrays.row_of)
        q_AS += arrays.reward
        return q_AS.reshape(self.n_actions, *self.shape)

    def iterate_policy(self, arrays: RowArrays, v_S, policy, count, discount, gain):
        one = arrays.policy_rows(policy)
        v = v_S.ravel()
        paid = one.reward - gain
        for _ in range(count):
            v = one.expect(discount * v)
            v += paid
        return v.reshape(self.shape)

    def policy_pass(self, arrays: RowArrays, w_S, policy, pay):
        one = arrays.policy_rows(policy)
        after = one.expect(w_S.ravel())
        return (after + one.reward if pay else after).reshape(self.shape)

    def solve_policy_system(self, arrays: RowArrays, rhs, policy, discount, tol=0.0):
        return (
            arrays.policy_rows(policy).solve_system(rhs.ravel(), discount, tol).reshape(self.shape)
        )

    def policy_adjoint(self, arrays: RowArrays, policy, template):
        rows = arrays.policy_rows(policy)
        return lambda x: rows.adjoint(x.ravel()).reshape(self.shape)
