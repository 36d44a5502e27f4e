"""Small models whose rules can all be tried, evaluated by dense arrays without the package.

value of a table     (I - discount P_pi)^-1 r_pi;   an average: the long-run shares times r_pi
smallest tree        cut everywhere, the parts by themselves
fewest runs          along either order of the axes
smallest surface     the corners of a table that rises or falls along every axis
smallest index       the cuts of two ordered actions along all directions of a plane
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import tessella as ts

SHAPE, N_ACTIONS = (3, 2), 2
N_STATES = SHAPE[0] * SHAPE[1]
AXES = {"stock": range(SHAPE[0]), "mode": range(SHAPE[1])}


@dataclass(frozen=True)
class SmallModel:
    """A model of six states with its (A, S, S) rows and (S, A) rewards."""

    mdp: ts.MDP
    rows: np.ndarray
    reward: np.ndarray

    def values(self) -> dict[tuple[int, ...], np.ndarray]:
        """Table to its (S,) value, or gain, of all tables that have one."""
        states, values = np.arange(N_STATES), {}
        for table in itertools.product(range(N_ACTIONS), repeat=N_STATES):
            rows, reward = self.rows[list(table), states], self.reward[states, list(table)]
            if isinstance(self.mdp.criterion, ts.Average):
                system = np.vstack([rows.T - np.eye(N_STATES), np.ones(N_STATES)])
                shares = np.linalg.lstsq(system, np.eye(N_STATES + 1)[-1], rcond=None)[0]
                values[table] = np.full(N_STATES, shares @ reward)
            else:
                system = np.eye(N_STATES) - self.mdp.discount * rows
                values[table] = np.linalg.solve(system, reward)
        return values

    def losses(self, start: np.ndarray, worst: bool) -> tuple[dict[tuple, float], float]:
        """Table to loss, of all tables; and the optimal value from the start."""
        values = self.values()
        best = np.max(list(values.values()), axis=0)
        losses = {table: best - value for table, value in values.items()}
        summary = {t: float(x.max() if worst else start @ x) for t, x in losses.items()}
        return summary, float(start @ best)


def draw_model(seed: int, average: bool = False) -> SmallModel:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(N_STATES, 0.5), size=(N_ACTIONS, N_STATES))
    reward = np.round(rng.normal(1.0, 1.0, size=(N_STATES, N_ACTIONS)), 1)
    criterion = ts.Average() if average else 0.9
    return SmallModel(ts.MDP.from_arrays(rows, reward, criterion, grid=AXES), rows, reward)


def count_tree_leaves(table: np.ndarray) -> int:
    """Leaves of the smallest tree that is a table."""
    if len(np.unique(table)) == 1:
        return 1
    axes = range(table.ndim)
    parts = [np.split(table, [at], axis) for axis in axes for at in range(1, table.shape[axis])]
    return min(count_tree_leaves(a) + count_tree_leaves(b) for a, b in parts)


def count_table_runs(table: np.ndarray) -> int:
    return min(1 + int((np.diff(t.ravel()) != 0).sum()) for t in (table, table.T))


def find_surface_size(table: np.ndarray) -> float:
    """Numbers of a monotone table told by its corners, from below or from above; inf of others."""
    signs = itertools.product((1, -1), repeat=table.ndim)
    orientations = [table[tuple(slice(None, None, sign) for sign in way)] for way in signs]
    rising_tables = [t for one in orientations for t in (one, -one) if _is_rising(t)]
    return min(map(_count_corner_numbers, rising_tables), default=np.inf)


def _is_rising(table: np.ndarray) -> bool:
    return all((np.diff(table, axis=k) >= 0).all() for k in range(table.ndim))


def _count_corner_numbers(table: np.ndarray) -> int:
    """1, one for each level, and a coordinate along each axis looked at of every corner."""
    corners = []
    for at in np.ndindex(table.shape):
        before = table[tuple(slice(0, k + 1) for k in at)].ravel()[:-1]
        if (before < table[at]).all() and any(at):
            corners.append(at)
    levels = {table[at] for at in corners}
    axes = sum(any(at[k] for at in corners) for k in range(table.ndim))
    return 1 + len(levels) + axes * len(corners)


SMALLEST_SIZES: dict[str, tuple[ts.RuleClass, Callable[[np.ndarray], float]]] = {
    "axis tree": (ts.AxisTree(), lambda table: 3 * count_tree_leaves(table) - 2),
    "run-length table": (ts.RunLength(), lambda table: 2 * count_table_runs(table)),
    "monotone surface": (ts.MonotoneSurface(), find_surface_size),
}


CLASS_CHOICES = (
    None,
    [ts.SmallNetwork(), ts.RunLength()],
    [ts.RunLength(), ts.MonotoneSurface()],
    [ts.OrderUpTo(), ts.RunLength()],
)


def find_faults(seed: int) -> list[str]:
    """What is wrong with the rules of one model: exceeded loss limits, impossible sizes."""
    rng = np.random.default_rng(seed)
    small = draw_model(seed, average=bool(seed % 3 == 0))
    uniform = np.full(N_STATES, 1 / N_STATES)
    start = uniform if rng.random() < 0.5 else np.eye(N_STATES)[seed % N_STATES]
    worst, loss = bool(rng.random() < 0.5), float(rng.choice([0.0, 0.003, 0.02, 0.1]))
    losses, best = small.losses(start, worst)
    limit = loss * abs(best) + 1e-9
    classes = CLASS_CHOICES[int(rng.integers(len(CLASS_CHOICES)))]
    rule = ts.compress(ts.solve(small.mdp), loss, start=start, worst=worst, classes=classes)
    tables = [np.reshape(t, SHAPE) for t, x in losses.items() if x <= limit]
    exact_loss = losses[tuple(rule.table.ravel().tolist())]
    stated_loss = rule.facts["worst_loss" if worst else "mean_loss"]
    messages = []
    if exact_loss > limit:
        messages.append(f"limit {limit:.6g}, lost {exact_loss:.6g}")
    if stated_loss < exact_loss - 1e-9:
        messages.append(f"proven to lose at most {stated_loss!r}, lost {exact_loss!r}")
    for outcome in rule.outcomes:
        if outcome.kind in SMALLEST_SIZES:
            messages += _check_outcome(outcome, tables)
    return messages


def _check_outcome(outcome, tables: list[np.ndarray]) -> list[str]:
    """Compare the sizes in an outcome with the least size of these tables in its class."""
    _, size = SMALLEST_SIZES[outcome.kind]
    least, messages = min(size(table) for table in tables), []
    if outcome.size_needed > least:
        messages.append(f"{outcome.size_needed} needed, but {least} suffice")
    if outcome.size is not None and outcome.size < least:
        messages.append(f"{outcome.size} found, but {least} are needed")
    if "no rule of this class" in outcome.explanation and np.isfinite(least):
        messages.append(f"called impossible, but {least} numbers suffice")
    return [f"{outcome.kind}: {message}" for message in messages]


@cache
def list_index_sizes(shape: tuple[int, int], spacing_ratio: float) -> dict[tuple, int]:
    """Table to the numbers of the smallest index with two ordered actions, on even axes."""
    i, j = np.indices(shape)
    angles = np.linspace(0, 2 * np.pi, 721)[:-1]  # finer than the directions of so few states
    directions = zip(np.cos(angles), np.sin(angles), strict=True)
    weights = [(p, q, 0 if min(abs(p), abs(q)) < 1e-9 else 1) for p, q in directions]
    # The axes, and their sum and difference, need no weight.
    weights += [(sign, way * spacing_ratio, 0) for sign in (1, -1) for way in (1, -1)]
    sizes: dict[tuple, int] = {}
    for p, q, n_weights in weights:
        index = np.round(p * i + q * j, 9).ravel()
        for cut in [index.min() - 1, *np.unique(index)]:
            table = tuple((index > cut).astype(int))
            sizes[table] = min(sizes.get(table, 9), 1 + n_weights)
    return sizes


def find_index_size(table: np.ndarray, spacing_ratio: float = 1.0) -> float:
    """The numbers of the smallest index; the second axis has so many times the first's spacing."""
    return list_index_sizes(table.shape, spacing_ratio).get(tuple(table.ravel()), np.inf)
