"""The operators of a model, by NumPy or compiled: T, T_pi and P_pi, as the books call them.

    q(s, a) = r(s, a) - gain + discount sum_s' P(s' | s, a) v(s'),
    (T v)(s) = max_a q(s, a),        (T_pi v)(s) = q(s, pi(s)).

Values are held as V = v + shift with ``shift`` near their middle: what all states share need not go
through the sweeps, where it would cost digits. The ``gain`` is what that takes off each period's
reward. A method of solving sees a model as these operators and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tessella.criteria.criterion import Enclosure
from tessella.mdp.dynamics import Plain, Program, adjoint_under, over_actions, under_policy
from tessella.mdp.tabular.plain import TableProgram
from tessella.numerics import numerics
from tessella.solvers.coarse import corrected, corrected_adjoint

SMALLEST = 1e-280  # rewards below this are rejected: their products could vanish


class Numbers(NamedTuple):
    """What rounding and building do to a backup; numbers, so that changing them is free."""

    unit: np.float64  # rounding of a backup, relative to what goes in
    row_error: np.float64  # relative error of the rows: what building the model cost
    reward_error: np.float64  # absolute error of the rewards, likewise
    reward_scale: np.float64
    tol: np.float64  # 0: as good as is reasonable
    relative: np.float64  # what is reasonable: this share of the largest value, above rounding


class Data(NamedTuple):
    """The numbers of a model, as the engine takes them."""

    arrays: Any  # of the dynamics
    feasible: Any  # (A, *grid), or None
    criterion: Enclosure
    numbers: Numbers
    coarse: Any = None  # what makes the linear systems of slow chains quick: see ``coarse``


@dataclass(frozen=True)
class Operators:
    """The operators of one model; values are arrays of the grid's shape."""

    program: Program | Plain
    data: Data
    gain: Any = 0.0
    fixed: bool = False  # whether a policy is evaluated, and none is looked for

    @property
    def criterion(self) -> Enclosure:
        return self.data.criterion

    def around(self, shift: Any) -> Operators:
        """The operators for values less ``shift``."""
        return Operators(self.program, self.data, self.criterion.gain(shift), self.fixed)

    def q(self, value: Any) -> Callable[[Any], Any]:
        """action -> (grid) its values at ``value``, -inf where it is infeasible."""
        return self._q_of(self.criterion.discount * value)

    def _q_of(self, discounted: Any) -> Callable[[Any], Any]:
        program, feasible, xp = self.program, self.data.feasible, numerics(discounted)
        w = program.tail(self.data.arrays, discounted, True)

        def q_of(action):
            q_S = program.head(self.data.arrays, w, action, True) - self.gain
            return q_S if feasible is None else xp.where(feasible[action], q_S, -xp.inf)

        return q_of

    def bellman(self, value: Any) -> tuple[Any, Any]:
        """(T v, greedy action), without storing states x actions unless they are few."""
        return self._best(self.criterion.discount * value)

    def all_q(self, value: Any) -> Any:
        """(A, grid) the values of all actions, where they are few and NumPy computes; else None."""
        return self._all_q(self.criterion.discount * value)

    def _all_q(self, discounted: Any) -> Any:
        if not isinstance(self.program, Plain):
            return None
        q_A, feasible = self.program.all_actions(self.data.arrays, discounted), self.data.feasible
        if q_A is None:
            return None
        q_A -= self.gain
        return q_A if feasible is None else np.where(feasible, q_A, -np.inf)

    def swept(self, value: Any, count: Any) -> Any:
        """T^count v; what is discounted goes from sweep to sweep, with no pass of its own."""
        discount = self.criterion.discount
        w = discount * value
        w = numerics(value).repeat(count - 1, lambda w: discount * self._highest(w), w)
        return self._highest(w)

    def summed(self, policy: Any, first: Any, count: int) -> tuple[Any, Any, Any]:
        """Sums of ``count`` terms of first + discount P_pi first + ..., of one more, and of two."""
        discount = self.criterion.discount

        def longer(w):
            return first + under_policy(self.program, self.data.arrays, policy, w, False)

        w = numerics(first).repeat(count - 1, lambda w: discount * longer(w), discount * first)
        more = longer(w)
        return w / discount, more, longer(discount * more)

    def _highest(self, discounted: Any) -> Any:
        q_A = self._all_q(discounted)
        return self._best(discounted)[0] if q_A is None else q_A.max(axis=0)

    def _best(self, discounted: Any) -> tuple[Any, Any]:
        q_A = self._all_q(discounted)
        if q_A is not None:
            return q_A.max(axis=0), q_A.argmax(axis=0).astype(np.int32)
        q_of, xp = self._q_of(discounted), numerics(discounted)

        def step(action, carry):
            best, greedy = carry
            q_S = q_of(action)
            better = q_S > best
            greedy = xp.where(better, xp.asarray(action, xp.int32), greedy)
            return xp.where(better, q_S, best), greedy

        lowest = xp.full(discounted.shape, -xp.inf, discounted.dtype)
        start = lowest, xp.zeros(discounted.shape, xp.int32)
        return over_actions(self.program, step, start)

    @property
    def quick(self) -> bool:
        """Whether an optimum is looked for that sweeps over all actions come near to at once."""
        program, arrays = self.program, self.data.arrays
        return not self.fixed and self.direct and program.quick(arrays)  # type: ignore[union-attr]

    @property
    def iterates(self) -> bool:
        """Whether ``solved`` iterates where it is given a tolerance."""
        return self.program.iterates(self.data.arrays)  # type: ignore[union-attr]

    def swept_under(self, policy: Any, value: Any, count: int) -> Any:
        """T_pi^count v, where rewards are discounted and NumPy computes."""
        assert isinstance(self.program, Plain)
        numbers = count, self.criterion.discount, self.gain
        return self.program.swept(self.data.arrays, value, policy, *numbers)

    def sweep(self, policy: Any, value: Any) -> Any:
        """T_pi v."""
        return self._under(policy, value, True) - self.gain

    def expect(self, policy: Any, value: Any) -> Any:
        """discount P_pi v, in the precision of v."""
        return self._under(policy, value, False)

    def _under(self, policy, value, pay: bool):
        w = self.criterion.discount * value
        return under_policy(self.program, self.data.arrays, policy, w, pay)

    def left(self, policy: Any, unknown: Any) -> Any:
        """h + g - discount P_pi h: the left side of the linear system of a policy.

        The unknown holds the values h, and where the criterion knows one, the gain g.
        """
        value, gain = self.criterion.unknown(unknown)
        return value + gain - self.expect(policy, value)

    @property
    def direct(self) -> bool:
        """Whether that system can be solved directly where iterations get nowhere."""
        return isinstance(self.program, Plain) and self.criterion.discount < 1

    def solved(self, policy: Any, residual: Any, tol: float = 0.0) -> Any:
        """Its solution for a right side, or, if that is quicker, one with a residual of ``tol``."""
        assert isinstance(self.program, Plain)
        discount = self.criterion.discount
        return self.program.solved(self.data.arrays, residual, policy, discount, tol)

    def left_adjoint(self, policy: Any, like: Any) -> Callable[[Any], Any]:
        """x -> A' x, with A the matrix of ``left``, for arrays like ``like``.

        The gain is the mean of the unknown, added to every row: that part is its own adjoint.
        """
        forward = adjoint_under(self.program, self.data.arrays, policy, like)
        discount, criterion = self.criterion.discount, self.criterion
        return lambda x: x + criterion.unknown(x)[1] - discount * forward(x)

    def preconditioned(self, residual: Any) -> Any:
        """Roughly the solution of that system, for a right side; the right side itself at worst."""
        return residual if self.data.coarse is None else corrected(self.data.coarse, residual)

    def preconditioned_adjoint(self, residual: Any) -> Any:
        """The same for the adjoint system."""
        coarse = self.data.coarse
        return residual if coarse is None else corrected_adjoint(coarse, residual)

    def evaluated(self, value: Any, unknown: Any) -> Any:
        """``value`` improved by the solution of that system."""
        return value + self.criterion.unknown(unknown)[0]

    def plain(self, policy: Any, value: Any) -> Any:
        """The next point of plain sweeps of a policy."""
        return self.criterion.step(value, self.sweep(policy, value))

    def rounding(self, value: Any, shift: Any, backup: Any = None) -> Any:
        """eta: how far computed action values at ``value``, and at shift + value, may be off.

        With a ``backup``, how far that is off, which only the best actions decide. In a table a
        reward is what an action value has beside the next values, so theirs are no larger than
        |b| + |gain| + largest max|v|, however large those of actions are that nobody takes.
        """
        n, most = self.data.numbers, size(value)
        paid = n.reward_scale
        if backup is not None and isinstance(self.program, TableProgram):
            reached = size(backup) + abs(self.gain) + self.criterion.largest * most
            paid = np.minimum(paid, (1 + 4 * n.unit) * reached + SMALLEST)
        sums = n.unit * (paid + abs(self.gain) + self.criterion.discount * most)
        built = n.reward_error + n.row_error * self.criterion.largest * most
        return sums + self.criterion.uneven(shift, most) + built


def size(x: Any) -> Any:
    """max |x|."""
    return abs(x).max()
