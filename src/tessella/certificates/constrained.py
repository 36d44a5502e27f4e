"""The part of a certificate about constraints: that a policy satisfies them, and the dual bound.

A measure N / D of at least b, with D >= 0, is G = N - b D >= 0: an expected sum of counts. It is
what the policy earns in the model that pays these counts, with a certificate of its own. For prices
y_j >= 0, every policy that satisfies the constraints earns R <= R + sum_j y_j G_j <= h(y), the
optimum of the model that pays all this, with a certificate, too. Weights are computed as fractions
and rounded once, as the checker does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tessella.certificates.certificate import Certificate, ConstrainedPart, ConstraintPart
from tessella.certificates.certify import certify
from tessella.mdp.dynamics import REWARD
from tessella.mdp.measures import (
    CONSTANT,
    Constraint,
    MeasureFormula,
    MeasureValue,
    add_weights,
    scale_weights,
)
from tessella.mdp.model import MDP
from tessella.mdp.netcdf import rebuild_from_contents
from tessella.mdp.policy import Policy
from tessella.solvers.constraints.constrained_solution import ConstrainedSolution
from tessella.solvers.policy_evaluation import evaluate, find_sum_scale
from tessella.solvers.solve import solve

PROVEN_LEVEL_STEP = 1e-8  # relative to a level: how far a measure is above the level proven for it
ExactWeights = Mapping[str, Fraction]


def certify_constrained(result: ConstrainedSolution, policy: Policy) -> Certificate | None:
    """What ``policy`` loses, with what proves the constraints; None where that is not proven.

    A certificate in blocks, or of a model too large for a file, does not state what proves them.
    """
    mdp = result.mdp
    certificate = certify(solve(mdp), policy)
    if certificate.blocks is not None or certificate.content is None:
        return certificate
    saved, counts = rebuild_from_contents(mdp)
    scale = Fraction(find_sum_scale(mdp))
    policy_actions = np.eye(mdp.n_actions, dtype=bool)[policy.table.ravel()]
    measures = evaluate(mdp, policy).measures
    lagrangian_weights: ExactWeights = {REWARD: Fraction(1)}
    parts = []
    for constraint_result, multiplier in zip(result.constraints, result.multipliers, strict=True):
        constraint = constraint_result.constraint
        price = multiplier / constraint.scale
        name = constraint_result.name
        formula = mdp.measures[name]
        value = measures[name]
        if value is None:
            return None
        proven = find_proven_level(constraint, value)
        excess = weigh_exactly(formula, constraint.sign, proven)
        model = replace(replace_reward(saved, excess), feasible=policy_actions)
        nested = certify(solve(model), policy)
        if Fraction(nested.policy_mean.lower) * scale + excess.get(CONSTANT, 0) < 0:
            return None
        weights = dict(formula.numerator), dict(formula.denominator)
        bounds = {constraint.key: constraint.level}, {constraint.key: proven}
        parts.append(ConstraintPart(name, *weights, *bounds, price, nested))
        required_excess = weigh_exactly(formula, constraint.sign, constraint.level)
        lagrangian_weights = add_weights(
            lagrangian_weights, scale_weights(required_excess, Fraction(price))
        )
    lagrangian_model = replace_reward(saved, lagrangian_weights)
    lagrangian = certify(solve(lagrangian_model, guess=result.lagrangian.value), policy)
    dual_bound = lagrangian.optimal_mean.upper
    dual_bound = Fraction(dual_bound) + lagrangian_weights.get(CONSTANT, 0) / scale
    loss = float(max(dual_bound - Fraction(certificate.policy_mean.lower), 0))
    part = ConstrainedPart(counts, tuple(parts), lagrangian, float(np.nextafter(loss, np.inf)))
    return replace(certificate, constrained=part)


def find_proven_level(constraint: Constraint, value: MeasureValue) -> float:
    """The level that is proven of a measure: a little short of its value, no weaker than asked."""
    sign = constraint.sign
    reached = sign * (value.low if sign > 0 else value.high)
    reached -= PROVEN_LEVEL_STEP * max(1.0, abs(reached))
    return sign * max(sign * constraint.level, reached)


def weigh_exactly(formula: MeasureFormula, sign: float, level: float) -> ExactWeights:
    """``sign * (numerator - level * denominator)``."""
    numerator, denominator = (
        {name: Fraction(weight) for name, weight in weights.items()}
        for weights in (formula.numerator, formula.denominator)
    )
    exact_sign = Fraction(sign)
    return add_weights(
        scale_weights(numerator, exact_sign),
        scale_weights(denominator, -exact_sign * Fraction(level)),
    )


def replace_reward(saved: MDP, weights: ExactWeights) -> MDP:
    """The model with this weighted sum of its reward and counts as its reward."""
    return saved.with_objective({name: float(weight) for name, weight in weights.items()})
