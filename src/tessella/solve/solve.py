"""solve(mdp) -> Solution, by whichever method.

From the enclosure |V - V*| <= e follow the action values, |Q - Q*| <= discount e + eta, and from
these what is certain: an action is *decided* where its margin exceeds ``2 (discount e + eta)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.solve.driver import Callback, Engine, Run, q_values, run
from tessella.solve.linear_programming import LinearProgramming
from tessella.solve.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solve.policy_iteration import InexactPolicyIteration, PolicyIteration
from tessella.solve.solution import Solution
from tessella.solve.value_iteration import ValueIteration

Method = (
    ValueIteration
    | ModifiedPolicyIteration
    | PolicyIteration
    | InexactPolicyIteration
    | LinearProgramming
)

NEAR_ONE = 0.98  # from this discount on, Krylov evaluations beat sweeps


def solve(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    callback: Callback | None = None,
    partial: bool = False,
) -> Solution:
    """The optimal value, action values and policy of ``mdp``, with a bound on their error.

    Args:
        method: value iteration, or inexact policy iteration for discounts near 1, by default.
        tol: bound on max|V - V*| for the default method; a method object carries its own.
        callback: called with a ``Progress`` after each sweep; a true answer stops the run.
        partial: return what there is when a limit is reached, instead of raising NotConverged.
    """
    if method is None:
        method = ValueIteration(tol) if mdp.discount < NEAR_ONE else InexactPolicyIteration(tol)
    elif tol is not None:
        raise ValueError("say tol in the method object")
    engine = Engine(mdp, method.tol)
    if isinstance(method, LinearProgramming):
        start = method.optimum(mdp)
        polish = InexactPolicyIteration(method.tol, max_sweeps=20)
        result = run(engine, polish, start=start, callback=callback, partial=partial)
    else:
        result = run(engine, method, callback=callback, partial=partial)
    return _solution(mdp, engine, result, type(method).__name__)


def _solution(mdp: MDP, engine: Engine, result: Run, method: str) -> Solution:
    q, eta = q_values(engine, result.value)
    tie = 2 * (mdp.discount * mdp.dynamics.mass.high * result.bound + eta)
    best, second = _two_best(q)
    table = np.argmax(q >= (best - tie)[..., None], axis=-1)
    # inf - inf cannot arise: every state has a feasible action.
    margin = best - second
    return Solution(
        mdp,
        result.value,
        q,
        Policy(mdp.grid, mdp.actions, table, name="optimal"),
        margin,
        margin > tie,
        result.bound,
        tie,
        result.converged,
        result.reason,
        result.history,
        method,
    )


def _two_best(q: NDArray) -> tuple[NDArray, NDArray]:
    """Best and second-best action values; the second is -inf where there is only one."""
    best = np.full(q.shape[:-1], -np.inf)
    second = best.copy()
    for a in range(q.shape[-1]):
        second = np.maximum(second, np.minimum(best, q[..., a]))
        best = np.maximum(best, q[..., a])
    return best, second
