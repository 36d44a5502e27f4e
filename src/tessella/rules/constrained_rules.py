"""The smallest rule that satisfies constraints on measures, within a loss of the best policy.

Let ``high`` bound what any policy earns that satisfies the constraints G_j >= 0, and h(y) >= high
the optimum of the model that pays R + sum_j y_j G_j at prices y >= 0. A rule that satisfies the
constraints has

    high - R(pi) = L(pi) + y G(pi) - (h(y) - high),   L(pi) = h(y) - R(pi) - y G(pi) >= 0,

so one within ``limit`` of ``high`` has L(pi) <= limit + h(y) - high: what a search in the model
with prices y proves about sizes holds of constrained rules too. The best policies at the optimal
prices lie on the edge of a constraint, where every other rule misses it; so models with higher
prices are searched as well. What is returned is proven to satisfy the constraints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.constrained import certify_constrained
from tessella.mdp.measures import CONSTANT
from tessella.mdp.policy import Policy
from tessella.mdp.start import start_distribution
from tessella.rounding import EPS, round_down, round_up
from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.rules.loss_target import LossTarget, ProvenLoss, check_loss, make_loss_target
from tessella.solvers.constraints.column_generation import (
    PENALTY_FACTOR,
    weigh_counts,
)
from tessella.solvers.constraints.constrained_solution import ConstrainedSolution
from tessella.solvers.policy_evaluation import (
    Evaluation,
    evaluate,
    evaluate_sum,
    find_sum_scale,
    report_sum,
)
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve

PRICE_FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)  # of the optimal prices


class ConstrainedProblem:
    """Constraints that rules must satisfy, and how far from the optimum they may be.

    Amounts are those of a period where they are averages.
    """

    def __init__(self, result: ConstrainedSolution, loss: float | str, relative: bool) -> None:
        self.result = result
        self.scale = find_sum_scale(result.mdp)
        self.high = result.high / self.scale
        self.stated_loss, self.is_relative = check_loss(loss, relative)
        # What a loss is divided by to be stated.
        self.reference = abs(self.high) if self.is_relative else 1.0
        self.limit = self.stated_loss * self.reference  # the largest loss against ``high``
        self.excess = []  # of each constraint: what a period adds (S, A), and what is added once
        for weights in result.excess:
            amounts = result.mdp.with_objective(weights).dynamics.expected_reward()
            self.excess.append((amounts, weights.get(CONSTANT, 0.0) / self.scale))

    def describe_target(self, loss_target: LossTarget) -> str:
        """The constraints and the loss that rules must meet, in words."""
        relative_to = "optimal" if self.is_relative else ""
        stated = replace(loss_target, stated_loss=self.stated_loss, relative_to=relative_to)
        return f"{self.result.terms}, and {stated}"

    @property
    def hint(self) -> str:
        """What is known of policies that draw nothing, where no rule is found."""
        best = self.result.best
        if best is None:
            return ""
        loss = round_up((self.result.high - best.reward.low) / self.scale / self.reference, 3)
        return f"the best deterministic policy known has a loss of {loss}"

    def iterate_multipliers(self) -> Iterator[tuple[int, ConstrainedEvaluator, LossTarget]]:
        """Models at the optimal prices and at higher ones; with how many are left."""
        mdp = self.result.mdp
        factors = PRICE_FACTORS if any(self.result.multipliers) else PRICE_FACTORS[:1]
        for i, factor in enumerate(factors):
            prices = factor * np.array(self.result.multipliers)
            solution = self.result.lagrangian
            gap = 0.0
            if i:
                weights = weigh_counts(1.0, prices, self.result.excess)
                model = mdp.with_objective(weights, minimise=mdp.minimise)
                solution = solve(model, guess=solution.value)
                best = report_sum(solution, weights)
                gap = max(best.high / self.scale - self.high, 0.0)
            evaluator = ConstrainedEvaluator(self, solution, prices, gap)
            target = make_loss_target(evaluator, evaluator.limit, False, "optimal")
            yield len(factors) - i, evaluator, target

    def prove(self, policy: Policy) -> ProvenLoss | None:
        """What is proven of a policy by exact evaluation; None if it misses a constraint."""
        mdp = self.result.mdp
        excess = (evaluate_sum(mdp, policy, weights) for weights in self.result.excess)
        if any(one.low < 0 for one in excess):
            return None
        evaluation = evaluate(mdp, policy)
        reward = report_sum(evaluation, {}).low
        loss = max((self.result.high - reward) / self.scale * (1 + 4 * EPS), 0.0)
        statements = self._describe_measures(evaluation)
        if loss > self.limit or statements is None:
            return None
        certificate = certify_constrained(self.result, policy)
        if certificate is None:
            return None
        if certificate.constrained is not None:
            loss = certificate.constrained.loss
        share = loss / abs(self.high) if self.high else None
        proof = ProvenLoss(loss, None, share, certificate, statements)
        return proof if loss <= self.limit else None

    def _describe_measures(self, evaluation: Evaluation) -> str | None:
        """``fill_rate 0.981, at least 0.98``: the side of each enclosure that is proven."""
        statements = []
        for one in self.result.constraints:
            value = evaluation.measures[one.name]
            if value is None:  # its denominator may be 0
                return None
            least = round_down(value.low, 6)
            shown = least if one.constraint.sign > 0 else round_up(value.high, 6)
            statements.append(f"{one.name} {shown}, {one.constraint}")
        return "; ".join(statements)


class ConstrainedEvaluator(PolicyEvaluator):
    """What rules lose in the model with prices, their excess at these prices included.

    A rule that misses a constraint has a loss beyond twice ``limit``, the larger the more it
    misses: so it meets no loss target, and a search can move from it to one that does.
    """

    def __init__(
        self, problem: ConstrainedProblem, solution: Solution, prices: NDArray, gap: float
    ) -> None:
        super().__init__(solution, start_distribution(solution.mdp, None))
        self.problem = problem
        self.prices = prices
        self.gap = gap  # by which losses here exceed those against ``high``
        self.limit = problem.limit + gap

    def _evaluate(self, table: NDArray) -> PolicyLoss | None:
        policy_loss = super()._evaluate(table)
        if policy_loss is None:
            return None
        states = np.arange(len(table))
        excess = np.array(
            [policy_loss.visits @ each[states, table] + n for each, n in self.problem.excess]
        )
        loss = policy_loss.mean_loss + float(self.prices @ excess)
        if (excess < 0).any():
            missed = PENALTY_FACTOR * float(self.prices @ np.minimum(excess, 0.0))
            loss = 2 * self.limit + policy_loss.mean_loss - missed
        return replace(policy_loss, mean_loss=loss)
