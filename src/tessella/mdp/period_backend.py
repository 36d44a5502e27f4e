"""A finite horizon whose periods are tables, by NumPy: nothing is compiled for it.

Each period multiplies its own rows by what the next one is worth; periods that are the same share
one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Backend
from tessella.mdp.tabular.row_backend import LastPolicyCache, PolicyRows, RowArrays


@dataclass(eq=False)
class PeriodRows:
    """The tables of all periods, one object where they are the same, and what the end pays."""

    periods: list[RowArrays]
    final: NDArray[np.float64]
    _cache: LastPolicyCache[list[PolicyRows]] = field(default_factory=LastPolicyCache, repr=False)

    def policy_rows(self, policy: NDArray) -> list[PolicyRows]:
        """The rows of one policy, period by period; the last policy is remembered."""
        return self._cache.get(policy, self._select_rows)

    def _select_rows(self, policy: NDArray) -> list[PolicyRows]:
        taken = zip(self.periods, policy, strict=True)
        return [table.select_rows(own.ravel()) for table, own in taken]


@dataclass(frozen=True)
class PeriodBackend(Backend):
    """The backward pass of a horizon whose periods are tables."""

    n_actions: int
    period: Backend
    is_compiled: ClassVar[bool] = False
    has_direct_solve: ClassVar[bool] = True

    def final(self, arrays: PeriodRows):
        """What the end pays."""
        return arrays.final

    def period_arrays(self, arrays: PeriodRows, time):
        """The arrays of one period."""
        return arrays.periods[time]

    def shared_backup(self, arrays: PeriodRows, w_S, pay):
        after = zip(arrays.periods, self._next_values(arrays, w_S, pay), strict=True)
        return [self.period.shared_backup(own, w, pay) for own, w in after]

    def action_backup(self, arrays: PeriodRows, w, action, pay):
        each = zip(arrays.periods, w, strict=True)
        return np.stack([self.period.action_backup(own, v, action, pay) for own, v in each])

    def policy_pass(self, arrays: PeriodRows, w_S, policy, pay):
        after = zip(arrays.policy_rows(policy), self._next_values(arrays, w_S, pay), strict=True)
        found = [one.expect(w.ravel()) + (one.reward if pay else 0.0) for one, w in after]
        return np.stack(found).reshape(w_S.shape)

    def solve_policy_system(self, arrays: PeriodRows, rhs, policy, discount, tol=0.0):
        x = rhs.copy()
        under = arrays.policy_rows(policy)
        for t in reversed(range(len(x) - 1)):
            x[t] += discount * under[t].expect(x[t + 1].ravel()).reshape(x[t].shape)
        return x

    def policy_adjoint(self, arrays: PeriodRows, policy, template):
        def move(x):
            moved = np.zeros_like(x)
            for t, one in enumerate(arrays.policy_rows(policy)[:-1]):
                moved[t + 1] = one.adjoint(x[t].ravel()).reshape(x[t].shape)
            return moved

        return move

    def _next_values(self, arrays: PeriodRows, w_S, pay) -> list[NDArray]:
        """What each period leads to: the next, or the end."""
        return [*w_S[1:], arrays.final if pay else np.zeros_like(w_S[0])]
