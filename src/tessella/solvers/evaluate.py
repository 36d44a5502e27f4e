"""evaluate(mdp, policy) -> Evaluation: policy evaluation, by the same loop as solving.

    V_pi = r_pi + discount P_pi V_pi,

solved by Krylov corrections and enclosed by ``iteration``, with T_pi in place of T.

A measure is evaluated like the objective: the same model with a count as its reward. An average is
stated as the model states averages: per period, or per unit of time in a model built from rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted, require_type
from tessella.mdp.dynamics import REWARD
from tessella.mdp.measures import CONSTANT, MeasureValue, Weights
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import Start, start_distribution
from tessella.rounding import EPS, round_up
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

    @cached_property
    def measures(self) -> dict[str, MeasureValue | None]:
        """All measures of the model; None for a ratio whose denominator may be 0."""
        return _evaluate_measures(self)

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


def sum_scale(mdp: MDP) -> float:
    """What expected sums are multiplied by to be stated: an average may be per unit of time."""
    return average_unit(mdp.clock)[0] if mdp.criterion.has_gain else 1.0


def evaluate_sum(
    mdp: MDP,
    policy: Any,
    weights: Weights,
    start: Start = None,
    *,
    tol: float | None = None,
    guess: NDArray | None = None,
) -> tuple[MeasureValue, NDArray | None]:
    """The expected weighted sum of counts under a policy, and its value in every state."""
    counted = {name: weight for name, weight in weights.items() if name != CONSTANT}
    number = weights.get(CONSTANT, 0.0)
    if not counted:
        return MeasureValue.from_sum(number, 0.0), None
    model = mdp.with_objective(counted)
    evaluation = evaluate(model, policy, start, tol=tol, guess=guess, partial=True)
    return state_sum(mdp, evaluation.mean, evaluation.error_bound, number), evaluation.value


def state_sum(mdp: MDP, mean: float, error: float, number: float = 0.0) -> MeasureValue:
    """A mean over the start or a gain, with a number added, as measures state it."""
    scale = sum_scale(mdp)
    value = scale * mean + number
    rounding = 4 * EPS * (abs(scale * mean) + abs(value))
    return MeasureValue.from_sum(value, scale * error + rounding)


def _evaluate_measures(evaluation: Evaluation) -> dict[str, MeasureValue | None]:
    """All measures of the model under a policy; None for a ratio whose denominator may be 0."""
    mdp = evaluation.mdp
    names = set().union(*(measure.names for measure in mdp.measures.values()))
    start = None if evaluation.start is None else evaluation.start
    sums = {
        name: evaluate_sum(mdp, evaluation.policy, {name: 1.0}, start)[0]
        for name in sorted(names - {REWARD})
    }
    sums[REWARD] = state_sum(mdp, evaluation.mean, evaluation.error_bound)
    sums[CONSTANT] = MeasureValue.from_sum(1.0, 0.0)
    return {
        name: divide(
            add_up((weight, sums[n]) for n, weight in measure.numerator.items()),
            add_up((weight, sums[n]) for n, weight in measure.denominator.items()),
        )
        for name, measure in mdp.measures.items()
    }


def add_up(terms: Iterable[tuple[float, MeasureValue]]) -> MeasureValue:
    """A weighted sum of enclosed numbers."""
    listed = list(terms)
    size = sum(abs(weight * term.value) for weight, term in listed)
    error = sum(abs(weight) * term.error_bound for weight, term in listed)
    value = float(sum(weight * term.value for weight, term in listed))
    return MeasureValue.from_sum(value, float(error + 4 * EPS * len(listed) * size))


def divide(top: MeasureValue, below: MeasureValue) -> MeasureValue | None:
    """The ratio of two enclosed numbers; None where the second may be 0."""
    if below.low <= 0 <= below.high:
        return None
    ends = [t / b for t in (top.low, top.high) for b in (below.low, below.high)]
    outward = 4 * EPS * float(np.abs(ends).max())
    return MeasureValue(top.value / below.value, min(ends) - outward, max(ends) + outward)
