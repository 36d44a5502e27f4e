"""evaluate(mdp, policy) -> Evaluation: what a given policy is worth, by the same loop as solving.

    V_pi = r_pi + discount P_pi V_pi,

solved by Krylov corrections to the enclosure of ``kernels`` with T_pi in place of T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def evaluate(
    mdp: MDP,
    policy: Policy | ArrayLike,
    *,
    tol: float | None = None,
    start: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
) -> Evaluation:
    """The value of ``policy`` in every state.

    Args:
        policy: a Policy, or a grid-shaped table of action indices.
        tol: bound on max|V - V_pi|; None asks for about twelve digits.
        start: (grid) a first guess, such as the optimum's value.
    """
    expect("evaluate", mdp, MDP)
    checked = mdp.policy(policy)
    method = InexactPolicyIteration(tol, forcing=1e-6)
    engine = Engine(mdp, tol)
    done = run(
        engine, method, policy=checked.table, start=start, callback=callback, partial=partial
    )
    return Evaluation(
        mdp, checked, done.value, done.bound, done.converged, done.reason, done.history
    )
