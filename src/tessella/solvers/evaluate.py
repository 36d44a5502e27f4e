"""evaluate(mdp, policy) -> Evaluation: policy evaluation, by the same loop as solving.

    V_pi = r_pi + discount P_pi V_pi,

solved by Krylov corrections and enclosed by ``iteration``, with T_pi in place of T.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted, require_type
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rounding import round_up
from tessella.solvers.absorbing import bound_policy_absorption, zero_absorbing_states
from tessella.solvers.backward_induction import evaluate_by_periods
from tessella.solvers.execution_plan import ExecutionPlan, plan_for_policies
from tessella.solvers.loop import Callback, iterate
from tessella.solvers.method import Method
from tessella.solvers.mixed_precision import MixedPrecision
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result, format_average

DOUBLE_FORCING = 1e-6  # share of the residual that an iteration in double precision may leave


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
        subject = f"of {self.policy.name or 'a policy'}, {self.mdp.name or 'MDP'}"
        sense = self.mdp.sense
        sweeps = counted(self.sweeps, "sweep")
        if self.gain is not None:
            average = format_average(self.mdp, self)
            return f"{sense.gain.capitalize()} {subject}: {average}, {sweeps}, {self.status_text}"
        display_value = sense.display(self.value)
        extremes = [
            f"{display_value.flat[s]:.6g} at {self.mdp.grid.describe(int(s))}"
            for s in (display_value.argmin(), display_value.argmax())
        ]
        averaged = "over the start"
        if self.start is None:
            averaged = f"over {self.value.size:,} states"
        return (
            f"{sense.value.capitalize()} {subject}: "
            f"mean {sense.display(self.mean):.6g} {averaged}\n"
            f"lowest {extremes[0]}, highest {extremes[1]}\n"
            f"|V - V_pi| <= {round_up(self.error_bound, 2)}, "
            f"{sweeps}, {self.status_text}"
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
    plan: ExecutionPlan | None = None,
) -> Evaluation:
    """The value of ``policy`` in every state.

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        start: where its mean is taken, any start: see ``tessella.mdp.start``; None for the model's
            own. It has no part in the value of a state.
        tol: bound on max|V - V_pi|; None asks for about twelve digits at least.
        guess: (grid) where to begin, such as the optimum's value.
        plan: the routes to take, such as ``solution.plan``; by default chosen for the model.
    """
    require_type("evaluate", mdp, MDP)
    checked_policy = mdp.policy(policy)
    plan = plan_for_policies(mdp, plan)
    start_weights = None
    if start is not None or mdp.start is not None:
        weights = start_distribution(mdp, start, checked_policy, plan)
        start_weights = weights.reshape(mdp.grid.shape)
    prepared = PreparedModel(plan, tol)
    evaluation = evaluate_prepared(
        prepared, checked_policy, guess, callback=callback, partial=partial
    )
    return replace(evaluation, start=start_weights)


def evaluate_prepared(
    prepared: PreparedModel,
    policy: Policy,
    guess: NDArray | None = None,
    *,
    callback: Callback | None = None,
    partial: bool = False,
) -> Evaluation:
    """Evaluate on a prepared model, to its tolerance; its plan must be one for policies."""
    mdp = prepared.mdp
    if guess is None and mdp.dynamics.n_periods is not None:
        guess = evaluate_by_periods(prepared, policy.table)
    if mdp.criterion.requires_absorption:
        prepared, absorbing = bound_policy_absorption(prepared, policy.table)
        guess = zero_absorbing_states(absorbing, guess)
    result = iterate(
        prepared,
        _choose_method(prepared.plan),
        policy=policy.table,
        guess=guess,
        callback=callback,
        partial=partial,
    )
    return Evaluation(**vars(result), mdp=mdp, policy=policy)


def _choose_method(plan: ExecutionPlan) -> Method:
    thresholds = plan.thresholds.evaluation
    if plan.evaluation_precision == "double":
        return InexactPolicyIteration(forcing=DOUBLE_FORCING, thresholds=thresholds)
    return MixedPrecision(thresholds=thresholds)
