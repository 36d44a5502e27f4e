"""A finite horizon whose periods are tables, by NumPy: nothing is compiled for it.

Each period multiplies its own rows by what the next one is worth; periods that are the same share
one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Plain
from tessella.mdp.tabular.plain import LastPolicy, OneTable, Table


@dataclass(eq=False)
class TimedTable:
    """The tables of all periods, one object where they are the same, and what the end pays."""

    periods: list[Table]
    final: NDArray[np.float64]
    _last: LastPolicy[list[OneTable]] = field(default_factory=LastPolicy, repr=False)

    def under(self, policy: NDArray) -> list[OneTable]:
        """The rows of one policy, period by period; the last policy is remembered."""
        return self._last.of(policy, self._taken)

    def _taken(self, policy: NDArray) -> list[OneTable]:
        taken = zip(self.periods, policy, strict=True)
        return [table.taken(own.ravel()) for table, own in taken]


@dataclass(frozen=True)
class TimedTableProgram(Plain):
    """The backward pass of a horizon whose periods are tables."""

    n_actions: int
    period: Plain

    def final(self, arrays: TimedTable):
        """What the end pays."""
        return arrays.final

    def at(self, arrays: TimedTable, time):
        """The arrays of one period."""
        return arrays.periods[time]

    def tail(self, arrays: TimedTable, w_S, pay):
        after = zip(arrays.periods, self._after(arrays, w_S, pay), strict=True)
        return [self.period.tail(own, w, pay) for own, w in after]

    def head(self, arrays: TimedTable, w, action, pay):
        each = zip(arrays.periods, w, strict=True)
        return np.stack([self.period.head(own, v, action, pay) for own, v in each])

    def under(self, arrays: TimedTable, w_S, policy, pay):
        after = zip(arrays.under(policy), self._after(arrays, w_S, pay), strict=True)
        found = [one.expect(w.ravel()) + (one.reward if pay else 0.0) for one, w in after]
        return np.stack(found).reshape(w_S.shape)

    def solved(self, arrays: TimedTable, rhs, policy, discount, tol=0.0):
        x, under = rhs.copy(), arrays.under(policy)
        for t in reversed(range(len(x) - 1)):
            x[t] += discount * under[t].expect(x[t + 1].ravel()).reshape(x[t].shape)
        return x

    def forward(self, arrays: TimedTable, x, policy):
        moved = np.zeros_like(x)
        for t, one in enumerate(arrays.under(policy)[:-1]):
            moved[t + 1] = one.forward(x[t].ravel()).reshape(x[t].shape)
        return moved

    def _after(self, arrays: TimedTable, w_S, pay) -> list[NDArray]:
        """What each period leads to: the next, or the end."""
        return [*w_S[1:], arrays.final if pay else np.zeros_like(w_S[0])]
