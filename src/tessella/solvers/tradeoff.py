"""tradeoff(mdp, "cost", "fill_rate") -> Tradeoff: the optimum at levels of a measure.

    v(b) = max R(pi)   over all policies, randomised ones included, with measure(pi) >= b,

for levels b from that of the optimum without a constraint to the best of all policies. Where the
denominator of the measure is the same under all policies, v is concave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tessella.errors import ArgumentError, require_type
from tessella.mdp.measures import (
    OBJECTIVES,
    AtLeast,
    AtMost,
    Constraint,
    MeasureValue,
    read_constraints,
)
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.rounding import round_up
from tessella.solvers.constrained import ColumnGeneration, ConstrainedSolution, evaluate_measure
from tessella.solvers.solve import solve
from tessella.support.text import align_columns

END_MARGIN = 1e-9  # of the range of levels: how far its ends lie inside what is attained
DIRECTIONS = {"more": AtLeast, "less": AtMost}


@dataclass(frozen=True, eq=False)
class TradeoffPoint:
    """The optimum at one level of the measure.

    Attributes:
        low, high: the optimum of all policies lies between them.
        price: what the objective loses for one more unit of the level.
        policy: the best found at any level that draws nothing and has this level.
        objective, value, measures: what it costs or earns, its measure, and all its measures.
    """

    level: float
    low: float
    high: float
    price: float
    policy: Policy
    objective: float
    value: float
    measures: dict[str, MeasureValue | None]
    solution: ConstrainedSolution


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """What levels of a measure cost.

    Attributes:
        objective: "cost" or "reward".
        better: "more" where levels are least values of the measure, "less" where greatest.
        points: the optimum without a constraint first, the best level of all policies last.
    """

    mdp: MDP
    objective: str
    measure: str
    better: str
    points: tuple[TradeoffPoint, ...]

    def __str__(self) -> str:
        best = "least cost" if self.objective == "cost" else "most reward"
        step, unit = (0.01, "point") if self.mdp.measures[self.measure].is_ratio else (1.0, "unit")
        level = f"{self.measure} at {'least' if self.better == 'more' else 'most'}"
        rows = [[level, best, "within", f"one {unit} {self.better}", "a policy", self.measure]]
        for p in self.points:
            bounds = [f"{p.low:.6g}", round_up(p.high - p.low, 2), f"{step * p.price:.4g}"]
            rows.append([f"{p.level:.6g}", *bounds, f"{p.objective:.6g}", f"{p.value:.6g}"])
        return "\n".join(align_columns(rows, "rrrrrr"))


def tradeoff(
    mdp: MDP,
    objective: Literal["cost", "reward"],
    measure: str,
    *,
    points: int | Sequence[float] = 20,
    better: Literal["more", "less"] = "more",
    tol: float | None = None,
) -> Tradeoff:
    """The least cost, or the most reward, of all policies at levels of a measure.

    Args:
        objective: the terms in which the optimum is stated, "cost" or "reward".
        points: number of levels, evenly spaced from that of the optimum to the best there is; or
            the levels themselves.
        better: "more" of a measure that should rise, "less" of one that should fall.
        tol: how far apart the bounds of an optimum may be.
    """
    require_type("tradeoff", mdp, MDP)
    for given, allowed in ((objective, OBJECTIVES), (better, DIRECTIONS)):
        if given not in allowed:
            requirement = f"tradeoff needs {' or '.join(map(repr, allowed))}"
            raise ArgumentError(requirement, value=f"got {given!r:.60}")
    read_constraints(mdp.measures, {measure: DIRECTIONS[better](0.0)})
    if np.ndim(points) == 0 and not (isinstance(points, int) and points > 1):
        requirement = "points must be a whole number from 2 on, or levels"
        raise ArgumentError(requirement, value=f"got {points!r:.60}")
    kind = DIRECTIONS[better]
    ends = _find_ends(mdp, measure, kind)
    levels = np.linspace(*ends, points).tolist() if isinstance(points, int) else points
    for constraint in map(kind, levels):
        if kind.sign * (constraint.level - ends[1]) > 0:
            requirement = f"the best {measure} with better={better!r} is {ends[1]:.8g}"
            raise ArgumentError(requirement, value=f"got {constraint}")
    solutions = [solve(mdp, subject_to={measure: kind(level)}, tol=tol) for level in levels]
    found = (_make_point(solution, solutions, OBJECTIVES[objective]) for solution in solutions)
    return Tradeoff(mdp, objective, measure, better, tuple(found))


def _find_ends(mdp: MDP, name: str, kind: type[Constraint]) -> tuple[float, float]:
    """The levels of the optimum and of the best policy, a little inside what they attain."""
    first = evaluate_measure(mdp, name, solve(mdp).policy)
    last = ColumnGeneration(mdp, {name: kind(0.0)}, solve).find_limit(name)
    error = 2 * (first.error_bound + last.error_bound)
    rise = kind.sign * (last.value - first.value)
    if rise <= error:
        requirement = f"{name} must be able to {'rise' if kind is AtLeast else 'fall'}"
        raise ArgumentError(requirement, value=f"the optimum has the best, {first}; see better=")
    margin = kind.sign * (error + END_MARGIN * rise)
    return first.value - margin, last.value - margin


def _make_point(
    solution: ConstrainedSolution, others: Sequence[ConstrainedSolution], sign: float
) -> TradeoffPoint:
    """The point of a solution; the policy of another one may satisfy its constraint too."""
    (result,) = solution.constraints
    asked = result.constraint
    values = [(one, one.measures.get(result.name)) for one in others]
    fitting = [one for one, value in values if value and asked.is_met_by(value)]
    source = max([solution, *fitting], key=lambda one: one.best.reward.low if one.best else -np.inf)
    value = source.measures[result.name]
    assert source.best is not None  # of policies whose mixture satisfies one constraint, one does
    assert value is not None
    low, high = (sign * end for end in (solution.low, solution.high)[:: int(sign)])
    own = (source.best.policy, sign * source.best.reward.value + 0.0, value.value, source.measures)
    return TradeoffPoint(asked.level, low, high, result.price, *own, solution)
