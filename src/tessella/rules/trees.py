"""Trees of cuts, along single axes or slanted: k leaves store 2 (k - 1) + k numbers.

In an `AxisTree`, a cut stores its axis and its place, a leaf its action. The best tree for additive
costs comes from the dynamic program over boxes (see ``boxes``), exact at any depth. It visits all
boxes: 182,325 for 33 x 25 states, 6.8 million for 101 x 51. Where they are too many, cuts are
allowed only at the places along each axis that matter most, and the answer is no longer proven
best. Where the leaves are too many for one pass that does all numbers of them, passes with a price
per leaf find some of the best trees; what these and greedy trees leave when they are pruned fills
the numbers between.

In a `LinearTree`, a cut compares an axis, or p x_a + q x_b of two axes with small whole p and q (in
steps of these axes), with a place. Which sum it compares is one number, for the sums are the
class's own. Trees are grown greedily over all of them (see ``cart``), and what is left of these
when they are pruned is the best for its cuts; which cuts would be best of all is not known, so
nothing is proven.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import (
    LabelSplit,
    Leaf,
    Node,
    Split,
    build_split_or_leaf,
    choose_short_number,
    is_text_axis,
    list_children,
)
from tessella.rules.boxes import (
    BoxLeaf,
    BoxTree,
    BoxTreeSolver,
    count_boxes,
    count_leaves,
    fold_boxes,
    prune_trees,
)
from tessella.rules.cart import grow_cart_trees, grow_nested_trees, list_cuts
from tessella.rules.rule_class import Candidate, Costs, RuleClass, find_pareto_front

PRICE_MAX_PASSES = 10  # prices that are tried on the way to a cost limit
GROWN_MAX_LEAVES = 1_000  # leaves of a greedy tree, before it is pruned
GREEDY_CUTS_LEAVES = 40  # leaves of a greedy tree whose cuts are tried in other orders
IMITATION_MAX_LEAVES = 60  # leaves of a greedy tree that is evaluated as it grows
MAX_STATE_SUMS = 3_000_000  # states x sums, at most
SLANTED_MAX_LEAVES = 600  # leaves of a tree, before it is pruned


@dataclass(frozen=True)
class AxisTree(RuleClass):
    """Trees of axis-aligned cuts.

    Attributes:
        boxes: the most boxes that are searched; with more, only some cuts are tried.
        work: the most additions that are spent on trees of every size; beyond, prices are used.

    Example:
        >>> shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
        >>> rule = ts.compress(ts.solve(shop), "2%", classes=[ts.AxisTree()])
        >>> print(rule.explain().splitlines()[0])
        order=4 where stock is at most 3
    """

    boxes: int = 2_000_000
    work: float = 4e8
    name: ClassVar[str] = "axis tree"
    step: ClassVar[int] = 3
    closed_under_slicing: ClassVar[bool] = True
    benefits_from_local_search: ClassVar[bool] = True
    fits_listed_states: ClassVar[bool] = True

    def why_not_exact(self, costs: Costs) -> str:
        n_boxes = count_boxes(costs.grid.lengths)
        if n_boxes <= self.boxes:
            return ""
        return f"{n_boxes:,} boxes are too many to look at; cuts are made at some places only"

    def max_size(self, costs: Costs) -> float:
        return compute_tree_size(costs.grid.size)

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        leaves = compute_max_leaves(max_size)
        if leaves < 1:
            return []
        features = list_axis_features(costs)
        positions = self._choose_positions(costs)
        sums = _sum_parts(costs, positions)
        solver = BoxTreeSolver(sums)
        if leaves <= self._max_counted_leaves(solver) and not self.why_not_exact(costs):
            results = solver.solve_by_count(leaves)
            return find_pareto_front(_make_candidates(results, features, positions))
        results = self._find_good_trees(costs, solver, leaves, cost_limit)
        if not _is_integral(costs.by_state):
            places = np.indices(solver.shape).reshape(len(solver.shape), -1).T
            by_place = sums.reshape(len(places), -1)
            results = prune_trees([tree for _, tree in results], leaves, places, by_place)
        candidates = _make_candidates(results, features, positions)
        if leaves > 1 and (self.why_not_exact(costs) or not _is_integral(costs.by_state)):
            # What is left of greedy trees when they are pruned for these costs.
            trees = grow_cart_trees(*_flatten_costs(costs), min(2 * leaves, GROWN_MAX_LEAVES))
            results = prune_trees(trees, leaves, costs.ranks, costs.by_state)
            candidates += _make_candidates(results, features)
        return find_pareto_front(candidates)

    def _find_good_trees(
        self, costs: Costs, solver: BoxTreeSolver, leaves: int, cost_limit: float
    ) -> list:
        """Good trees of all sizes, the best for some prices and for small numbers of leaves."""
        results = _solve_by_prices(solver, cost_limit, costs.deadline)
        if _is_integral(costs.by_state):
            return [(cost, tree) for cost, tree in results if count_leaves(tree) <= leaves]
        fewest = min(count_leaves(tree) for _, tree in results)
        n_counted = min(self._max_counted_leaves(solver), leaves, fewest)
        if n_counted > 1 and time.perf_counter() < costs.deadline:
            results += solver.solve_by_count(n_counted)
        return results

    def imitations(self, costs: Costs, max_size: int) -> list[Candidate]:
        """A greedy tree as it grows."""
        max_leaves = min(compute_max_leaves(max_size), IMITATION_MAX_LEAVES)
        trees = grow_nested_trees(*_flatten_costs(costs), max_leaves)
        return _make_candidates([(np.inf, tree) for tree in trees], list_axis_features(costs))

    def size_lower_bound(
        self, costs: Costs, cost_limit: float, max_size: int, candidates: list[Candidate]
    ) -> int:
        leaves = compute_max_leaves(max_size)
        solver = BoxTreeSolver(costs.by_rank)
        must_cost_nothing = cost_limit < 1 and _is_integral(costs.by_state)
        if leaves <= self._max_counted_leaves(solver) or must_cost_nothing:
            return super().size_lower_bound(costs, cost_limit, max_size, candidates)
        bound = _bound_leaves_below(solver, cost_limit, costs.deadline)
        return compute_tree_size(min(bound, leaves + 1))

    def neighbours(self, costs: Costs, root: Node) -> Iterator[Node]:
        """Trees with one cut a place further on or back, or another action in one leaf."""
        if isinstance(root, Leaf):
            yield from (Leaf(a) for a in range(len(costs.actions)) if a != root.action)
        elif isinstance(root, Split):
            for cuts in _iterate_moved_cuts(costs, root):
                yield replace(root, cuts=cuts)
            for branches in self._change_one(costs, root.branches):
                yield replace(root, branches=branches)
        elif isinstance(root, LabelSplit):
            for labels in _list_labels(costs, root):
                yield replace(root, labels=labels)
            for inside, outside in self._change_one(costs, (root.inside, root.outside)):
                yield replace(root, inside=inside, outside=outside)

    def shortened(self, root: Node) -> Iterator[Candidate]:
        """Trees without one of the cuts: of its two sides, one takes the place of both."""
        for tree in _iterate_without_cut(root):
            yield Candidate(tree, compute_tree_size(_count_rule_leaves(tree)), 0.0)

    def _change_one(self, costs: Costs, nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
        """Nodes with one of them replaced by a neighbour."""
        for j, node in enumerate(nodes):
            for other in self.neighbours(costs, node):
                yield (*nodes[:j], other, *nodes[j + 1 :])

    def _max_counted_leaves(self, solver: BoxTreeSolver) -> int:
        """For how many leaves the dynamic program by count is cheap enough."""
        mean_cuts = sum(n * (n * n - 1) / 6 / (n * (n + 1) / 2) for n in solver.shape)
        return int(math.sqrt(2 * self.work / max(mean_cuts * count_boxes(solver.shape), 1)))

    def _choose_positions(self, costs: Costs) -> list[NDArray[np.int64]]:
        """Where each part begins along each axis: everywhere, if there are not too many boxes."""
        shape = costs.grid.lengths
        if not self.why_not_exact(costs):
            return [np.arange(n) for n in shape]
        if costs.grid.is_listed:
            return self._choose_greedy_cuts(costs)
        weights = [compute_boundary_losses(costs.by_rank, axis) for axis in range(len(shape))]
        n_parts = [min(n, 2) for n in shape]
        totals = np.array([w.sum() for w in weights])
        is_affordable = True
        while is_affordable:  # more parts for the axis that loses most per part
            gain = np.where(np.less(n_parts, shape), totals / n_parts, -1.0)
            axis = int(gain.argmax())
            n_parts[axis] += max(1, n_parts[axis] // 8)
            is_affordable = gain[axis] >= 0 and count_boxes(tuple(n_parts)) <= self.boxes // 10
        parts = np.minimum(n_parts, shape).tolist()
        return [choose_positions(w, p) for w, p in zip(weights, parts, strict=True)]

    def _choose_greedy_cuts(self, costs: Costs) -> list[NDArray[np.int64]]:
        """The first cuts of greedy trees, as many as give boxes enough."""
        starts = [np.zeros(1, dtype=np.int64) for _ in costs.grid.axes]
        trees = [*grow_cart_trees(*_flatten_costs(costs), GREEDY_CUTS_LEAVES)]
        for axis, position in dict.fromkeys(cut for tree in trees for cut in list_cuts(tree)):
            wider = [*starts]
            wider[axis] = np.union1d(starts[axis], position)
            if count_boxes(tuple(map(len, wider))) <= self.boxes // 10:
                starts = wider
        return starts


def _sum_parts(costs: Costs, starts: list[NDArray]) -> NDArray[np.float64]:
    """(parts, A) costs summed over the parts of the axes that begin at these ranks."""
    parts = [np.searchsorted(s, r, "right") - 1 for s, r in zip(starts, costs.ranks.T, strict=True)]
    shape = tuple(map(len, starts))
    cells = np.ravel_multi_index(parts, shape)
    sums = np.zeros((*shape, costs.by_state.shape[1]))
    for action, column in enumerate(costs.by_state.T):
        sums[..., action] = np.bincount(cells, column, math.prod(shape)).reshape(shape)
    return sums


def _iterate_without_cut(node: Node) -> Iterator[Node]:
    if isinstance(node, LabelSplit):
        yield from (node.inside, node.outside)
        yield from (replace(node, inside=one) for one in _iterate_without_cut(node.inside))
        yield from (replace(node, outside=one) for one in _iterate_without_cut(node.outside))
    if not isinstance(node, Split):
        return
    for j in range(len(node.cuts)):
        cuts = (*node.cuts[:j], *node.cuts[j + 1 :])
        for kept in node.branches[j : j + 2]:
            branches = (*node.branches[:j], kept, *node.branches[j + 2 :])
            yield replace(node, cuts=cuts, branches=branches) if cuts else kept
    for j, branch in enumerate(node.branches):
        for one in _iterate_without_cut(branch):
            yield replace(node, branches=(*node.branches[:j], one, *node.branches[j + 1 :]))


def _count_rule_leaves(node: Node) -> int:
    return sum(map(_count_rule_leaves, list_children(node))) or 1


def _iterate_moved_cuts(costs: Costs, node: Split) -> Iterator[tuple[float, ...]]:
    """The cuts of a node with one of them a place further on or back."""
    values = costs.sorted_values[costs.grid.axis(node.weights[0][0])].tolist()
    positions = np.searchsorted(values, node.cuts).tolist()
    for j, position in enumerate(positions):
        low = positions[j - 1] if j else 0
        high = positions[j + 1] if j + 1 < len(positions) else len(values)
        for moved in (position - 1, position + 1):
            if low < moved < high:
                cut = choose_short_number(values[moved - 1], values[moved])
                yield (*node.cuts[:j], cut, *node.cuts[j + 1 :])


def _list_labels(costs: Costs, node: LabelSplit) -> list[tuple[str, ...]]:
    """The labels of a node with one fewer, and with one more."""
    labels = costs.grid.values[costs.grid.axis(node.axis)].tolist()
    count = len(node.labels)
    counts = {max(count - 1, 1), min(count + 1, len(labels) - 1)}
    return [tuple(labels[:n]) for n in counts]


def _flatten_costs(costs: Costs) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(S, axes) positions of the states along rising axes, and their (S, A) costs."""
    return costs.ranks.astype(np.float32), costs.by_state


def compute_max_leaves(numbers: int) -> int:
    """How many leaves that many numbers can store."""
    return (numbers + 2) // 3


def compute_tree_size(leaves: int) -> int:
    """Numbers that a tree stores."""
    return 3 * leaves - 2


def _is_integral(costs: NDArray) -> bool:
    return bool((costs == np.rint(costs)).all())


def _solve_by_prices(solver: BoxTreeSolver, cost_limit: float, deadline: float) -> list:
    """The best trees for prices per leaf that converge to the one that meets the cost limit."""
    lowest_cost = float(solver.compute_action_costs((1,) * len(solver.shape)).min(axis=-1).sum())
    high = max(float(solver.compute_action_costs(solver.shape).min()), 1e-200)
    low = (0.25 if _has_integral_sums(solver) else 1e-9 * high) / math.prod(solver.shape)
    low = 2.0 ** math.floor(math.log2(low))  # added to whole costs without rounding
    cost, tree = solver.solve_for_price(low)
    results = [(cost - low * count_leaves(tree), tree)]
    goal = max(cost_limit, lowest_cost)
    if _has_integral_sums(solver) and results[0][0] <= goal:
        return results
    for price, total, tree in _narrow_price(solver, low, high, goal, deadline):
        results.append((total - price * count_leaves(tree), tree))
    return results


def _narrow_price(
    solver: BoxTreeSolver, low: float, high: float, goal: float, deadline: float
) -> Iterator[tuple[float, float, BoxTree]]:
    """Bisection for the price at which the cost meets a goal: (price, cost with leaves, tree)."""
    for _ in range(PRICE_MAX_PASSES):
        if time.perf_counter() > deadline:
            return
        price = math.sqrt(low * high)
        total, tree = solver.solve_for_price(price)
        yield price, total, tree
        meets_goal = total - price * count_leaves(tree) <= goal
        low, high = (price, high) if meets_goal else (low, price)


def _has_integral_sums(solver: BoxTreeSolver) -> bool:
    return _is_integral(solver.compute_action_costs(solver.shape))


def _bound_leaves_below(solver: BoxTreeSolver, cost_limit: float, deadline: float) -> int:
    """No tree of fewer leaves costs the limit or less: the best of the bounds by prices."""
    high = float(solver.compute_action_costs(solver.shape).min())
    if high <= cost_limit:
        return 1
    best = 1.0  # the bound rises and then falls with the price
    for price, total, _ in _narrow_price(solver, 1e-9 * high, high, cost_limit, deadline):
        best = max(best, (total * (1 - 1e-12) - cost_limit) / price)
    return max(1, math.ceil(best - 1e-6))


def compute_boundary_losses(costs: NDArray, axis: int) -> NDArray[np.float64]:
    """(n - 1,) what is lost if neighbouring slices along an axis exchange their best actions."""
    leading = np.moveaxis(costs, axis, 0)
    best = leading.argmin(axis=-1)[..., None]
    losses = np.take_along_axis(leading[1:], best[:-1], -1)
    losses += np.take_along_axis(leading[:-1], best[1:], -1)
    return losses.sum(axis=tuple(range(1, losses.ndim)))


def choose_positions(weights: NDArray, n_parts: int) -> NDArray[np.int64]:
    """Beginnings of that many parts: evenly by weight, after a floor that spreads them a little."""
    total = np.cumsum(weights / max(weights.sum(), 1e-300) + 0.1 / max(len(weights), 1))
    if n_parts > len(weights):
        return np.arange(len(weights) + 1)
    positions = np.searchsorted(total, np.arange(1, n_parts) / n_parts * total[-1])
    return np.unique(np.concatenate([[0], np.minimum(positions, len(weights) - 1) + 1]))


def sum_blocks(costs: NDArray, positions: list[NDArray]) -> NDArray[np.float64]:
    for axis, starts in enumerate(positions):
        if len(starts) < costs.shape[axis]:
            costs = np.add.reduceat(costs, starts, axis)
    return costs


@dataclass(frozen=True, eq=False)
class CutFeature:
    """What a cut may compare."""

    definition: tuple  # the weights of a sum; or the name of a text axis alone
    values: Any  # the sums by rank; or labels
    ranks: NDArray[np.int64]  # (S,) of the states


def _make_candidates(
    results: list[tuple[float, BoxTree]],
    features: list[CutFeature],
    positions: list[NDArray] | None = None,
) -> list[Candidate]:
    """Trees with their costs as candidates."""
    roots = [build_node(tree, features, positions) for _, tree in results]
    sizes = [compute_tree_size(_count_rule_leaves(root)) for root in roots]
    costs = [cost for cost, _ in results]
    return list(map(Candidate, roots, sizes, costs))


def list_axis_features(costs: Costs) -> list[CutFeature]:
    """The axes themselves."""
    grid = costs.grid
    return [
        CutFeature((name,), tuple(grid.values[k].tolist()), costs.ranks[:, k])
        if is_text_axis(grid, k)
        else CutFeature(((name, 1.0),), costs.sorted_values[k], costs.ranks[:, k])
        for k, name in enumerate(grid.axes)
    ]


def build_node(
    tree: BoxTree, features: list[CutFeature], positions: list[NDArray] | None = None
) -> Node:
    """A tree over ranks as a rule tree over the values of features.

    Cuts of one feature that follow one another become one split with several cuts, without those
    between equal branches. ``positions`` are the ranks at which parts begin, if cuts count parts.
    """

    def build(tree: BoxTree, children: list[Node]) -> Node:
        if isinstance(tree, BoxLeaf):
            return Leaf(tree.action)
        definition = features[tree.axis].definition
        values = features[tree.axis].values
        rank = tree.position if positions is None else int(positions[tree.axis][tree.position])
        if isinstance(values, tuple):
            return LabelSplit(definition[0], values[:rank], *children)
        cut = choose_short_number(float(values[rank - 1]), float(values[rank]))
        (low, first), (high, last) = (_get_cuts(node, definition) for node in children)
        return build_split_or_leaf(definition, (*low, cut, *high), (*first, *last))

    return fold_boxes(tree, build)


def _get_cuts(node: Node, weights: tuple) -> tuple[tuple[float, ...], tuple[Node, ...]]:
    """The cuts and branches of a split of one sum; of another node, none and itself."""
    if isinstance(node, Split) and node.weights == weights:
        return node.cuts, node.branches
    return (), (node,)


@dataclass(frozen=True)
class LinearTree(RuleClass):
    """Trees with cuts along single axes and along sums of two.

    Attributes:
        max_weight: the largest p and q of a sum.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.LinearTree()])
        >>> print(rule.explain().splitlines()[0])
        admit=1 where 3 x queue + 2 x regime is at most 101
    """

    max_weight: int = 3
    name: ClassVar[str] = "linear tree"
    fits_listed_states: ClassVar[bool] = True

    def why_not_applicable(self, costs: Costs) -> str:
        if len(costs.numeric_axes) < 2:
            return "slanting cuts need two axes of numbers"
        if costs.why_not_summable:
            return costs.why_not_summable
        n_axis_pairs = math.comb(len(costs.numeric_axes), 2)
        sums = len(self._list_weight_pairs()) * n_axis_pairs + costs.grid.ndim
        if sums * costs.grid.size > MAX_STATE_SUMS:
            return f"{sums} sums of {costs.grid.size:,} states are too many to look at"
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        return "trees with slanting cuts are grown greedily"

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        leaves = compute_max_leaves(max_size)
        if leaves < 2:
            return []
        features = [*list_axis_features(costs), *self._list_sum_features(costs)]
        ranks = np.stack([feature.ranks for feature in features], axis=-1)
        max_leaves = min(2 * leaves, SLANTED_MAX_LEAVES)
        trees = grow_cart_trees(ranks.astype(np.float32), costs.by_state, max_leaves)
        results = prune_trees(trees, leaves, ranks, costs.by_state)
        return find_pareto_front(_make_candidates(results, features))

    def _list_weight_pairs(self) -> list[tuple[int, int]]:
        """(p, q) without a common factor, q of either sign."""
        numbers = range(1, self.max_weight + 1)
        positive = [(p, q) for p in numbers for q in numbers if math.gcd(p, q) == 1]
        return [(p, sign * q) for p, q in positive for sign in (1, -1)]

    def _list_sum_features(self, costs: Costs) -> list[CutFeature]:
        grid = costs.grid
        spacings = [np.ptp(values) / max(len(values) - 1, 1) for values in costs.sorted_values]
        features = []
        for a, b in combinations(costs.numeric_axes, 2):
            for p, q in self._list_weight_pairs():
                weights = (float(p), float(np.round(q * spacings[a] / spacings[b], 9)))
                sums = grid.points[:, [a, b]] @ np.array(weights)
                # Values that differ by rounding alone are one.
                resolution = 1e-9 * max(float(np.abs(sums).max()), 1e-300)
                rounded = np.round(sums / resolution) * resolution
                values, ranks = np.unique(rounded, return_inverse=True)
                named_weights = tuple(zip((grid.axes[a], grid.axes[b]), weights, strict=True))
                features.append(CutFeature(named_weights, values, ranks.ravel()))
        return features
