"""Small networks: one index with a few kinks, and ordered cuts of it.

    index(x) = w . x + sum_h v_h max(0, a_h . x - b_h),    v_h = 1 or -1, one of the weights w is 1

a network with one hidden layer and one output, whose actions are the first ones of the model's
list, in order, along the rising or the falling index. It stores the other weights, a_h and b_h of
every unit, and the cuts. Where it is known which units are above 0, the index is a weighted
sum, so a program of splits holds it, and every export writes it.

Units are trained on the expected cost of a rule that hesitates at its cuts t_j,

    sum_s c(s, 0) + sum_j (c(s, j) - c(s, j - 1)) sigmoid(index(s) - t_j),

by L-BFGS from a few starts; the cuts that are stored are then the cheapest for these units, exactly
(see ``ladder``). What is best over all units is not known, so nothing is proven.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from tessella.errors import shown
from tessella.mdp.actions import described
from tessella.mdp.program import Choose, Node, Split
from tessella.rules.ladder import Rungs, cut_below, in_order, least_costs, rungs
from tessella.rules.linear_cuts import Projection
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

DIGITS = (1, 2, 3)  # behind the point, of weights in steps of their axis
STEPS = 60  # of L-BFGS
DEAR = 20.0  # times what is usually at stake: what is dearer is forbidden, and no dearer to train


@dataclass(frozen=True)
class SmallNetwork(RuleClass):
    """An index with kinks, and ordered cuts of it.

    Attributes:
        units: the most hidden units.
        starts: how often training begins anew, for each number of units.
    """

    units: int = 2
    starts: int = 2
    name: ClassVar[str] = "small network"

    def refusal(self, costs: Costs) -> str:
        if not costs.numeric:
            return "no axis has numbers"
        return "there is one action only" if len(costs.actions) < 2 else costs.unsummable

    def heuristic(self, costs: Costs) -> str:
        return "networks are trained, from a few starts"

    def largest(self, costs: Costs) -> float:
        return _size(len(costs.numeric), self.units, len(costs.actions) - 1)

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        found: list[Fitted] = []
        axes = costs.numeric
        rough, whole = Projection(costs, axes, blocks=True), Projection(costs, axes)
        for units, start in product(range(1, self.units + 1), range(self.starts)):
            if _size(len(axes), units, 1) > most or time.perf_counter() > costs.deadline:
                break
            trained = _trained(rough, units, np.random.default_rng(start), costs.deadline)
            found += _told(costs, whole, trained, most)
        return falling(found)


def _size(axes: int, units: int, cuts: int) -> int:
    return axes - 1 + units * (axes + 1) + cuts


@dataclass(frozen=True, eq=False)
class Index:
    """A weighted sum of d axes with kinks.

    Attributes:
        weights: (d,)
        kinks: (H, d) a_h.
        at: (H,) b_h.
        sign: (H,) v_h.
    """

    weights: NDArray[np.float64]
    kinks: NDArray[np.float64]
    at: NDArray[np.float64]
    sign: NDArray[np.float64]

    def __call__(self, points: NDArray) -> NDArray[np.float64]:
        above = np.maximum(points @ self.kinks.T - self.at, 0.0)
        return points @ self.weights + above @ self.sign


def _trained(seen: Projection, units: int, rng: np.random.Generator, deadline: float) -> Index:
    """Units that cost little when the rule hesitates, for points that are scaled to -1 to 1."""
    span = np.maximum(np.ptp(seen.points, axis=0), 1e-300) / 2
    points = seen.points / span - 1.0
    steps, d = _steps(seen.table), points.shape[1]
    parts = np.cumsum([d, units * d, units, units])
    begin = rng.normal(0, 2.0, parts[-1] + steps.shape[1])
    begin[:d] = 4 * _slope(points, seen.table)
    begin[parts[2] : parts[3]] = rng.choice((-2.0, 2.0), units)
    begin[parts[3] :] = np.linspace(-3, 3, steps.shape[1])

    def cost(numbers: NDArray) -> tuple[float, NDArray]:
        w, a, b, v = np.split(numbers[: parts[-1]], parts[:-1])
        a, cuts = a.reshape(units, d), numbers[parts[-1] :]
        before = points @ a.T - b
        above = np.maximum(before, 0.0)
        taken = expit((points @ w + above @ v)[:, None] - cuts)
        slope = steps * taken * (1 - taken)
        by_state = slope.sum(axis=1)
        back = by_state[:, None] * v * (before > 0)
        pieces = by_state @ points, (back.T @ points).ravel(), -back.sum(axis=0)
        gradient = np.concatenate([*pieces, by_state @ above, -slope.sum(axis=0)])
        late = time.perf_counter() > deadline
        return float((steps * taken).sum()), np.zeros_like(gradient) if late else gradient

    found = minimize(cost, begin, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    w, a, b, v = np.split(found[: parts[-1]], parts[:-1])
    a = a.reshape(units, d) * np.abs(v)[:, None]
    at = b * np.abs(v) + a.sum(axis=1)  # of points that begin at 0
    return Index(w / span, a / span, at, np.where(v < 0, -1.0, 1.0))


def _steps(table: NDArray) -> NDArray[np.float64]:
    """(S, A - 1) what each action costs more than the one before, as shares of all."""
    beyond = table - table.min(axis=1, keepdims=True)
    second = np.partition(beyond, 1, axis=1)[:, 1]
    usual = np.quantile(second[second > 0], 0.99) if (second > 0).any() else 1.0
    steps = np.diff(np.minimum(beyond, DEAR * usual), axis=1)
    return steps / max(float(np.abs(steps).sum()), 1e-300)


def _slope(points: NDArray, table: NDArray) -> NDArray[np.float64]:
    """(d,) the direction in which the cheapest action rises, by what is at stake, of length 1."""
    low = np.partition(table, 1, axis=1)
    weight = np.sqrt(np.minimum(low[:, 1] - low[:, 0], np.quantile(low[:, 1] - low[:, 0], 0.99)))
    design = np.column_stack([points, np.ones(len(points))]) * weight[:, None]
    slope = np.linalg.lstsq(design, table.argmin(axis=1) * weight, rcond=None)[0][:-1]
    return np.asarray(slope / max(float(np.linalg.norm(slope)), 1e-300), dtype=np.float64)


def _told(costs: Costs, seen: Projection, trained: Index, most: int) -> list[Fitted]:
    """Networks with 1, 2, ... cuts, their numbers rounded to few digits."""
    made: list[Fitted] = []
    extra = _size(len(seen.names), len(trained.at), 0)
    best = np.full(len(costs.actions), np.inf)
    for index in _rounded(seen, trained):
        line = _line(seen, index)
        least = np.stack([least_costs(line.costs), least_costs(line.costs[::-1])])
        for cuts in range(1, min(least.shape[1] - 1, most - extra) + 1):
            if least[:, cuts].min() < best[cuts] * (1 - 1e-9):
                best[cuts] = least[:, cuts].min()
                against = bool(least[1, cuts] < least[0, cuts])
                made.append(_fitted(costs, seen, index, line, against, cuts))
    return made


def _rounded(seen: Projection, trained: Index) -> Iterator[Index]:
    """An index in which the axis that counts most has weight 1, with more and more digits."""
    steps = np.array([float(np.diff(v).min()) for v in seen.values])
    first = int(np.argmax(np.abs(trained.weights) * np.ptp(seen.points, axis=0)))
    scale = abs(float(trained.weights[first])) or 1.0
    turn = -1.0 if trained.weights[first] < 0 else 1.0
    unit = steps / steps[first]  # weights in steps of their axis
    for digits in DIGITS:
        weights = _round(turn * trained.weights / scale, unit, digits)
        weights[first] = 1.0
        kinks = _round(trained.kinks / scale, unit, digits)
        if np.isfinite(kinks).all() and kinks.any(axis=1).all():
            places = zip(kinks, trained.at / scale, strict=True)
            at = np.array([_between_states(seen, a, b) for a, b in places])
            yield Index(weights, kinks, at, turn * trained.sign)


def _round(weights: NDArray, unit: NDArray, digits: int) -> NDArray[np.float64]:
    """Weights rounded to so many digits behind the point, in the units of their axes."""
    places = np.maximum(digits + np.ceil(np.log10(unit)).astype(int), 0)
    columns = [np.round(weights[..., k], int(p)) for k, p in enumerate(places)]
    return np.asarray(np.stack(columns, axis=-1) + 0.0, dtype=np.float64)


def _between_states(seen: Projection, kink: NDArray, at: float) -> float:
    """A place of few digits near ``at`` that no state lies at, counted from the axes' own zero."""
    origin = float(seen.origin @ kink)
    values = np.unique(np.round(seen.points @ kink, 9) + origin)
    return cut_below(values, int(np.searchsorted(values, at + origin)))


def _line(seen: Projection, index: Index) -> Rungs:
    return rungs(index(seen.points + seen.origin), seen.table)


def _fitted(
    costs: Costs, seen: Projection, index: Index, line: Rungs, against: bool, cuts: int
) -> Fitted:
    steps = in_order(line.costs[::-1] if against else line.costs, cuts)
    below = [len(line.values) - c for c in reversed(steps.cuts)] if against else [*steps.cuts]
    actions = steps.actions[::-1] if against else steps.actions
    limits = [cut_below(line.values, c) for c in below]
    root = network_node(seen.names, index, limits, actions)
    words = _words(costs, seen.names, index, limits, actions)
    size = _size(len(seen.names), len(index.at), cuts)
    return Fitted(root, size, steps.cost, words)


def network_node(
    names: tuple[str, ...], index: Index, limits: list[float], actions: tuple[int, ...]
) -> Node:
    """Which units are above 0, one after the other; then the cuts of the sum that is left."""

    def leaf(active: tuple[bool, ...]) -> Node:
        which = np.array(active)
        weights = index.weights + index.sign[which] @ index.kinks[which]
        beyond = float(index.sign[which] @ index.at[which])
        cuts = tuple(float(np.round(limit + beyond, 12)) for limit in limits)
        return Split(_named(names, weights), cuts, tuple(map(Choose, actions)))

    def grown(active: tuple[bool, ...]) -> Node:
        h = len(active)
        if h == len(index.at):
            return leaf(active)
        branches = grown((*active, False)), grown((*active, True))
        return Split(_named(names, index.kinks[h]), (float(index.at[h]),), branches)

    return grown(())


def _named(names: tuple[str, ...], weights: NDArray) -> tuple[tuple[str, float], ...]:
    """Weights by name, those of 0 left out; without their digits beyond the twelfth."""
    told = [(n, float(np.round(w, 12))) for n, w in zip(names, weights, strict=True)]
    return tuple(pair for pair in told if pair[1]) or (told[0],)


def _words(
    costs: Costs, names: tuple[str, ...], index: Index, limits: list[float], actions: tuple
) -> str:
    text = f"index = {_sum(names, index.weights)}"
    for kink, at, sign in zip(index.kinks, index.at, index.sign, strict=True):
        off = "" if not at else f" {'-' if at > 0 else '+'} {shown(abs(float(at)))}"
        text += f" {'-' if sign < 0 else '+'} max(0, {_sum(names, kink)}{off})"
    lines = [text + "."]
    ends = [None, *limits, None]
    for action, low, high in zip(actions, ends, ends[1:], strict=False):
        said = [f"above {shown(low)}" if low is not None else ""]
        said += [f"at most {shown(high)}" if high is not None else ""]
        where = " and ".join(filter(None, said))
        if low is None or high is None or low < high:
            name = described(costs.action_name, costs.actions[action])
            lines.append(f"{name} where it is {where}.")
    return "\n".join(lines)


def _sum(names: tuple[str, ...], weights: NDArray) -> str:
    text = ""
    for name, weight in zip(names, weights.tolist(), strict=True):
        if weight:
            size = "" if abs(weight) == 1 else f"{shown(abs(weight))} "
            sign = (" - " if weight < 0 else " + ") if text else ("-" if weight < 0 else "")
            text += f"{sign}{size}{name}"
    return text or "0"
