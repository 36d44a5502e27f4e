"""Constraints that the policy satisfies, and the dual bound: certificates within a certificate.

Each is about the same model with a weighted sum of reward and counts as its reward. A measure N / D
with D >= 0 is at least b where N - b D >= 0. For prices y >= 0, no policy with G_j >= 0 earns more
than the optimum of the model that pays r + sum_j y_j g_j. Weights are computed as fractions and
rounded once.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from .arithmetic import EPS, max_abs, write_bounds
from .claim import Claim, Rejected, StatedConstrained, StatedConstraint, check_equal
from .model import Model

CONSTANT = ""  # the place of a number among weights
SIGNS = {"at_least": 1, "at_most": -1}


def check_constrained(
    stated: StatedConstrained, claim: Claim, model: Model, check_nested: Callable[..., Claim]
) -> str:
    """All constraints and the dual bound; returns what is confirmed.

    ``check_nested`` confirms a certificate within this one, about another model.
    """
    check_equal("constrained.counts", stated.counts, model.counts_content)
    scale = Fraction(model.periods_per_time)
    lagrangian_weights = {"reward": Fraction(1)}
    remarks = []
    policy_actions = np.eye(model.n_actions, dtype=int)[claim.policy.table]
    for constraint in stated.constraints:
        path = f"constrained.{constraint.name}"
        key, level, proven = read_bounds(path, constraint)
        excess = weigh_exactly(constraint, SIGNS[key], proven)
        excess_model = replace(replace_reward(path, model, excess), feasible=policy_actions)
        nested = check_nested(f"{path}.certificate", constraint.certificate, excess_model)
        if Fraction(nested.policy_mean[1]) * scale + excess.get(CONSTANT, 0) < 0:
            raise Rejected(f"{path} is not surely {key.replace('_', ' ')} {proven:.12g}")
        for name, weight in weigh_exactly(constraint, SIGNS[key], level).items():
            total = lagrangian_weights.get(name, Fraction(0))
            lagrangian_weights[name] = total + Fraction(constraint.price) * weight
        denominator = {name: Fraction(weight) for name, weight in constraint.denominator.items()}
        is_negative = replace_reward(path, model, denominator).reward < 0
        if (is_negative & (model.feasible > 0)).any() or denominator.get(CONSTANT, 0) < 0:
            raise Rejected(f"{path}.denominator may be negative")
        remarks.append(
            f"{constraint.name} = ({write_sum(constraint.numerator)}) / "
            f"({write_sum(constraint.denominator)}) is {key.replace('_', ' ')} {proven:.12g}, "
            f"where {level:.12g} is requested"
        )
    path = "constrained.lagrangian"
    lagrangian_model = replace_reward(path, model, lagrangian_weights)
    nested = check_nested(path, stated.lagrangian, lagrangian_model)
    dual_bound = Fraction(nested.optimal_mean[2]) + lagrangian_weights.get(CONSTANT, 0) / scale
    loss = dual_bound - Fraction(claim.policy_mean[1])
    if loss > Fraction(stated.loss):
        raise Rejected(f"constrained.loss may be {float(loss):.12g}, not {stated.loss:.12g}")
    _, most = write_bounds(0.0, stated.loss)
    return f"{'; '.join(remarks)}; no policy that satisfies this earns over {most} more"


def write_sum(weights: dict[str, float]) -> str:
    return " + ".join(f"{weight:.12g} {name}".strip() for name, weight in weights.items())


def read_bounds(path: str, stated: StatedConstraint) -> tuple[str, float, float]:
    """The sense of a constraint, its level, and the one that is proven, which is no weaker."""
    if len(stated.bound) != 1 or not set(stated.bound) <= set(SIGNS):
        raise Rejected(f"{path}.bound must be at_least or at_most, with a level")
    ((key, level),) = stated.bound.items()
    if set(stated.proven) != {key} or SIGNS[key] * (stated.proven[key] - level) < 0:
        raise Rejected(f"{path}.proven must be {key}, with a level that is no weaker")
    return key, level, stated.proven[key]


def weigh_exactly(stated: StatedConstraint, sign: int, level: float) -> dict[str, Fraction]:
    """``sign * (numerator - level * denominator)``."""
    weights = {name: sign * Fraction(weight) for name, weight in stated.numerator.items()}
    for name, weight in stated.denominator.items():
        weights[name] = weights.get(name, 0) - sign * Fraction(level) * Fraction(weight)
    return weights


def replace_reward(path: str, model: Model, weights: dict[str, Fraction]) -> Model:
    """The model with a weighted sum of its reward and counts as its reward.

    Its error includes that of rounding the weights, which is half of EPS of each.
    """
    parts: dict[str, Any] = {**model.counts, "reward": (model.reward, model.reward_error)}
    unknown = set(weights) - set(parts) - {CONSTANT}
    if unknown:
        raise Rejected(f"{path}: the model file does not count {min(unknown)!r:.60}")
    each = [(float(weights.get(name, 0)), *part) for name, part in parts.items()]
    terms = [weight * amounts for weight, amounts, _ in each]
    error = sum(abs(weight) * error for weight, _, error in each)
    error += EPS * len(terms) * sum(map(max_abs, terms))
    error *= 1 + EPS * len(terms)
    return replace(model, reward=sum(terms[1:], start=terms[0]), reward_error=error)
