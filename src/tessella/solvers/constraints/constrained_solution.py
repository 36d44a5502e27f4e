"""The optimum subject to constraints, as ``solve(mdp, subject_to=...)`` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import REWARD
from tessella.mdp.measures import Constraint, MeasureValue, Weights, describe_constraints
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import average_unit
from tessella.rounding import round_up
from tessella.solvers.policy_evaluation import evaluate, weigh_sums
from tessella.solvers.solution import Solution
from tessella.support.text import format_percent


@dataclass(frozen=True, eq=False)
class EvaluatedPolicy:
    """A policy and its expected sums.

    Attributes:
        sums: expected sums of the reward and of each count that constraints read, by name.
        occupancy: share of time in each state, if the sums were computed from it.
        price: if there is one constraint, a price at which the policy is the best; else NaN.
        value: the value of every state in the model with this price.
    """

    policy: Policy
    sums: Mapping[str, MeasureValue]
    occupancy: NDArray[np.float64] | None = None
    price: float = np.nan
    value: NDArray[np.float64] | None = None

    @property
    def reward(self) -> MeasureValue:
        return self.sums[REWARD]

    @property
    def error_bound(self) -> float:
        """The largest error of its sums."""
        return max(value.error_bound for value in self.sums.values())

    def weigh(self, weights: Weights) -> MeasureValue:
        """A weighted sum of its sums."""
        return weigh_sums(weights, self.sums)


@dataclass(frozen=True)
class ConstraintResult:
    """A constraint at the optimum.

    Attributes:
        name: the name of its measure.
        constraint: what was requested.
        value: the measure's value in the optimal mixture.
        price: what the objective loses for one more unit of the level: the shadow price.
    """

    name: str
    constraint: Constraint
    value: float
    price: float

    @property
    def is_binding(self) -> bool:
        return self.price > 0


@dataclass(frozen=True)
class RandomisedState:
    """A state in which the optimal policy draws its action."""

    state: int
    actions: tuple[int, ...]
    probabilities: tuple[float, ...]  # of these actions


@dataclass(frozen=True, eq=False)
class ConstrainedSolution:
    """The optimum subject to constraints.

    Attributes:
        low, high: the optimum of all policies lies between them, as a reward.
        mixture: policies and their weights; one of them is drawn at the start.
        randomised: states in which the same optimum is reached by drawing an action at each visit:
            at most one for each constraint. Elsewhere the policies of the mixture agree. Empty
            where nothing is drawn, or where such states were not found.
        best: the best deterministic policy found, with its reward; None where none was found.
        constraints: each constraint, with its value and shadow price.
        lagrangian: the solution of the model whose reward includes the constraints at their prices:
            it proves ``high``.
        excess: of each constraint, the weighted sum of counts that must not be negative.
        multipliers: the prices of these sums in ``lagrangian``.
    """

    mdp: MDP
    low: float
    high: float
    mixture: tuple[tuple[float, Policy], ...]
    randomised: tuple[RandomisedState, ...]
    best: EvaluatedPolicy | None
    constraints: tuple[ConstraintResult, ...]
    lagrangian: Solution
    excess: tuple[Weights, ...]
    multipliers: tuple[float, ...]

    @property
    def policy(self) -> Policy | None:
        return None if self.best is None else self.best.policy

    @cached_property
    def measures(self) -> dict[str, MeasureValue | None]:
        """All measures of ``policy``."""
        return {} if self.policy is None else evaluate(self.mdp, self.policy).measures

    @property
    def terms(self) -> str:
        """The constraints in words."""
        return describe_constraints({result.name: result.constraint for result in self.constraints})

    def __str__(self) -> str:
        sense = self.mdp.sense
        low, high = sense.display_interval(self.low, self.high)
        width = round_up(max(high - low, 0.0), 2)
        lines = [
            f"{sense.goal.capitalize()} of {self.mdp.name or 'the model'} with {self.terms}: "
            f"{low:.6g}, known within {width}",
        ]
        for result in self.constraints:
            reached = f"not binding, reaches {result.value:.6g}"
            if result.is_binding:
                reached = f"binding; {describe_price(self.mdp, result)}"
            lines.append(f"  {result.name} {result.constraint}: {reached}")
        lines += self._describe_mixture()
        if self.best is not None:
            shown = sense.display(self.best.reward.value)
            loss = max(self.high - self.best.reward.value, 0.0)
            share = (
                f"{loss:.3g}" if abs(self.high) <= loss else format_percent(loss / abs(self.high))
            )
            lines.append(f"best deterministic policy found: {shown + 0.0:.6g}, {share} worse")
        return "\n".join(lines)

    def _describe_mixture(self) -> list[str]:
        lines = []
        for drawn in self.randomised:
            last, *others = (self.mdp.describe(drawn.state, action) for action in drawn.actions)
            shares = map(format_percent, drawn.probabilities[1:])
            choices = " or ".join(map("{} with {}".format, others, shares))
            lines.append(f"the optimum randomises once: {choices}, else {last}")
        if lines:
            return lines
        if len(self.mixture) == 1:
            return ["the optimum is deterministic"]
        weights = " and ".join(format_percent(weight) for weight, _ in self.mixture)
        return [f"the optimum draws one of {len(self.mixture)} policies at the start: {weights}"]


def choose_price_step(mdp: MDP, name: str) -> tuple[float, str]:
    """(change of the measure ``name`` whose price is stated, that change in words)."""
    return (0.01, "percentage point") if mdp.is_share(name) else (1.0, "unit")


def describe_price(mdp: MDP, result: ConstraintResult) -> str:
    """``one percentage point more costs 0.0675 per period``: a shadow price in words."""
    step, unit = choose_price_step(mdp, result.name)
    change = "more" if result.constraint.sign > 0 else "less"
    verb = "costs" if mdp.sense.is_cost else "forgoes"
    per_time = f" {average_unit(mdp.clock)[1]}" if mdp.criterion.has_gain else ""
    return f"one {unit} {change} {verb} {step * result.price:.4g}{per_time}"
