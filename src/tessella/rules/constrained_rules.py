"""The smallest rule that satisfies constraints on measures, within a loss of the best policy.

Let ``high`` bound what any policy earns that satisfies the constraints G_j >= 0, and h(y) >= high
the optimum of the model that pays R + sum_j y_j G_j at prices y >= 0. Then a rule that satisfies
the constraints has

    high - R(pi) = L(pi) + y G(pi) - (h(y) - high),   L(pi) = h(y) - R(pi) - y G(pi) >= 0,

so one within ``limit`` of ``high`` has L(pi) <= limit + h(y) - high in the model with prices y:
what a search proves there about sizes holds of constrained rules too. The best policies at the
optimal prices lie on the edge of a constraint, where every other rule misses it; so models with
higher prices are searched as well. Excesses and rewards of what is returned are proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import REWARD
from tessella.mdp.measures import CONSTANT, add_weights, scale_weights
from tessella.mdp.policy import Policy
from tessella.mdp.start import start_distribution
from tessella.rounding import EPS, round_down, round_up
from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.rules.loss_target import LossTarget, check_loss, collect_model_facts, make_loss_target
from tessella.solvers.constrained import ConstrainedSolution
from tessella.solvers.evaluate import divide, evaluate_sum, state_sum, sum_scale
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve

PRICE_FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)  # of the optimal prices
MISSED_PRICE_FACTOR = 2  # of the prices: what a search charges a rule for missing a constraint


@dataclass(frozen=True, eq=False)
class PricedModel:
    """The model with prices on the constraints, as a search of constrained rules needs it.

    Attributes:
        evaluator: what rules lose there, their excess at these prices included.
        loss_target: ``limit`` and ``gap`` together.
        gap: h(y) - high, by which losses there exceed those against ``high``.
    """

    evaluator: ConstrainedEvaluator
    loss_target: LossTarget
    gap: float


@dataclass(frozen=True, eq=False)
class ProvenRule:
    """A rule that is proven to satisfy the constraints.

    Attributes:
        loss: what a policy that satisfies them may earn more, at most.
        statements: of each constraint: "fill_rate 0.9812, at least 0.98".
    """

    loss: float
    statements: tuple[str, ...]
    certificate: Any = None

    def collect_facts(self, problem: ConstrainedProblem) -> dict[str, Any]:
        """The facts at the head of a file."""
        mdp = problem.mdp
        relative_loss = self.loss / abs(problem.high) if problem.high else None
        facts = {"mean_loss": self.loss, "relative_loss": relative_loss}
        return collect_model_facts(mdp) | facts | {"constraints": "; ".join(self.statements)}


class ConstrainedProblem:
    """Constraints that rules must satisfy, and how far from the optimum they may be.

    Amounts are those of a period where they are averages.

    Attributes:
        reference: the size of the bound of the optimum; 1 for a loss in the model's own units.
        limit: the largest loss against that bound.
    """

    def __init__(self, result: ConstrainedSolution, loss: float | str, relative: bool) -> None:
        self.result = result
        self.mdp = result.mdp
        self.scale = sum_scale(self.mdp)
        self.high = result.high / self.scale
        self.stated_loss, self.is_relative = check_loss(loss, relative)
        self.reference = abs(self.high) if self.is_relative else 1.0
        self.limit = self.stated_loss * self.reference

    def describe_target(self, loss_target: LossTarget) -> str:
        """The constraints and the loss that rules must meet, in words."""
        terms = " and ".join(f"{one.name} {one.constraint}" for one in self.result.constraints)
        relative_to = "optimal" if self.is_relative else ""
        stated = replace(loss_target, stated_loss=self.stated_loss, relative_to=relative_to)
        return f"{terms}, and {stated}"

    @cached_property
    def _excess(self) -> list[tuple[NDArray[np.float64], float]]:
        """Of each constraint: what a period adds to its excess (S, A), and what is added once."""
        result = []
        for weights in self.result.excess:
            counted = {name: weight for name, weight in weights.items() if name != CONSTANT}
            amounts = self.mdp.with_objective(counted).dynamics.expected_reward()
            result.append((amounts, weights.get(CONSTANT, 0.0) / self.scale))
        return result

    def estimate_excess(self, policy_loss: PolicyLoss) -> NDArray[np.float64]:
        """The excess of each constraint, by the visits of a rule."""
        table = policy_loss.table
        states = np.arange(len(table))
        sums = [policy_loss.visits @ amounts[states, table] + n for amounts, n in self._excess]
        return np.array(sums, dtype=np.float64)

    def iterate_priced_models(self) -> Iterator[tuple[int, PricedModel]]:
        """The model at the optimal prices, and at higher ones; with how many are left."""
        factors = PRICE_FACTORS if any(self.result.multipliers) else PRICE_FACTORS[:1]
        for i, factor in enumerate(factors):
            yield len(factors) - i, self._price(factor)

    def _price(self, factor: float) -> PricedModel:
        prices = factor * np.array(self.result.multipliers)
        solution = self.result.lagrangian
        gap = 0.0
        if factor != 1:
            solution, high = self._solve_priced(prices)
            gap = max(high - self.high, 0.0)
        limit = self.limit + gap
        evaluator = ConstrainedEvaluator(solution, self, prices, limit)
        return PricedModel(
            evaluator, make_loss_target(solution, evaluator, limit, False, False, "optimal"), gap
        )

    def _solve_priced(self, prices: NDArray) -> tuple[Solution, float]:
        """The optimum at other prices, and its bound from above."""
        weights = {REWARD: 1.0}
        for price, excess in zip(prices, self.result.excess, strict=True):
            weights = add_weights(weights, scale_weights(excess, float(price)))
        number = weights.pop(CONSTANT, 0.0)
        model = self.mdp.with_objective(weights, minimise=self.mdp.minimise)
        solution = solve(model, guess=self.result.lagrangian.value)
        mean = solution.gain
        if mean is None:
            mean = float(start_distribution(self.mdp, None).ravel() @ solution.value.ravel())
        return solution, state_sum(self.mdp, mean, solution.error_bound, number).high / self.scale

    def prove(self, policy: Policy) -> ProvenRule | None:
        """What is proven of a policy by exact evaluation; None if it misses a constraint."""
        excess = (evaluate_sum(self.mdp, policy, one)[0] for one in self.result.excess)
        if any(one.low < 0 for one in excess):
            return None
        reward, _ = evaluate_sum(self.mdp, policy, {REWARD: 1.0})
        loss = (self.result.high - reward.low) / self.scale * (1 + 4 * EPS)
        if loss > self.limit:
            return None
        return ProvenRule(max(loss, 0.0), tuple(self._state_measures(policy)))

    def _state_measures(self, policy: Policy) -> Iterator[str]:
        for one in self.result.constraints:
            formula = self.mdp.measures[one.name]
            parts = (formula.numerator, formula.denominator)
            value = divide(*(evaluate_sum(self.mdp, policy, part)[0] for part in parts))
            shown = "has a denominator of 0"
            if value is not None:
                is_least = one.constraint.sign > 0
                shown = round_down(value.low, 6) if is_least else round_up(value.high, 6)
            yield f"{one.name} {shown}, {one.constraint}"


class ConstrainedEvaluator(PolicyEvaluator):
    """What rules lose in the model with prices, their excess at these prices included.

    A rule that misses a constraint has a loss beyond twice ``limit``, the larger the more it
    misses: so it meets no loss target, and a search can move from it to one that does.
    """

    def __init__(
        self, solution: Solution, problem: ConstrainedProblem, prices: NDArray, limit: float
    ) -> None:
        super().__init__(solution, start_distribution(problem.mdp, None))
        self.problem = problem
        self.prices = prices
        self.limit = limit

    def _evaluate(self, table: NDArray) -> PolicyLoss | None:
        policy_loss = super()._evaluate(table)
        if policy_loss is None:
            return None
        excess = self.problem.estimate_excess(policy_loss)
        loss = policy_loss.mean_loss + float(self.prices @ excess)
        if (excess < 0).any():
            missed = MISSED_PRICE_FACTOR * float(self.prices @ np.minimum(excess, 0.0))
            loss = 2 * self.limit + policy_loss.mean_loss - missed
        return replace(policy_loss, mean_loss=loss)
