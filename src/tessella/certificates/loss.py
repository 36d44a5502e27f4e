"""loss(solution, policy) -> Loss: what a policy gives away, by evaluating it and no more.

    loss(s) = V*(s) - V_pi(s),    known within the error bounds of both together;

for the average criterion it is the difference of the gains, from every state.

A certificate says much more, and proves it to whoever has the model's file; this is the figure to
compare many policies by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, PolicyError, require_type
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rounding import round_down, round_up
from tessella.solvers.evaluate import Evaluation, evaluate
from tessella.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Loss:
    """What a policy loses against the optimum.

    Attributes:
        policy: the policy.
        by_state: (grid) V* - V_pi; 0 where it is no more than both errors could make.
        error_bound: by how much it may be off, in any state.
        start: (grid) distribution of the first state.
        converged: whether both values are known well enough to be of use.
    """

    policy: Policy
    by_state: NDArray[np.float64]
    error_bound: float
    start: NDArray[np.float64]
    converged: bool = True

    @property
    def mean(self) -> float:
        """Expected over the first state."""
        return float((self.start * self.by_state).sum())

    @property
    def worst(self) -> float:
        return float(self.by_state.max())

    def __str__(self) -> str:
        of = f"Loss of {self.policy.name or 'a policy'}"
        if not self.converged:
            low = max(self.mean - self.error_bound, 0.0)
            high = self.mean + self.error_bound
            most = self.worst + self.error_bound
            ends = f"{round_down(low, 6)} and {round_up(high, 6)}"
            return f"{of}: mean between {ends}, worst at most {round_up(most, 6)}"
        return (
            f"{of}: mean {self.mean:.6g}, worst {self.worst:.6g}, "
            f"off by at most {round_up(self.error_bound, 2)}"
        )


def get_finite_value(solution: Solution) -> NDArray[np.float64]:
    """The solution's value (grid), refused where it is not finite."""
    value = np.asarray(solution.value, dtype=float)
    shape = solution.mdp.grid.shape
    if value.shape != shape or not np.isfinite(value).all():
        raise ArgumentError(f"a solution's value must be finite, of shape {shape}")
    return value


def evaluate_against(
    solution: Solution, policy: Policy, noun: str = "value", guess: NDArray | None = None
) -> Evaluation:
    """The policy's value, as accurate as the optimum's or as rounding allows."""
    tol = solution.error_bound or None
    guess = solution.value if guess is None else guess
    plan = solution.policy_plan
    evaluation = evaluate(solution.mdp, policy, tol=tol, guess=guess, partial=True, plan=plan)
    if not np.isfinite(evaluation.error_bound):
        raise PolicyError(f"the policy's {noun} must be finite", value=evaluation.reason)
    return evaluation


def loss(solution: Solution, policy: Any, start: Start = None) -> Loss:
    """What ``policy`` loses against the optimum of the solution's model.

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
    """
    require_type("loss", solution, Solution)
    mdp = solution.mdp
    checked_policy = mdp.policy(policy)
    start_weights = start_distribution(mdp, start, checked_policy, solution.policy_plan).reshape(
        mdp.grid.shape
    )
    plan = solution.policy_plan
    evaluation = evaluate(mdp, checked_policy, guess=solution.value, partial=True, plan=plan)
    error_bound = solution.error_bound + evaluation.error_bound
    by_state = solution.value - evaluation.value
    if solution.gain is not None and evaluation.gain is not None:
        by_state = np.full(mdp.grid.shape, solution.gain - evaluation.gain)
    hidden = by_state <= error_bound
    more = float(np.max(np.abs(by_state), where=hidden, initial=0.0))  # what a 0 leaves out
    by_state[hidden] = 0.0
    return Loss(
        checked_policy,
        by_state,
        error_bound + more,
        start_weights,
        solution.converged and evaluation.converged,
    )
