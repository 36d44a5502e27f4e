"""evaluate(mdp, policy) -> Evaluation: what a given policy is worth, by the same loop as solving.

    V_pi = r_pi + discount P_pi V_pi,

solved by Krylov corrections to the enclosure of ``kernels`` with T_pi in place of T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import expect
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.solvers.driver import Callback, Engine, run
from tessella.solvers.history import History
from tessella.solvers.policy_iteration import InexactPolicyIteration


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of a policy: V_pi lies within ``error_bound`` of ``value`` in every state."""

    mdp: MDP
    policy: Policy
    value: NDArray[np.float64]  # (grid)
    error_bound: float
    converged: bool
    reason: str
    history: History

    def __str__(self) -> str:
        state = "converged" if self.converged else f"not converged ({self.reason})"
        lowest, highest = int(self.value.argmin()), int(self.value.argmax())
        ends = [
            f"{self.value.flat[s]:.6g} at {self.mdp.grid.describe(s)}" for s in (lowest, highest)
        ]
        return (
            f"Value of {self.policy.name or 'a policy'}, {self.mdp.name or 'MDP'}: "
            f"mean {self.value.mean():.6g} over {self.value.size:,} states\n"
            f"lowest {ends[0]}, highest {ends[1]}\n"
            f"|V - V_pi| <= {self.error_bound:.2g}, {len(self.history)} sweeps, {state}"
        )


def evaluate(
    mdp: MDP,
    policy: Any,
    *,
    tol: float | None = None,
    guess: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
) -> Evaluation:
    """The value of ``policy`` in every state.

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        tol: bound on max|V - V_pi|; None asks for about twelve digits.
        guess: (grid) where to begin, such as the optimum's value.
    """
    expect("evaluate", mdp, MDP)
    checked = mdp.policy(policy)
    method = InexactPolicyIteration(tol, forcing=1e-6)
    engine = Engine(mdp, tol)
    done = run(
        engine, method, policy=checked.table, start=guess, callback=callback, partial=partial
    )
    return Evaluation(
        mdp, checked, done.value, done.bound, done.converged, done.reason, done.history
    )
