"""Order-up-to forms: bring a level up to S, at once or from s down.

    level = sum of some axes (+ slope x another axis)
    base stock  S          take the action nearest to S - level, from below or from above
    (s, S)                 the same where level <= s; elsewhere the smallest action
    in lots of q           with multiples of q only, q being one of the actions

Each letter is one number, and so is a slope. Actions must be numbers. On one axis all S, s and q
that make a difference are tried, so the cheapest is found for certain, unless they are too many.
Slopes are searched for.

With levels x rising and C_i(u) the cost of action i in the first u of them, S decides where the
action i ends (e_i) and begins (e_{i+1}), and

    cost(S) = sum_i C_i(e_i) - C_i(e_{i+1}),
    cost(s, S) = sum_{k > i} (...) + C_i(u) - C_i(e_{i+1}) + C_0(U) - C_0(u),   e_{i+1} <= u <= e_i,

whose least over u is a minimum over a range: all S at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import shown
from tessella.grid import LARGEST
from tessella.mdp.actions import spoken
from tessella.mdp.program import Split, between
from tessella.rules.ladder import Rungs, node_of_rungs
from tessella.rules.linear_cuts import Projection
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling, fewer_digits

LEVELS = 400  # values of S with one slope, at most
EVERY = 4_000  # values of S on a single axis, at most
LOTS = 6  # tried where the level has several axes, or where there are many of them
SLOPES = 20  # of either sign, in a first look
FINER = (5, 25)  # how much nearer later looks are
SUMS = 15  # sums of axes, at most
NEARLY = 20  # of one size that are judged in small models: costs of several slopes may tie


@dataclass(frozen=True)
class OrderUpTo(RuleClass):
    """Base stock and (s, S) rules, with lots, on an axis or a sum of axes."""

    name: ClassVar[str] = "order up to"

    def refusal(self, costs: Costs) -> str:
        if not costs.numeric:
            return "no axis has numbers"
        numbers = (isinstance(a, int | float) and abs(a) <= LARGEST for a in costs.actions)
        if not all(numbers) or len(costs.actions) < 2:
            return f"actions must be two or more numbers of a size of at most {LARGEST:g}"
        return costs.unsummable

    def heuristic(self, costs: Costs) -> str:
        if sum(values.dtype.kind != "U" for values in costs.grid.values) > 1:
            return "slopes and sums of axes are searched for"
        level = Level(costs, costs.numeric)
        targets = level.targets(level.seen.values[0], level.orders)
        if len(targets) > EVERY:
            return f"only {EVERY:,} of {len(targets):,} levels to order up to are tried"
        lots = len(level.lots(None))
        return f"only {LOTS} of {lots} lots are tried" if lots > level.n_lots else ""

    def largest(self, costs: Costs) -> float:
        return 4 if len(costs.numeric) > 1 else 3

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        return falling([draft.made() for draft in _best(self._drafts(costs, most))])

    def nearly(self, costs: Costs, most: int) -> list[Fitted]:
        """Of each size some that cost little more, with other slopes."""
        drafts = sorted(self._drafts(costs, most), key=lambda draft: (draft.size, draft.cost))
        sizes = [list(same) for _, same in groupby(drafts, key=lambda draft: draft.size)]
        return [draft.made() for same in sizes for draft in same[1:NEARLY]]

    def _drafts(self, costs: Costs, most: int) -> list[Draft]:
        found: list[Draft] = []
        sums = [c for n in range(1, len(costs.numeric) + 1) for c in combinations(costs.numeric, n)]
        for axes in sums[:SUMS]:
            level = Level(costs, axes)
            found += level.forms(None, 0.0, most)
            others = [k for k in costs.numeric if k not in axes]
            for other in others:
                if most >= 2 and time.perf_counter() < costs.deadline:
                    found += _sloped(costs, (*axes, other), most)
        return found

    def coarser(self, costs: Costs, fitted: Fitted) -> Iterator[Fitted]:
        """The best of the same size with a slope of fewer digits."""
        if isinstance(fitted.root, Split):
            *_, (_, slope) = fitted.root.weights
            axes = tuple(costs.grid.axis(name) for name, _ in fitted.root.weights)
            for rough in fewer_digits(slope) if slope != 1 else ():
                level = Level(costs, axes)
                forms = level.forms(level.last, rough, fitted.size)
                yield from (form.made() for form in forms if form.size == fitted.size)


@dataclass(frozen=True, eq=False)
class Draft:
    """A form that was tried, to be written out if it is among the best."""

    size: int
    cost: float
    made: Callable[[], Fitted]


def _best(drafts: Iterable[Draft]) -> list[Draft]:
    """The cheapest of each size."""
    found: dict[int, Draft] = {}
    for draft in drafts:
        if draft.size not in found or draft.cost < found[draft.size].cost:
            found[draft.size] = draft
    return list(found.values())


def _sloped(costs: Costs, axes: tuple[int, ...], most: int) -> list[Draft]:
    """Forms on a level with a slope, with slopes ever nearer to the best one.

    Where the states are many, slopes are compared on blocks of them.
    """
    level = Level(costs, axes, blocks=True)
    unit = 10.0 ** np.round(np.log10(level.ratio))
    tried = [k / SLOPES * 2 * unit for k in range(-SLOPES, SLOPES + 1) if k]
    step, found = 2 * unit / SLOPES, []
    for finer in (*FINER, 0):
        lots = finer != FINER[0]  # only near the best slope without them
        found += [(w, form) for w in tried for form in level.forms(level.last, w, most, lots)]
        best = min(found, key=lambda one: one[1].cost, default=(step, None))[0]
        around = best + step / max(finer, 1) * np.arange(-4, 5)
        tried = [float(np.round(w, 6)) for w in around if abs(w) > 1e-9]
        if time.perf_counter() > costs.deadline:
            break
    if not level.seen.blocks:
        return [form for _, form in found]
    slopes = {
        min((f.cost, w) for w, f in found if f.size == n)[1] for n in {f.size for _, f in found}
    }
    whole = Level(costs, axes)
    return _best(form for w in slopes for form in whole.forms(whole.last, w, most))


class Level:
    """A level: the sum of some axes, the last of which may have a slope."""

    def __init__(self, costs: Costs, axes: tuple[int, ...], blocks: bool = False) -> None:
        self.costs, self.seen = costs, Projection(costs, axes, blocks)
        self.last = costs.grid.axes[axes[-1]]
        spans = [float(v[-1] - v[0]) for v in self.seen.values]
        self.ratio = spans[0] / spans[-1]
        values = np.array(costs.actions, dtype=float)
        self.order = np.argsort(values)
        self.orders = values[self.order]

    @property
    def n_lots(self) -> int:
        """How many lots are tried: all of them on one axis, if it is short enough."""
        alone = len(self.costs.numeric) == 1 and len(self.seen.points) * len(self.orders) <= EVERY
        return len(self.orders) if alone else LOTS

    @property
    def n_targets(self) -> int:
        return EVERY if len(self.costs.numeric) == 1 else LEVELS

    def forms(
        self, sloped: str | None, slope: float, most: int, with_lots: bool = True
    ) -> list[Draft]:
        """The cheapest form of each size."""
        weights = np.ones(len(self.seen.names))
        if sloped is not None:
            weights[-1] = slope
        line, extra = self.seen.line(weights), int(sloped is not None)
        named = tuple((n, float(w)) for n, w in zip(self.seen.names, weights, strict=True))
        found = []
        lots = [0.0, *self.lots(self.n_lots)] if with_lots and most >= 2 + extra else [0.0]
        for lot in lots:
            kept = self._kept(lot)
            for up in (False, True):
                size = 1 + extra + int(lot > 0)
                form = _Form(self, line, named, kept, up, lot, size)
                found += form.best(most)
        return _best(found)

    def targets(self, values: NDArray, orders: NDArray) -> NDArray[np.float64]:
        """Values of S at which some action changes; those nearer than rounding are one."""
        found = np.sort((values[:, None] + orders[None, :]).ravel())
        apart = np.diff(found, prepend=-np.inf) > self.slack(values)
        return np.asarray(found[apart], dtype=np.float64)

    def slack(self, values: NDArray) -> float:
        """What rounding may make of a level less an order; more where axes are added."""
        orders, summed = self.orders, len(self.seen.names) > 1
        spread = float(values[-1] - values[0] + orders[-1] - orders[0])
        size = float(np.abs(values).max() + np.abs(orders).max())
        return max(1e-11 * spread if summed else 0.0, 8 * np.finfo(float).eps * size)

    def lots(self, most: int | None) -> list[float]:
        """Actions of which some, but not all, are multiples: the first ``most``."""
        above = self.orders[self.orders > 0]
        lots = [float(q) for q in above if len(self._kept(q)) not in (1, len(self.orders))]
        return lots[:most]

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

    def best(self, most: int) -> list[Draft]:
        values, orders = self.line.values, self.level.orders[self.kept]
        every = self.level.targets(values, orders)
        targets = _some(every, self.level.n_targets)
        ends = self._ends(targets, values, orders)  # (targets, orders + 1), falling
        sums = np.zeros((len(orders), len(values) + 1))
        np.cumsum(self.line.costs[:, self.level.order[self.kept]].T, axis=1, out=sums[:, 1:])
        kinds = np.arange(len(orders))
        pieces = sums[kinds, ends[:, :-1]] - sums[kinds, ends[:, 1:]]  # (targets, orders)
        found = []
        if most >= self.size:
            i = int(pieces.sum(axis=1).argmin())
            level = _short(every, float(targets[i]), self.up)
            found.append(self._draft(level, ends[i], len(values), float(pieces[i].sum())))
        if most > self.size:
            i, u, cost = _with_reorder_point(sums, ends, pieces)
            if 0 < u < len(values):
                found.append(
                    self._draft(_short(every, float(targets[i]), self.up), ends[i], u, cost)
                )
        return found

    def _ends(self, targets: NDArray, values: NDArray, orders: NDArray) -> NDArray[np.int64]:
        """(targets, orders + 1) where the levels of each order end, and 0."""
        slack = self.level.slack(values)
        if self.up:
            ends = np.searchsorted(values, targets[:, None] - orders[:-1] - slack, side="left")
        else:
            ends = np.searchsorted(values, targets[:, None] - orders[1:] + slack, side="right")
        whole = np.full((len(targets), 1), len(values))
        return np.hstack([whole, ends, np.zeros_like(whole)])

    def _draft(self, target: float, ends: NDArray, u: int, cost: float) -> Draft:
        size = self.size + int(u < len(self.line.values))
        return Draft(size, max(cost, 0.0), partial(self._fitted, target, ends, u, cost))

    def _fitted(self, target: float, ends: NDArray, u: int, cost: float) -> Fitted:
        """The form with this S, for the first ``u`` levels."""
        values, rising = self.line.values, self.level.order[self.kept]
        taken = np.repeat(rising[::-1], -np.diff(ends)[::-1])
        taken[u:] = rising[0]
        size = self.size + int(u < len(values))
        root = node_of_rungs(self.named, values, taken)
        return Fitted(root, size, max(cost, 0.0), self._words(target, taken, u))

    def _words(self, target: float, taken: NDArray, u: int) -> str:
        """The form in one sentence, that of a threshold where it has two actions to choose from."""
        name, actions = self.level.costs.action_name, self.level.costs.actions
        phrases = [spoken(name, actions[i]) for i in self.level.order[self.kept]]
        below = int((taken != self.level.order[self.kept][0]).sum())
        if not below:
            return f"Always {phrases[0]}."
        if len(phrases) == 2:
            high, low = phrases[1][:1].upper() + phrases[1][1:], phrases[0]
            if sorted(actions) == [0, 1] and name != "action":
                high, low = name[:1].upper() + name[1:], "do not"
            where = self._at_most(below)
            return f"{high} while {where}; otherwise {low}." if where else f"Always {phrases[1]}."
        where, limit = self._at_most(u), self._limit(target)
        if name == "order":
            way = f"order up to {limit}: the {self._choice(target, 'that', phrases, u)}"
        else:
            way = f"take the {self._choice(target, limit, phrases, u)}"
        if where:
            return f"Where {where}, {way}; elsewhere {phrases[0]}."
        return f"{way[0].upper()}{way[1:]}."

    def _choice(self, target: float, limit: str, phrases: list[str], u: int) -> str:
        """``largest order that keeps stock + order at or below 12``, and what if there is none."""
        values, orders = self.line.values, self.level.orders[self.kept]
        name, slack = self.level.costs.action_name, self.level.slack(values)
        sum_of = f"{self._level} + {name}"
        lots = f" in lots of {shown(float(self.lot))}" if self.lot else ""
        if self.lot and orders[0] % self.lot:
            lots = f" of {shown(float(orders[0]))} or{lots}"
        if self.up:
            text = f"smallest {name}{lots} that brings {sum_of} to {limit} or above"
            none, last = values[0] + orders[-1] < target - slack, phrases[-1]
        else:
            text = f"largest {name}{lots} that keeps {sum_of} at or below {limit}"
            none, last = values[u - 1] + orders[0] > target + slack, phrases[0]
        return f"{text}, or {last} if there is none" if none else text

    @property
    def _level(self) -> str:
        *axes, (last, slope) = self.named
        return " + ".join([name for name, _ in axes] + ([last] if slope == 1 else []))

    def _limit(self, number: float) -> str:
        """``6.5 - 0.38 x life1``: what the level is compared with."""
        last, slope = self.named[-1]
        tilt = "" if slope == 1 else f" {'-' if slope > 0 else '+'} {shown(abs(slope))} x {last}"
        return f"{shown(float(np.round(number, 9)))}{tilt}"

    def _at_most(self, count: int) -> str:
        """Where the lowest ``count`` levels are; empty for all of them."""
        values = self.line.values
        if count == len(values):
            return ""
        limit = _short(values, float(values[count - 1]), False)
        return f"{self._level} is at most {self._limit(limit)}"


def _with_reorder_point(sums: NDArray, ends: NDArray, pieces: NDArray) -> tuple[int, int, float]:
    """(target, levels below s, cost) of the cheapest (s, S)."""
    ahead = sums - sums[0]  # what an order costs more than none, in the first u levels
    first, last = ends[:, 1:], ends[:, :-1]
    lower = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1] - pieces  # orders larger than this one
    least = _range_min(ahead, first, last)
    kinds = np.arange(len(sums))
    total = lower - sums[kinds, first] + least + sums[0, -1]
    i, k = np.unravel_index(int(total.argmin()), total.shape)
    part = ahead[k, first[i, k] : last[i, k] + 1]
    return int(i), int(first[i, k] + part.argmin()), float(total[i, k])


def _range_min(rows: NDArray, first: NDArray, last: NDArray) -> NDArray[np.float64]:
    """(T, A) the least of each of (A, U) rows over the (T, A) ranges ``first..last``, ends too."""
    tables, width = [rows], 1
    while 2 * width <= rows.shape[1]:
        longer, before = np.full_like(rows, np.inf), tables[-1]
        np.minimum(before[:, :-width], before[:, width:], out=longer[:, :-width])
        tables.append(longer)
        width *= 2
    level = np.frexp(last - first + 1)[1] - 1
    row, stacked = np.arange(len(rows)), np.stack(tables)
    return np.minimum(stacked[level, row, first], stacked[level, row, last + 1 - (1 << level)])


def _short(places: NDArray, place: float, up: bool) -> float:
    """The number of fewest digits that no place tells from one of them.

    Those from it up to the next, or with ``up`` those from the one before up to it.
    """
    i = int(np.searchsorted(places, place))
    ends = places[max(i - up, 0) : i - up + 2]
    if len(ends) < 2 or i < up:
        return place
    return min(place, between(*map(float, ends)), key=_digits)


def _digits(number: float) -> int:
    return len(shown(float(np.round(abs(number), 9))))


def _some(targets: NDArray, most: int) -> NDArray[np.float64]:
    """All values of S, or some of them where they are many."""
    if len(targets) <= most:
        return targets
    return targets[np.linspace(0, len(targets) - 1, most).astype(int)]
