"""evaluate(mdp, policy) -> Evaluation: what a given policy is worth, by the same loop as solving.

    V_pi = r_pi + discount P_pi V_pi,

solved by Krylov corrections to the enclosure of ``kernels`` with T_pi in place of T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.total import Total
from tessella.errors import expect
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rounding import round_up
from tessella.solvers.backward_induction import induced_value, serves
from tessella.solvers.driver import Callback, Engine, iterate
from tessella.solvers.ending import until_a_policy_ends, zero_at
from tessella.solvers.method import Method
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.result import Result, write_average


@dataclass(frozen=True, eq=False)
class Evaluation(Result):
    """The value of a policy: V_pi lies within ``error_bound`` of ``value`` in every state.

    Attributes:
        start: (grid) distribution of the first state; None where all states are as likely.
    """

    mdp: MDP
    policy: Policy
    start: NDArray[np.float64] | None = None

    @property
    def mean(self) -> float:
        """Expected over the first state, or the gain; known within ``error_bound``."""
        if self.gain is not None:
            return self.gain
        return float(self.value.mean() if self.start is None else (self.start * self.value).sum())

    def __str__(self) -> str:
        of = f"of {self.policy.name or 'a policy'}, {self.mdp.name or 'MDP'}"
        cost, sign = self.mdp.minimise, -1 if self.mdp.minimise else 1
        if self.gain is not None:
            average, kind = write_average(self.mdp, self), "Cost" if cost else "Gain"
            return f"{kind} {of}: {average}, {self.sweeps} sweeps, {self.ending}"
        shown = sign * self.value
        ends = [
            f"{shown.flat[s]:.6g} at {self.mdp.grid.describe(int(s))}"
            for s in (shown.argmin(), shown.argmax())
        ]
        over = "over the start" if self.start is not None else f"over {self.value.size:,} states"
        return (
            f"{'Cost' if cost else 'Value'} {of}: mean {sign * self.mean:.6g} {over}\n"
            f"lowest {ends[0]}, highest {ends[1]}\n"
            f"|V - V_pi| <= {round_up(self.error_bound, 2)}, {self.sweeps} sweeps, {self.ending}"
        )


def evaluate(
    mdp: MDP,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    guess: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
) -> Evaluation:
    """The value of ``policy`` in every state.

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        start: where its mean is taken, any start: see ``tessella.mdp.start``; None for the model's
            own. It has no part in the value of a state.
        tol: bound on max|V - V_pi|; None asks for about twelve digits at least.
        guess: (grid) where to begin, such as the optimum's value.
    """
    expect("evaluate", mdp, MDP)
    checked = mdp.policy(policy)
    first = None
    if start is not None or mdp.start is not None:
        first = start_distribution(mdp, start, checked).reshape(mdp.grid.shape)
    engine = Engine(mdp, tol)
    if guess is None and serves(mdp):
        guess = induced_value(engine, checked.table)
    if isinstance(mdp.criterion, Total):
        engine, ends = until_a_policy_ends(engine, checked.table)
        guess = zero_at(ends, guess)
    found = iterate(
        engine,
        _method(mdp),
        policy=checked.table,
        guess=guess,
        callback=callback,
        partial=partial,
    )
    return Evaluation(**vars(found), mdp=mdp, policy=checked, start=first)


def _method(mdp: MDP) -> Method:
    from tessella.solvers.single_precision import SinglePrecision, pays_off

    return SinglePrecision() if pays_off(mdp) else InexactPolicyIteration(forcing=1e-6)
