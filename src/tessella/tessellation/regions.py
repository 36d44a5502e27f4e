"""Shape of the regions: are they connected, orthogonally convex, separated by linear scores?

A region is *connected* when it is one cell, and *orthogonally convex* when every line parallel to
an axis meets it in one interval. Neither implies the other: a U is connected and not
orthogonally convex, two boxes that share no line are orthogonally convex and not connected.

Linear separability is exact, by linear programming:

    scores   there are w_a, b_a with  w_a.x + b_a >= w_b.x + b_b + 1  for all x of R_a, all b != a
    index    there are w and levels t_1 < t_2 < ... such that w.x orders the actions in use:
             t_k + 1 <= w.x <= t_{k+1} - 1  for all x of the k-th

The linear program minimises the slack t >= 0 that makes every inequality true. Zero unknowns need t
= 1, and a solution with t < 1, divided by 1 - t, has none: the optimum is 0 or 1 and nothing
between, so rounding cannot blur the answer. At 1 the dual prices name states whose hulls meet. A
state lying between two neighbours of its own region is no vertex of a hull and is left out
beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, hstack

from tessella.errors import NotConverged
from tessella.tessellation.evidence import NO_VIOLATIONS, Evidence, require_numeric_actions
from tessella.tessellation.tessellate import Tessellation, require_all_states


def connected(tessellation: Tessellation) -> Evidence:
    """Test whether each region is one cell.

    A violation pairs the first state of a region's largest cell with that of another of its cells.
    """
    require_all_states("connected", tessellation)
    actions = tessellation.cell_actions
    sizes = tessellation.cell_sizes
    ranked = np.lexsort((np.arange(len(actions)), -sizes, actions))
    others = np.flatnonzero(actions[ranked][1:] == actions[ranked][:-1]) + 1
    islands = np.sort(ranked[others])
    largest = np.full(len(tessellation.actions), -1)
    largest_cells = np.setdiff1d(np.arange(len(actions)), islands, assume_unique=True)
    largest[actions[largest_cells]] = largest_cells
    # Cells are numbered by their first states, where the largest number so far grows.
    largest_so_far = np.maximum.accumulate(tessellation.cells.ravel())
    first = np.flatnonzero(np.diff(largest_so_far, prepend=-1))
    pairs = np.stack([first[largest[actions[islands]]], first[islands]], axis=-1)
    wording = "{} and {} in separate cells"
    return Evidence(tessellation, pairs, "regions are connected", wording=wording)


def convex(tessellation: Tessellation) -> Evidence:
    """Test whether each line along an axis meets each region in one interval.

    A violation is the last state of one interval and the first state of the next one with the same
    action on the same line.
    """
    require_all_states("convex", tessellation)
    pairs = [_find_reentries(tessellation, axis) for axis in range(tessellation.grid.ndim)]
    wording = "{} and again at {}, not between"
    claim = "regions are orthogonally convex"
    return Evidence(tessellation, np.concatenate(pairs), claim, wording=wording)


def _find_reentries(tessellation: Tessellation, axis: int) -> NDArray[np.int64]:
    """(m, 2) states where a line along ``axis`` leaves an action and where it comes back to it."""
    lines = np.moveaxis(tessellation.table, axis, -1)
    starts = np.ones(lines.shape, dtype=bool)
    starts[..., 1:] = np.moveaxis(tessellation.faces[axis], axis, -1)
    begin = np.flatnonzero(starts)
    end = np.append(begin[1:], lines.size) - 1
    key = (begin // lines.shape[-1]) * len(tessellation.actions) + lines[starts]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    pairs = np.stack([end[order[again]], begin[order[again + 1]]], axis=-1)
    indices = np.unravel_index(pairs, lines.shape)
    return np.ravel_multi_index(
        (*indices[:axis], indices[-1], *indices[axis:-1]), tessellation.grid.shape
    )


@dataclass(frozen=True, eq=False)
class _Separability(Evidence):
    """A test by a linear program; the violation, (1, k), is a set of states that contradict."""

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        """States that contradict each other: one of each of two actions, and how many more."""
        t = self.tessellation
        _, first = np.unique(t.table.ravel()[states], return_index=True)
        text = " with ".join(f"{t.action_of(s)} at {t.grid.describe(s)}" for s in states[first[:2]])
        n_more = len(states) - len(first[:2])
        return f"no fit to {text}" + (f" and {n_more} more" if n_more else "")


@dataclass(frozen=True, eq=False)
class LinearScores(_Separability):
    """Whether the arg max of linear scores gives the policy in every state.

    The violation, (1, k), is a set of states that no scores can serve together.
    """

    # (A, d) w_a in the axes' own values; zero for actions out of use, and if none exist.
    weights: NDArray[np.float64] = field(repr=False)
    # (A,) b_a; minus infinity for actions out of use.
    offsets: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class LinearIndex(_Separability):
    """Whether one linear index with levels gives the policy in every state.

    The violation, (1, k), is a set of states that no index can serve together.
    """

    order: NDArray[np.int64]  # (m,) indices of the actions in use, in their natural order
    index: NDArray[np.float64]  # (d,) w in the axes' own values
    # (m - 1,) the k-th action is used where levels[k - 1] < w.x < levels[k].
    levels: NDArray[np.float64]

    @property
    def formula(self) -> str:
        """The index in words, its largest weight made one: ``1 regime - 0.42 stock``."""
        largest = np.abs(self.index).max(initial=0) or 1.0
        shown = [f"{abs(w) / largest:.3g}" for w in self.index]
        order = np.argsort([-float(w) for w in shown], kind="stable")
        axes = self.tessellation.grid.axes
        signs = np.where(self.index < 0, "-", "+")
        terms = [f"{signs[k]} {shown[k]} {axes[k]}" for k in order]
        return " ".join(terms).removeprefix("+ ")

    def _describe_finding(self) -> str:
        return f"; index {self.formula}"


def linear_scores(tessellation: Tessellation) -> LinearScores:
    """Test whether linear scores, one for each action, separate all regions."""
    require_all_states("linear_scores", tessellation)
    points, labels, states = _find_vertices(tessellation)
    used, label = np.unique(labels, return_inverse=True)
    d = points.shape[1]
    m = len(used)
    row_point, rival = np.nonzero(np.arange(m) != label[:, None])
    z = np.column_stack([points, np.ones(len(points))])[row_point]
    first_columns = np.column_stack([label[row_point], rival]) * (d + 1)
    columns = first_columns[..., None] + np.arange(d + 1)
    unknowns, dual_prices = _separate(
        np.column_stack([z, -z]), columns.reshape(len(z), 2 * (d + 1)), m * (d + 1)
    )
    weights = np.zeros((len(tessellation.actions), d))
    offsets = np.full(len(tessellation.actions), -np.inf)
    table = unknowns.reshape(m, d + 1)
    weights[used], offsets[used] = _to_axis_values(tessellation, table[:, :d], table[:, d])
    witnesses = _find_witnesses(states[row_point], dual_prices)
    claim = "regions are linearly separable"
    return LinearScores(tessellation, witnesses, claim, weights, offsets)


def linear_index(tessellation: Tessellation) -> LinearIndex:
    """Test whether the actions, in their natural order, are the steps of one linear index.

    Actions must be numbers; `linear_scores` asks nothing of them.
    """
    require_all_states("linear_index", tessellation)
    require_numeric_actions(tessellation, "a linear index")
    points, labels, states = _find_vertices(tessellation)
    used = np.unique(labels)
    used = used[np.argsort(tessellation.ranks[used])]
    d = points.shape[1]
    m = len(used)
    action_rank = np.empty(len(tessellation.actions), dtype=np.int64)
    action_rank[used] = np.arange(m)
    rank = action_rank[labels]
    has_level_below = np.flatnonzero(rank > 0)
    has_level_above = np.flatnonzero(rank < m - 1)
    row_point = np.concatenate([has_level_below, has_level_above])
    sign = np.repeat([1.0, -1.0], [len(has_level_below), len(has_level_above)])
    level = np.concatenate([rank[has_level_below] - 1, rank[has_level_above]])
    unknowns, dual_prices = _separate(
        np.column_stack([points[row_point] * sign[:, None], -sign]),
        np.column_stack([np.tile(np.arange(d), (len(row_point), 1)), d + level]),
        d + m - 1,
    )
    index, shift = _to_axis_values(tessellation, unknowns[None, :d], np.zeros(1))
    levels = unknowns[d:] - shift
    witnesses = _find_witnesses(states[row_point], dual_prices)
    claim = f"{tessellation.action_name} rises with one linear index"
    return LinearIndex(tessellation, witnesses, claim, used, index[0], levels)


def _separate(entries: NDArray, columns: NDArray, n_unknowns: int) -> tuple[NDArray, NDArray]:
    """Unknowns u with A u >= 1, and dual prices: above 0 for rows of A that contradict each other.

    Args:
        entries: (rows, k) entries of A.
        columns: (rows, k) their columns.
        n_unknowns: columns of A.
    """
    rows = len(entries)
    if rows == 0:
        return np.zeros(n_unknowns), np.zeros(0)
    indices = np.repeat(np.arange(rows), entries.shape[1]), columns.ravel()
    system = coo_array((entries.ravel(), indices), shape=(rows, n_unknowns))
    slack = csr_array(np.ones((rows, 1)))
    result = scipy.optimize.linprog(
        np.append(np.zeros(n_unknowns), 1.0),
        A_ub=-hstack([system, slack], format="csr"),
        b_ub=-np.ones(rows),
        bounds=[(None, None)] * n_unknowns + [(0, None)],
        method="highs",
    )
    if result.status != 0:
        raise NotConverged(f"the linear program stopped early: {result.message}", result)
    if result.fun > 0.5:
        return np.zeros(n_unknowns), -result.ineqlin.marginals
    if (system @ result.x[:-1]).min() <= 0:
        raise NotConverged("the linear program's answer does not separate its own points", result)
    return result.x[:-1], np.zeros(rows)


def _find_vertices(tessellation: Tessellation) -> tuple[NDArray, NDArray, NDArray]:
    """Points (scaled to -1..1), actions and flat indices of states that may be hull vertices."""
    grid = tessellation.grid
    ascending = np.ix_(*(np.argsort(v) for v in grid.numbers))
    table = tessellation.table[ascending]
    is_candidate = np.ones(grid.shape, dtype=bool)
    for axis in range(grid.ndim):
        lines = np.moveaxis(table, axis, -1)
        inside = np.moveaxis(is_candidate, axis, -1)
        middle = lines[..., 1:-1]
        inside[..., 1:-1] &= (middle != lines[..., :-2]) | (middle != lines[..., 2:])
    states = np.arange(grid.size).reshape(grid.shape)[ascending][is_candidate]
    center, half = _center_and_half_range(tessellation)
    return (grid.points_of(states) - center) / half, table[is_candidate], states


def _center_and_half_range(tessellation: Tessellation) -> tuple[NDArray, NDArray]:
    ends = np.array([(v.min(), v.max()) for v in tessellation.grid.numbers])
    half = (ends[:, 1] - ends[:, 0]) / 2
    return ends.mean(axis=1), np.where(half > 0, half, 1.0)


def _to_axis_values(
    tessellation: Tessellation, weights: NDArray, offsets: NDArray
) -> tuple[NDArray, NDArray]:
    center, half = _center_and_half_range(tessellation)
    return weights / half, offsets - (weights / half) @ center


def _find_witnesses(states: NDArray, dual_prices: NDArray) -> NDArray[np.int64]:
    if not (dual_prices > 1e-9).any():
        return NO_VIOLATIONS
    return np.unique(states[dual_prices > 1e-9])[None]
