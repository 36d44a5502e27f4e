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
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Plain
from tessella.mdp.tabular.rows import DENSE
from tessella.numerics import NUMPY

# Beyond some 9,000 entries a dense product or solve is shared among threads, which wait for one
# another: on busy cores a hundred times longer than a sparse one takes on its own.
DENSE_ENTRIES = 1 << 13  # of rows that are multiplied as dense: a sparse product starts slowly
LONG = 10  # entries of sparse rows, on average: linear systems are then solved by iterations ...
STEPS = 40  # ... of two products each, at most
FEW = 90  # states up to which a linear system is solved as a dense one
QUICK = 1 << 18  # entries whose product takes little longer than all calls of a sweep
SHORT = 4  # entries a pair: moves so simple lead nearby, and policies settle after many sweeps
PAIRS = 1 << 20  # of states and actions, up to which all action values are held at once

Made = TypeVar("Made")


class LastPolicy(Generic[Made]):
    """What was made of the last policy: made anew only where another one comes."""

    def __init__(self) -> None:
        self._kept: tuple[NDArray, Made] | None = None

    def of(self, policy: NDArray, make: Callable[[NDArray], Made]) -> Made:
        kept = self._kept
        if kept is not None and kept[0] is policy:
            return kept[1]
        same = kept is not None and np.array_equal(kept[0], policy)
        made = kept[1] if kept is not None and same else make(policy)
        self._kept = policy, made
        return made


@dataclass(eq=False)
class Table:
    """The numbers of a model, ready to be multiplied."""

    rows: Any  # (U, S) sparse or dense
    row_of: NDArray[np.integer]  # (A, S)
    reward: NDArray[np.float64]  # (A, S)
    places: tuple[slice, ...] | None  # of each action's rows, where they stand at regular places
    quick: bool  # whether sweeps over all actions cost little: their values are held at once
    long: bool  # whether rows have many entries: their linear systems are solved by iterations
    _last: LastPolicy[OneTable] = field(default_factory=LastPolicy, repr=False)

    @staticmethod
    def of(rows: Any, row_of: NDArray, reward: NDArray) -> Table:
        """From distinct sparse rows (U, S) and (S, A) of all else."""
        entries = rows.nnz
        if rows.shape[0] * rows.shape[1] <= max(DENSE_ENTRIES, rows.nnz / DENSE):
            rows = rows.toarray()
        quick = row_of.size <= PAIRS and entries <= max(QUICK, SHORT * row_of.size)
        by_action = np.ascontiguousarray(row_of.T, dtype=np.intp if quick else None)
        paid, places = np.ascontiguousarray(reward.T), _regular(row_of)
        long = not isinstance(rows, np.ndarray) and entries >= LONG * rows.shape[0]
        return Table(rows, by_action, paid, places, quick, long)

    def picked(self, w: NDArray, action: int) -> NDArray[np.float64]:
        """(S,) the entries of ``w = U v`` that belong to an action."""
        return w[self.row_of[action] if self.places is None else self.places[action]]

    def under(self, policy: NDArray) -> OneTable:
        """The rows of one policy; the last is remembered."""
        return self._last.of(policy, lambda policy: self.taken(policy.ravel()))

    def taken(self, actions: NDArray) -> OneTable:
        """The rows of (S,) actions."""
        states = np.arange(len(actions))
        own = self.row_of[actions, states]
        paid = self.reward[actions, states]
        if self.rows.shape[0] <= len(actions):
            return OneTable(self.rows, own, paid, self.long)
        return OneTable(self.rows[own], None, paid, self.long)


def _regular(row_of: NDArray) -> tuple[slice, ...] | None:
    """Where the rows of each action stand, if all pairs stand in order; None if they do not."""
    (n, n_actions), every = row_of.shape, np.arange(row_of.size)
    if (row_of.ravel() == every).all():
        return tuple(slice(a, None, n_actions) for a in range(n_actions))
    if (row_of.T.ravel() == every).all():
        return tuple(slice(a * n, (a + 1) * n) for a in range(n_actions))
    return None


@dataclass(frozen=True, eq=False)
class OneTable:
    """The rows of one policy, or those of all with the places of its own."""

    rows: Any
    own: NDArray[np.integer] | None
    reward: NDArray[np.float64]
    long: bool = False  # whether rows have many entries, on average

    def expect(self, w: NDArray) -> NDArray[np.float64]:
        """(S,) P_pi w."""
        after = self.rows @ w
        return after if self.own is None else after[self.own]

    def solved(self, rhs: NDArray, discount: float, tol: float = 0.0) -> NDArray[np.float64]:
        """(S,) the solution of (I - discount P_pi) x = rhs: directly, or to a residual of ``tol``.

        Long rows fill up as they are eliminated, and mostly mix, so that few iterations will do.
        """
        size = abs(rhs).max(initial=0.0)
        if tol and self.long and size:
            x = self._by_iterations(rhs / size, discount, tol)
            if x is not None:
                return size * x
        return self._eliminated(rhs, discount)

    def _by_iterations(self, rhs: NDArray, discount: float, tol: float) -> NDArray | None:
        """By BiCGSTAB; None where that leaves more than twice ``tol`` of the norm."""

        def system(x):
            return x - self.expect(discount * x)

        x = NUMPY.bicgstab(system, rhs, tol=tol, maxiter=STEPS)
        left = np.linalg.norm(rhs - system(x))
        return x if left <= 2 * tol * np.linalg.norm(rhs) else None

    def _eliminated(self, rhs: NDArray, discount: float) -> NDArray[np.float64]:
        import scipy.sparse as sp
        from scipy.sparse.linalg import splu

        rows, n = self.rows if self.own is None else self.rows[self.own], len(rhs)
        full = isinstance(rows, np.ndarray)
        if n <= FEW or (full and np.count_nonzero(rows) >= DENSE * rows.size):
            system = -discount * (rows if full else rows.toarray())
            system.ravel()[:: n + 1] += 1
            return np.asarray(np.linalg.solve(system, rhs), dtype=np.float64)
        # Each row begins with the 1 of I. As columns they are the transpose, which is factorised.
        rows, states = sp.csr_array(rows) if full else rows, np.arange(n + 1, dtype=np.int32)
        first = rows.indptr[:-1]
        entries = np.insert(-discount * rows.data, first, 1.0)
        places = np.insert(rows.indices, first, states[:-1])
        system = sp.csc_array((entries, places, rows.indptr + states), shape=(n, n))
        return splu(system).solve(rhs, "T")

    def forward(self, x: NDArray) -> NDArray[np.float64]:
        """(S,) P_pi' x."""
        if self.own is not None:
            x = np.bincount(self.own, x, minlength=self.rows.shape[0])
        return self.rows.T @ x


@dataclass(frozen=True)
class TableProgram(Plain):
    """The backward pass of a table."""

    n_actions: int
    shape: tuple[int, ...]

    def tail(self, arrays: Table, w_S, pay):
        if not w_S.any():
            return np.zeros(arrays.rows.shape[0])
        return arrays.rows @ w_S.ravel()

    def head(self, arrays: Table, w, action, pay):
        q_S = arrays.picked(w, action)
        return (q_S + arrays.reward[action] if pay else q_S).reshape(self.shape)

    def quick(self, arrays: Table) -> bool:
        return arrays.quick

    def iterates(self, arrays: Table) -> bool:
        return arrays.long

    def all_actions(self, arrays: Table, w_S):
        if not arrays.quick:
            return None
        q_AS = (arrays.rows @ w_S.ravel()).take(arrays.row_of)
        q_AS += arrays.reward
        return q_AS.reshape(self.n_actions, *self.shape)

    def swept(self, arrays: Table, v_S, policy, count, discount, gain):
        one, v = arrays.under(policy), v_S.ravel()
        paid = one.reward - gain
        for _ in range(count):
            v = one.expect(discount * v)
            v += paid
        return v.reshape(self.shape)

    def under(self, arrays: Table, w_S, policy, pay):
        one = arrays.under(policy)
        after = one.expect(w_S.ravel())
        return (after + one.reward if pay else after).reshape(self.shape)

    def solved(self, arrays: Table, rhs, policy, discount, tol=0.0):
        return arrays.under(policy).solved(rhs.ravel(), discount, tol).reshape(self.shape)

    def forward(self, arrays: Table, x, policy):
        return arrays.under(policy).forward(x.ravel()).reshape(self.shape)
