"""tradeoff(mdp, "cost", "fill_rate") -> Tradeoff: the optimum at levels of a measure.

    v(b) = max R(pi)   over all policies, randomised ones included, with measure(pi) >= b,

for levels b from that of the optimum without a constraint to the best of all policies. Where the
denominator of the measure is the same under all policies, v is concave. The excess of a policy over
a level is that over another one less a multiple of its denominator, so all levels share policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from tessella.errors import ArgumentError, require_type
from tessella.mdp.measures import OBJECTIVES, AtLeast, AtMost, read_constraints
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.rounding import round_up
from tessella.solvers.constrained import MAX_POLICIES, ColumnGeneration, ConstrainedSolution
from tessella.solvers.evaluate import add_up
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
        policy: the best found that draws nothing; it has this ``objective`` and measure ``value``.
        solution: the rest; ``solution.measures`` are all measures of ``policy``.
    """

    level: float
    low: float
    high: float
    price: float
    objective: float
    value: float
    policy: Policy
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
        level = f"{self.measure} {DIRECTIONS[self.better].words}"
        rows = [[level, best, "within", f"one {unit} {self.better}", "a policy", self.measure]]
        for p in self.points:
            bounds = [f"{p.low:.6g}", round_up(p.high - p.low, 2), f"{step * p.price:.4g}"]
            rows.append([f"{p.level:.6g}", *bounds, f"{p.objective:.6g}", f"{p.value:.6g}"])
        return "\n".join(align_columns(rows, "rrrrrr"))


class LevelSearch(ColumnGeneration):
    """Column generation at one level of a measure after the other."""

    def __init__(self, mdp: MDP, name: str, better: str, tol: float | None) -> None:
        self.name = name
        self.better = better
        self.kind = DIRECTIONS[better]
        super().__init__(mdp, {name: self.kind(0.0)}, solve, tol)
        below = self.measures[0].denominator
        self.compute_denominator = cache(lambda policy: self._evaluate(policy, below, None))

    def find_ends(self) -> tuple[float, float]:
        """The levels of the optimum and of the best policy, a little inside."""
        self._add_best_policy(1.0, np.zeros(1))
        first = self.evaluate_measure(0, self.columns[0].policy)
        policy, last = self.find_limit(0)
        self._add_policy(policy)
        error = 2 * (first.error_bound + last.error_bound)
        rise = self.kind.sign * (last.value - first.value)
        if rise <= error:
            requirement = f"a policy must have {self.better} {self.name} than the optimum"
            raise ArgumentError(requirement, value=f"{first} is the best; choose better=")
        margin = self.kind.sign * (error + END_MARGIN * rise)
        return first.value - margin, last.value - margin

    def solve_at(self, level: float) -> ConstrainedSolution:
        """The optimum at this level."""
        rise = self.kind.sign * (level - self.constraints[self.name].level)
        known = self.columns + self.dropped
        terms = ([(1.0, c.excess[0]), (-rise, self.compute_denominator(c.policy))] for c in known)
        self.columns = [replace(c, excess=(add_up(t),)) for c, t in zip(known, terms, strict=True)]
        self.dropped = []
        self.max_policies = len(known) + MAX_POLICIES
        self.constraints = {self.name: self.kind(level)}
        del self.excess
        self.high = np.inf
        self._add_best_policy(1.0, self._solve_master().prices)
        return self.improve()

    def make_point(self, level: float, sign: float) -> TradeoffPoint:
        solution = self.solve_at(level)
        low, high = sorted((sign * solution.low, sign * solution.high))
        best = solution.best
        assert best is not None  # the policy with the best level satisfies all
        value = self.evaluate_measure(0, best.policy).value
        own = (solution.constraints[0].price, sign * best.reward.value + 0.0, value, best.policy)
        return TradeoffPoint(level, low, high, *own, solution)


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
    search = LevelSearch(mdp, measure, better, tol)
    ends = search.find_ends()
    levels = np.linspace(*ends, points) if isinstance(points, int) else points
    for constraint in map(search.kind, levels):
        if search.kind.sign * (constraint.level - ends[1]) > 0:
            requirement = f"the best {measure} with better={better!r} is {ends[1]:.8g}"
            raise ArgumentError(requirement, value=f"got {constraint}")
    found = (search.make_point(float(level), OBJECTIVES[objective]) for level in levels)
    return Tradeoff(mdp, objective, measure, better, tuple(found))
