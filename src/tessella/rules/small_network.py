"""Small networks: one index with a few kinks, and ordered cuts of it.

    index(x) = w . x + sum_h v_h max(0, a_h . x - b_h),    v_h = 1 or -1, one of the weights w is 1

a network with one hidden layer and one output, whose actions are the first ones of the model's
list, in order, along the rising or the falling index. It stores the other weights, a_h and b_h of
every unit, and the cuts. Where it is known which units are above 0, the index is a weighted
sum, so a tree of splits holds it, and every export writes it.

Units are trained on the expected cost of a rule that is randomised near its cuts t_j,

    sum_s c(s, 0) + sum_j (c(s, j) - c(s, j - 1)) sigmoid(index(s) - t_j),

by L-BFGS from a few starts; the cuts that are stored are then the cheapest for these units, exactly
(see ``linear_cuts``). What is best over all units is not known, so nothing is proven.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from tessella.errors import format_value
from tessella.mdp.actions import describe_action
from tessella.mdp.rule_tree import Leaf, Node, Split
from tessella.rules.linear_cuts import (
    IndexLevels,
    Projection,
    choose_cut,
    compute_costs_both_ways,
    find_optimal_cuts,
    sort_states,
)
from tessella.rules.rule_class import (
    Candidate,
    Costs,
    RuleClass,
    compute_cost_margins,
    find_pareto_front,
    format_weighted_sum,
)

WEIGHT_DECIMALS = (1, 2, 3)  # behind the point, of weights in steps of their axis
LBFGS_MAX_STEPS = 60  # steps of L-BFGS
FORBIDDEN_COST_MARGINS = 20.0  # typical margins: costs above are forbidden actions, and cut to this


@dataclass(frozen=True)
class SmallNetwork(RuleClass):
    """An index with kinks, and ordered cuts of it.

    Attributes:
        units: the most hidden units.
        starts: how many times training starts, for each number of units.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.SmallNetwork()])
        >>> rule.size <= 7
        True
    """

    units: int = 2
    starts: int = 2
    name: ClassVar[str] = "small network"
    reading_rank: ClassVar[int] = 5

    def why_not_applicable(self, costs: Costs) -> str:
        if not costs.numeric_axes:
            return "no axis has numbers"
        return "there is one action only" if len(costs.actions) < 2 else costs.why_not_summable

    def why_not_exact(self, costs: Costs) -> str:
        return "networks are trained, from a few starts"

    def max_size(self, costs: Costs) -> float:
        return _compute_size(len(costs.numeric_axes), self.units, len(costs.actions) - 1)

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        results: list[Candidate] = []
        axes = costs.numeric_axes
        coarse = Projection(costs, axes, may_coarsen=True)
        full = Projection(costs, axes)
        for units, start in product(range(1, self.units + 1), range(self.starts)):
            if (
                _compute_size(len(axes), units, 1) > max_size
                or time.perf_counter() > costs.deadline
            ):
                break
            trained = _train_index(coarse, units, np.random.default_rng(start), costs.deadline)
            results += _fit_cuts(costs, full, trained, max_size)
        return find_pareto_front(results)


def _compute_size(axes: int, units: int, cuts: int) -> int:
    return axes - 1 + units * (axes + 1) + cuts


@dataclass(frozen=True, eq=False)
class KinkedIndex:
    """A weighted sum of d axes with kinks."""

    weights: NDArray[np.float64]  # (d,)
    kink_weights: NDArray[np.float64]  # (H, d) a_h
    kink_offsets: NDArray[np.float64]  # (H,) b_h
    sign: NDArray[np.float64]  # (H,) v_h

    def __call__(self, points: NDArray) -> NDArray[np.float64]:
        activations = np.maximum(points @ self.kink_weights.T - self.kink_offsets, 0.0)
        return points @ self.weights + activations @ self.sign


def _train_index(
    projection: Projection, units: int, rng: np.random.Generator, deadline: float
) -> KinkedIndex:
    """Units that minimise the cost of the randomised rule, for points scaled to -1 to 1."""
    span = np.maximum(np.ptp(projection.points, axis=0), 1e-300) / 2
    points = projection.points / span - 1.0
    cost_steps = _compute_cost_steps(projection.costs)
    d = points.shape[1]
    ends = np.cumsum([d, units * d, units, units])
    initial = rng.normal(0, 2.0, ends[-1] + cost_steps.shape[1])
    initial[:d] = 4 * _fit_initial_slope(points, projection.costs)
    initial[ends[2] : ends[3]] = rng.choice((-2.0, 2.0), units)
    initial[ends[3] :] = np.linspace(-3, 3, cost_steps.shape[1])

    def compute_cost(numbers: NDArray) -> tuple[float, NDArray]:
        w, a, b, v = np.split(numbers[: ends[-1]], ends[:-1])
        a = a.reshape(units, d)
        cuts = numbers[ends[-1] :]
        preactivations = points @ a.T - b
        activations = np.maximum(preactivations, 0.0)
        probabilities = expit((points @ w + activations @ v)[:, None] - cuts)
        slope = cost_steps * probabilities * (1 - probabilities)
        by_state = slope.sum(axis=1)
        unit_gradient = by_state[:, None] * v * (preactivations > 0)
        weight_gradients = [by_state @ points, (unit_gradient.T @ points).ravel()]
        unit_gradients = [-unit_gradient.sum(axis=0), by_state @ activations]
        gradient = np.concatenate([*weight_gradients, *unit_gradients, -slope.sum(axis=0)])
        if time.perf_counter() > deadline:
            gradient = np.zeros_like(gradient)
        return float((cost_steps * probabilities).sum()), gradient

    solution = minimize(
        compute_cost, initial, jac=True, method="L-BFGS-B", options={"maxiter": LBFGS_MAX_STEPS}
    ).x
    w, a, b, v = np.split(solution[: ends[-1]], ends[:-1])
    a = a.reshape(units, d) * np.abs(v)[:, None]
    offsets = b * np.abs(v) + a.sum(axis=1)  # of points that begin at 0
    return KinkedIndex(w / span, a / span, offsets, np.where(v < 0, -1.0, 1.0))


def _compute_cost_steps(table: NDArray) -> NDArray[np.float64]:
    """(S, A - 1) what each action costs more than the one before, as shares of all."""
    excess = table - table.min(axis=1, keepdims=True)
    second = np.partition(excess, 1, axis=1)[:, 1]
    typical_margin = np.quantile(second[second > 0], 0.99) if (second > 0).any() else 1.0
    steps = np.diff(np.minimum(excess, FORBIDDEN_COST_MARGINS * typical_margin), axis=1)
    return steps / max(float(np.abs(steps).sum()), 1e-300)


def _fit_initial_slope(points: NDArray, table: NDArray) -> NDArray[np.float64]:
    """(d,) the direction in which the cheapest action rises, by cost margins; of length 1."""
    margin = compute_cost_margins(table)
    weight = np.sqrt(np.minimum(margin, np.quantile(margin, 0.99)))
    design = np.column_stack([points, np.ones(len(points))]) * weight[:, None]
    slope = np.linalg.lstsq(design, table.argmin(axis=1) * weight, rcond=None)[0][:-1]
    return np.asarray(slope / max(float(np.linalg.norm(slope)), 1e-300), dtype=np.float64)


def _fit_cuts(
    costs: Costs, projection: Projection, trained: KinkedIndex, max_size: int
) -> list[Candidate]:
    """Networks with 1, 2, ... cuts, their numbers rounded to few digits."""
    candidates: list[Candidate] = []
    n_weights = _compute_size(len(projection.names), len(trained.kink_offsets), 0)
    best = np.full(len(costs.actions), np.inf)
    for index in _iterate_roundings(projection, trained):
        states = sort_states(index(projection.points + projection.origin), projection.costs)
        least = compute_costs_both_ways(states.costs)
        for cuts in range(1, min(least.shape[1] - 1, max_size - n_weights) + 1):
            if least[:, cuts].min() < best[cuts] * (1 - 1e-9):
                best[cuts] = least[:, cuts].min()
                is_reversed = bool(least[1, cuts] < least[0, cuts])
                network = _make_candidate(costs, projection, index, states, is_reversed, cuts)
                candidates.append(network)
    return candidates


def _iterate_roundings(projection: Projection, trained: KinkedIndex) -> Iterator[KinkedIndex]:
    """An index in which the axis that counts most has weight 1, with more and more digits."""
    spacings = np.array([float(np.diff(v).min()) for v in projection.values])
    main_axis = int(np.argmax(np.abs(trained.weights) * np.ptp(projection.points, axis=0)))
    scale = abs(float(trained.weights[main_axis])) or 1.0
    orientation = -1.0 if trained.weights[main_axis] < 0 else 1.0
    unit = spacings / spacings[main_axis]  # weights in steps of their axis
    for digits in WEIGHT_DECIMALS:
        weights = _round_weights(orientation * trained.weights / scale, unit, digits)
        weights[main_axis] = 1.0
        kink_weights = _round_weights(trained.kink_weights / scale, unit, digits)
        if np.isfinite(kink_weights).all() and kink_weights.any(axis=1).all():
            kinks = zip(kink_weights, trained.kink_offsets / scale, strict=True)
            offsets = np.array([_place_kink(projection, a, b) for a, b in kinks])
            yield KinkedIndex(weights, kink_weights, offsets, orientation * trained.sign)


def _round_weights(weights: NDArray, unit: NDArray, digits: int) -> NDArray[np.float64]:
    """Weights rounded to that many digits behind the point, in the units of their axes."""
    decimals = np.maximum(digits + np.ceil(np.log10(unit)).astype(int), 0)
    columns = [np.round(weights[..., k], int(p)) for k, p in enumerate(decimals)]
    return np.asarray(np.stack(columns, axis=-1) + 0.0, dtype=np.float64)


def _place_kink(projection: Projection, weights: NDArray, offset: float) -> float:
    """An offset of few digits near ``offset`` that no state has, from the axes' own zero."""
    origin = float(projection.origin @ weights)
    values = np.unique(np.round(projection.points @ weights, 9) + origin)
    return choose_cut(values, int(np.searchsorted(values, offset + origin)))


def _make_candidate(
    costs: Costs,
    projection: Projection,
    index: KinkedIndex,
    states: IndexLevels,
    is_reversed: bool,
    cuts: int,
) -> Candidate:
    ordered_cuts = find_optimal_cuts(states.costs, cuts, is_reversed)
    limits = [choose_cut(states.values, c) for c in ordered_cuts.cuts]
    root = build_network_node(projection.names, index, limits, ordered_cuts.actions)
    sentence = _describe_network(costs, projection.names, index, limits, ordered_cuts.actions)
    size = _compute_size(len(projection.names), len(index.kink_offsets), cuts)
    return Candidate(root, size, ordered_cuts.cost, sentence)


def build_network_node(
    names: tuple[str, ...], index: KinkedIndex, limits: list[float], actions: tuple[int, ...]
) -> Node:
    """Which units are above 0, one after the other; then the cuts of the sum that is left."""

    def build_leaf(active: tuple[bool, ...]) -> Node:
        is_active = np.array(active)
        weights = index.weights + index.sign[is_active] @ index.kink_weights[is_active]
        offset = float(index.sign[is_active] @ index.kink_offsets[is_active])
        cuts = tuple(float(np.round(limit + offset, 12)) for limit in limits)
        return Split(_name_weights(names, weights), cuts, tuple(map(Leaf, actions)))

    def build(active: tuple[bool, ...]) -> Node:
        h = len(active)
        if h == len(index.kink_offsets):
            return build_leaf(active)
        branches = build((*active, False)), build((*active, True))
        return Split(
            _name_weights(names, index.kink_weights[h]), (float(index.kink_offsets[h]),), branches
        )

    return build(())


def _name_weights(names: tuple[str, ...], weights: NDArray) -> tuple[tuple[str, float], ...]:
    """Weights by name, those of 0 left out; without their digits beyond the twelfth."""
    pairs = [(n, float(np.round(w, 12))) for n, w in zip(names, weights, strict=True)]
    return tuple(pair for pair in pairs if pair[1]) or (pairs[0],)


def _describe_network(
    costs: Costs, names: tuple[str, ...], index: KinkedIndex, limits: list[float], actions: tuple
) -> str:
    text = f"index = {_format_sum(names, index.weights)}"
    kinks = zip(index.kink_weights, index.kink_offsets, index.sign, strict=True)
    for weights, offset, sign in kinks:
        offset_text = f" {'-' if offset > 0 else '+'} {format_value(abs(float(offset)))}"
        unit_text = _format_sum(names, weights) + (offset_text if offset else "")
        text += f" {'-' if sign < 0 else '+'} max(0, {unit_text})"
    lines = [f"{text}."]
    intervals = pairwise([-math.inf, *limits, math.inf])
    for action, (low, high) in zip(actions, intervals, strict=False):
        if low < high:
            name = describe_action(costs.action_name, costs.actions[action])
            lines.append(f"{name} where the index is {_format_bounds(low, high)}.")
    return "\n".join(lines)


def _format_bounds(low: float, high: float) -> str:
    """``above 2 and at most 5``, without an infinite end."""
    bounds = [f"above {format_value(low)}"] if math.isfinite(low) else []
    bounds += [f"at most {format_value(high)}"] if math.isfinite(high) else []
    return " and ".join(bounds)


def _format_sum(names: tuple[str, ...], weights: NDArray) -> str:
    pairs = zip(names, weights.tolist(), strict=True)
    return format_weighted_sum(pair for pair in pairs if pair[1]) or "0"
