"""Order-up-to forms: bring a level up to S, at once or from s down.

    level = sum of some axes (+ slope x another axis)
    base stock  S          take the action nearest to S - level, from below or from above
    (s, S)                 the same where level <= s; elsewhere the smallest action
    in lots of q           with multiples of q only

Each letter is one number, and so is a slope. Actions must be numbers. Without a slope all S and s on
the grid are tried, so the cheapest is found for certain; slopes are searched for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import shown
from tessella.rules.ladder import Rungs, node_of_rungs
from tessella.rules.linear_cuts import Projection
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

LEVELS = 400  # values of S with one slope, at most
SLOPES = 20  # of either sign, in a first look
FINER = (5, 25)  # how much nearer later looks are
SUMS = 15  # sums of axes, at most


@dataclass(frozen=True)
class OrderUpTo(RuleClass):
    """Base stock and (s, S) rules, with lots, on an axis or a sum of axes."""

    name: ClassVar[str] = "order up to"

    def refusal(self, costs: Costs) -> str:
        if not costs.numeric:
            return "no axis has numbers"
        if not all(isinstance(a, int | float) for a in costs.actions) or len(costs.actions) < 2:
            return "actions must be two or more numbers"
        return ""

    def heuristic(self, costs: Costs) -> str:
        return "" if len(costs.numeric) == 1 else "slopes and sums of axes are searched for"

    def largest(self, costs: Costs) -> float:
        return 4 if len(costs.numeric) > 1 else 3

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        found: list[Fitted] = []
        sums = [c for n in range(1, len(costs.numeric) + 1) for c in combinations(costs.numeric, n)]
        for axes in sums[:SUMS]:
            level = Level(costs, axes)
            found += level.forms(None, 0.0, most)
            others = [k for k in costs.numeric if k not in axes]
            for other in others:
                if most >= 2 and time.perf_counter() < costs.deadline:
                    found += _sloped(Level(costs, (*axes, other)), most)
        return falling(found)


def _sloped(level: Level, most: int) -> list[Fitted]:
    """Forms on a level with a slope, with slopes ever nearer to the best."""
    unit = 10.0 ** np.round(np.log10(level.ratio))
    tried = [k / SLOPES * 2 * unit for k in range(-SLOPES, SLOPES + 1) if k]
    step, found = 2 * unit / SLOPES, []
    for finer in (*FINER, 0):
        made = [(w, level.forms(level.last, w, most)) for w in tried]
        found += [form for _, forms in made for form in forms]
        best = min(made, key=lambda one: min((f.cost for f in one[1]), default=np.inf))[0]
        if finer:
            around = best + step / finer * np.arange(-4, 5)
            tried = [float(np.round(w, 6)) for w in around if abs(w) > 1e-9 and w != best]
    return falling(found)


class Level:
    """A level: the sum of some axes, the last of which may have a slope."""

    def __init__(self, costs: Costs, axes: tuple[int, ...]) -> None:
        self.costs, self.seen = costs, Projection(costs, axes, blocks=False)
        self.last = costs.grid.axes[axes[-1]]
        spans = [float(v[-1] - v[0]) for v in self.seen.values]
        self.ratio = spans[0] / spans[-1]
        values = np.array(costs.actions, dtype=float)
        self.order = np.argsort(values)
        self.orders = values[self.order]

    def forms(self, sloped: str | None, slope: float, most: int) -> list[Fitted]:
        """The cheapest form of each size."""
        weights = np.ones(len(self.seen.names))
        if sloped is not None:
            weights[-1] = slope
        line, extra = self.seen.line(weights), int(sloped is not None)
        named = tuple((n, float(w)) for n, w in zip(self.seen.names, weights, strict=True))
        found = []
        for lot in self._lots() if most >= 2 + extra else [0.0]:
            kept = self._kept(lot)
            for up in (False, True):
                size = 1 + extra + int(lot > 0)
                form = _Form(self, line, named, kept, up, lot, size)
                found += form.best(most)
        return falling(found)

    def _lots(self) -> list[float]:
        """Lots that are not all actions already."""
        above = self.orders[self.orders > 0]
        lots = [q for q in above[:6] if len(self._kept(q)) not in (1, len(self.orders))]
        return [0.0, *lots]

    def _kept(self, lot: float) -> NDArray[np.int64]:
        """Positions among the rising orders that are multiples of a lot."""
        if not lot:
            return np.arange(len(self.orders))
        share = self.orders / lot
        return np.flatnonzero(
            (np.abs(share - np.rint(share)) < 1e-9) | (self.orders == self.orders[0])
        )


@dataclass(frozen=True, eq=False)
class _Form:
    """Base stock and (s, S) on one line of levels, with one way of rounding."""

    level: Level
    line: Rungs
    named: tuple
    kept: NDArray[np.int64]
    up: bool
    lot: float
    size: int

    def best(self, most: int) -> list[Fitted]:
        values, orders = self.line.values, self.level.orders[self.kept]
        targets = _targets(values, orders)
        wanted = targets[:, None] - values[None, :]  # (targets, rungs)
        slack = 1e-9 * max(1.0, float(np.abs(values).max()))
        if self.up:
            at = np.searchsorted(orders, wanted - slack, side="left")
        else:
            at = np.searchsorted(orders, wanted + slack, side="right") - 1
        at = np.clip(at, 0, len(orders) - 1)
        taken = self.level.order[self.kept][at]  # (targets, rungs) action indices
        costs = self.line.costs[np.arange(len(values)), taken]
        nothing = int(self.level.order[0])
        found = []
        if most >= self.size:
            i = int(costs.sum(axis=1).argmin())
            found.append(self._fitted(taken[i], targets[i], None, float(costs[i].sum())))
        if most > self.size:
            idle = self.line.costs[:, nothing]
            total = np.cumsum(costs, axis=1) + (idle.sum() - np.cumsum(idle))
            i, u = np.unravel_index(int(total.argmin()), total.shape)
            acts = np.where(np.arange(len(values)) <= u, taken[i], nothing)
            s = float(values[u])
            found.append(self._fitted(acts, targets[i], s, float(total[i, u])))
        return found

    def _fitted(self, actions: NDArray, target: float, s: float | None, cost: float) -> Fitted:
        root = node_of_rungs(self.named, self.line.values, actions)
        return Fitted(root, self.size + int(s is not None), max(cost, 0.0), self._words(target, s))

    def _words(self, target: float, s: float | None) -> str:
        *axes, (last, slope) = self.named
        sum_of = [name for name, _ in axes] + ([last] if slope == 1 else [])
        level = " + ".join(sum_of)
        tilt = ""
        if slope != 1:
            tilt = f" {'-' if slope > 0 else '+'} {shown(abs(slope))} x {last}"
        name = self.level.costs.action_name
        how = "reaches" if self.up else "does not exceed"
        size = "smallest" if self.up else "largest"
        lots = f" in lots of {shown(float(self.lot))}" if self.lot else ""
        text = f"Bring {level} up to {shown(float(np.round(target, 9)))}{tilt}{lots}: "
        text += f"take the {size} {name} that {how} it"
        if s is None:
            return text + "."
        least = shown(self.level.costs.actions[int(self.level.order[0])])
        begins = f"{level} is at most {shown(float(np.round(s, 9)))}{tilt}"
        return f"{text}, where {begins}; else {name}={least}."


def _targets(values: NDArray, orders: NDArray) -> NDArray[np.float64]:
    """Values of S at which some action changes, or some of them where they are many."""
    found = np.unique(np.round((values[:, None] + orders[None, :]).ravel(), 9))
    if len(found) > LEVELS:
        found = found[np.linspace(0, len(found) - 1, LEVELS).astype(int)]
    return found
