"""solve(mdp) -> Solution, by whichever method.

From the enclosure |V - V*| <= e follow the action values, |Q - Q*| <= discount e + eta, and from
these what is certain: an action is *decided* where its margin exceeds ``2 (discount e + eta)``.
"""

from __future__ import annotations

import numpy as np

from tessella.errors import ArgumentError, NotConverged, expect
from tessella.mdp.model import MDP
from tessella.solvers.driver import Callback, Engine, Run, decide, run
from tessella.solvers.linear_programming import LinearProgramming
from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solvers.policy_iteration import InexactPolicyIteration, PolicyIteration
from tessella.solvers.solution import Solution, optimal
from tessella.solvers.value_iteration import ValueIteration

Method = (
    ValueIteration
    | ModifiedPolicyIteration
    | PolicyIteration
    | InexactPolicyIteration
    | LinearProgramming
)

NEAR_ONE = 0.98  # from this discount on, Krylov evaluations beat sweeps
PROGRAM = 1e-9  # without a tolerance, a linear program must be right to so much of the same scale
SMALL = 10_000  # and below this many states, where a sweep costs little more than its overhead


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
        method: by default inexact policy iteration for small models and discounts near 1, and
            modified policy iteration otherwise.
        tol: bound on max|V - V*| for the default method; a method object carries its own.
        callback: called with a ``Progress`` after each sweep; a true answer stops the run.
        partial: return what there is when a limit is reached, instead of raising NotConverged.
    """
    expect("solve", mdp, MDP)
    if method is None:
        method = automatic(mdp, tol)
    elif tol is not None:
        raise ArgumentError("say tol in the method object")
    _check(method)
    if isinstance(method, LinearProgramming):
        return _by_program(mdp, method, callback, partial)
    engine = Engine(mdp, method.tol)
    result = run(engine, method, callback=callback, partial=partial)
    return _solution(mdp, engine, result, type(method).__name__)


def automatic(mdp: MDP, tol: float | None = None) -> Method:
    """The method that ``solve`` takes by itself."""
    if mdp.discount >= NEAR_ONE or mdp.n_states <= SMALL:
        return InexactPolicyIteration(tol)
    return ModifiedPolicyIteration(tol)


def _by_program(
    mdp: MDP, method: LinearProgramming, callback: Callback | None, partial: bool
) -> Solution:
    """The linear program's own answer, enclosed by one look at it and changed by nothing."""
    wanted = method.tol
    if wanted is None:
        wanted = PROGRAM * mdp.dynamics.reward_scale / (1 - mdp.discount) or None
    engine = Engine(mdp, wanted)
    look = ValueIteration(wanted, max_sweeps=1)
    result = run(engine, look, start=method.optimum(mdp), callback=callback, partial=True)
    if not (result.converged or partial):
        raise NotConverged(
            f"the linear program's answer is only known within {result.bound:.3g}, "
            f"short of {wanted:.3g}",
            result,
        )
    return _solution(mdp, engine, result, type(method).__name__)


def _check(method: object) -> None:
    """Refuse what is not a method, and settings that make no sense."""
    if not isinstance(method, Method):
        raise ArgumentError(
            "method must be a method object such as ValueIteration()", value=f"got {method!r}"
        )
    for name in ("max_sweeps", "max_products", "max_states"):
        number = getattr(method, name, 1)
        if not isinstance(number, int) or number < 1:
            raise ArgumentError(
                f"{name} must be a whole number, at least 1", value=f"got {number!r}"
            )
    if getattr(method, "partial_sweeps", 0) < 0:
        given = f"got {method.partial_sweeps}"  # type: ignore[union-attr]
        raise ArgumentError("partial_sweeps must not be negative", value=given)
    if not 0 < getattr(method, "forcing", 0.5) < 1:
        given = f"got {method.forcing}"  # type: ignore[union-attr]
        raise ArgumentError("forcing must lie in (0, 1)", value=given)


def _solution(mdp: MDP, engine: Engine, result: Run, method: str) -> Solution:
    decision = decide(engine, result.value, result.bound)
    tie = float(decision.tie)
    return Solution(
        mdp,
        result.value,
        optimal(mdp, np.asarray(decision.policy)),
        np.asarray(decision.margin),
        np.asarray(decision.margin) > tie,
        result.bound,
        tie,
        result.converged,
        result.reason,
        result.history,
        method,
    )
