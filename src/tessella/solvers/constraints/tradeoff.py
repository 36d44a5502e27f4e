"""tradeoff(mdp, "cost", "fill_rate") -> Tradeoff: the optimum at levels of a measure.

    v(b) = max R(pi)   over all policies, randomised ones included, with measure(pi) >= b,

for levels b from that of the optimum without a constraint to the best of all policies. Where the
denominator of the measure is the same under all policies, v is concave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

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
from tessella.solvers.constraints.column_generation import ColumnGeneration
from tessella.solvers.constraints.constrained_solution import (
    ConstrainedSolution,
    EvaluatedPolicy,
    choose_price_step,
    describe_price,
)
from tessella.solvers.solve import solve
from tessella.support.text import align_columns

ZERO_SHARE = 1e-8  # of the largest number of its kind: what is no larger is printed as 0
END_MARGIN = 1e-9  # of the range of levels: how far its ends lie inside what is attained
DIRECTIONS = {"more": AtLeast, "less": AtMost}


@dataclass(frozen=True, eq=False)
class TradeoffPoint:
    """The optimum at one level of the measure.

    Attributes:
        low, high: the optimum of all policies lies between them.
        price: what the objective loses for one more unit of the level.
        policy: the best deterministic one found at any level that has this level.
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
        best_level: what the best of all policies reaches, a little inside.
    """

    mdp: MDP
    objective: str
    measure: str
    better: str
    points: tuple[TradeoffPoint, ...]
    best_level: float

    def __str__(self) -> str:
        best = "least cost" if self.objective == "cost" else "most reward"
        step, unit = choose_price_step(self.mdp, self.measure)
        level = f"{self.measure} at {'least' if self.better == 'more' else 'most'}"
        rows = [
            [
                level,
                best,
                "within",
                f"one {unit.split()[-1]} {self.better}",
                "a policy",
                self.measure,
            ]
        ]
        level_scale, cost_scale = self.level_scale, self.cost_scale
        for p in self.points:
            price = "-" if self.is_best(p) else f"{step * p.price:.4g}"
            bounds = [_format(p.low, cost_scale), round_up(p.high - p.low, 2), price]
            policy = [_format(p.objective, cost_scale), _format(p.value, level_scale)]
            rows.append([_format(p.level, level_scale), *bounds, *policy])
        return "\n".join(align_columns(rows, "rrrrrr"))

    @property
    def level_scale(self) -> float:
        return max(abs(point.level) for point in self.points)

    @property
    def cost_scale(self) -> float:
        return max(abs(point.objective) for point in self.points)

    def is_best(self, point: TradeoffPoint) -> bool:
        """Whether no policy reaches a better level, so that none has a price."""
        return abs(self.best_level - point.level) <= ZERO_SHARE * abs(self.best_level)

    def describe_price(self, point: TradeoffPoint) -> str:
        """What a little more of the level costs there, in words."""
        (result,) = point.solution.constraints
        if self.is_best(point):
            return "no policy reaches a better level"
        return describe_price(self.mdp, result) if result.is_binding else "this level costs nothing"


def drop_rounding(value: float, scale: float) -> float:
    """One of some numbers whose largest is ``scale``; rounding errors of that are 0."""
    return 0.0 if abs(value) <= ZERO_SHARE * scale else value


def _format(value: float, scale: float) -> str:
    return f"{drop_rounding(value, scale):.6g}"


def tradeoff(
    mdp: MDP,
    objective: Literal["cost", "reward"],
    measure: str,
    *,
    points: int | Sequence[float] = 20,
    better: Literal["more", "less"] = "more",
    tol: float | None = None,
) -> Tradeoff:
    """The least cost, or the most reward, that each level of a measure allows.

    Args:
        mdp: the model.
        measure: its name.
        objective: the terms in which the optimum is stated, "cost" or "reward".
        points: number of levels, evenly spaced from the optimum's to the best attainable; or the
            levels themselves.
        better: "more" of a measure that should rise, "less" of one that should fall.
        tol: how far apart the bounds of an optimum may be.

    Returns:
        For each level the bounds of the optimum, its price, and a policy; printed, a table.

    Raises:
        ArgumentError: the model has no such measure, or no policy reaches a level.

    Example:
        >>> shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
        >>> curve = ts.tradeoff(shop, "reward", "fill_rate", points=[0.9])
        >>> len(str(curve).splitlines())
        2
    """
    require_type("tradeoff", mdp, MDP)
    _require_choice(objective, OBJECTIVES)
    _require_choice(better, DIRECTIONS)
    direction = DIRECTIONS[better]
    read_constraints(mdp.measures, {measure: direction(0.0)})
    _require_points(points)
    columns: list[EvaluatedPolicy] = []  # found at one level, and the start at the others

    def make_generation(constraint: Constraint) -> ColumnGeneration:
        solve_model = partial(solve, partial=True)
        return ColumnGeneration(mdp, {measure: constraint}, solve_model, tol, columns)

    ends = _find_ends(make_generation(direction(0.0)), measure, direction)
    levels = np.linspace(*ends, points).tolist() if isinstance(points, int) else points
    constraints = list(map(direction, levels))
    for constraint in constraints:
        if direction.sign * (constraint.level - ends[1]) > 0:
            extreme = "most" if better == "more" else "least"
            requirement = f"the {extreme} that {measure} can be is {ends[1]:.8g}"
            raise ArgumentError(requirement, value=f"got {constraint}")
    solutions = [make_generation(constraint).run() for constraint in constraints]
    found = (_make_point(solution, solutions, OBJECTIVES[objective]) for solution in solutions)
    return Tradeoff(mdp, objective, measure, better, tuple(found), ends[1])


def _require_points(points: Any) -> None:
    if np.ndim(points) == 0 and not (isinstance(points, int) and points > 1):
        requirement = "points must be a whole number from 2 on, or levels"
        raise ArgumentError(requirement, value=f"got {points!r:.60}")
    if np.ndim(points) and not len(np.asarray(points)):
        raise ArgumentError("points must name at least one level", value="got none")


def _require_choice(given: str, choices: Iterable[str]) -> None:
    if given not in choices:
        requirement = f"tradeoff needs {' or '.join(map(repr, choices))}"
        raise ArgumentError(requirement, value=f"got {given!r:.60}")


def _find_ends(
    generation: ColumnGeneration, measure: str, direction: type[Constraint]
) -> tuple[float, float]:
    """The levels of the optimum and of the best policy, a little inside what they attain."""
    optimum = generation.find_optimum(measure)
    limit = generation.find_limit(measure)
    error = 2 * (optimum.error_bound + limit.error_bound)
    rise = direction.sign * (limit.value - optimum.value)
    if rise <= error:
        requirement = f"{measure} must be able to {'rise' if direction is AtLeast else 'fall'}"
        raise ArgumentError(requirement, value=f"the optimum reaches the best value, {optimum}")
    margin = direction.sign * (error + END_MARGIN * rise)
    return optimum.value - margin, limit.value - margin


def _make_point(
    solution: ConstrainedSolution, others: Sequence[ConstrainedSolution], sign: float
) -> TradeoffPoint:
    """The point of a solution; the policy of another one may satisfy its constraint too."""
    (result,) = solution.constraints
    candidates = [solution]
    for other in others:
        value = other.measures.get(result.name)
        if value and result.constraint.is_met_by(value):
            candidates.append(other)
    source = max(candidates, key=lambda c: c.best.reward.low if c.best else -np.inf)
    value = source.measures[result.name]
    assert source.best is not None  # of policies whose mixture satisfies one constraint, one does
    assert value is not None
    low, high = (sign * end for end in (solution.low, solution.high)[:: int(sign)])
    return TradeoffPoint(
        result.constraint.level,
        low,
        high,
        result.price,
        source.best.policy,
        sign * source.best.reward.value + 0.0,
        value.value,
        source.measures,
        solution,
    )
