"""Small models whose rules can all be tried, judged by dense arrays and nothing of the package.

value of a table     (I - discount P_pi)^-1 r_pi;   an average: the long-run shares times r_pi
smallest tree        cut everywhere, the parts by themselves
fewest runs          along either order of the axes
smallest surface     the corners of a table that rises or falls along every axis
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import tessella as ts

SHAPE, ACTIONS = (3, 2), 2
STATES = SHAPE[0] * SHAPE[1]
AXES = {"stock": range(SHAPE[0]), "mode": range(SHAPE[1])}


@dataclass(frozen=True)
class Small:
    """A model of six states with its (A, S, S) rows and (S, A) rewards."""

    mdp: ts.MDP
    rows: np.ndarray
    reward: np.ndarray

    def values(self) -> dict[tuple[int, ...], np.ndarray]:
        """Table to its (S,) value, or gain, of all tables that have one."""
        everyone, found = np.arange(STATES), {}
        for table in itertools.product(range(ACTIONS), repeat=STATES):
            rows, reward = self.rows[list(table), everyone], self.reward[everyone, list(table)]
            if isinstance(self.mdp.criterion, ts.Average):
                system = np.vstack([rows.T - np.eye(STATES), np.ones(STATES)])
                shares = np.linalg.lstsq(system, np.eye(STATES + 1)[-1], rcond=None)[0]
                found[table] = np.full(STATES, shares @ reward)
            else:
                system = np.eye(STATES) - self.mdp.discount * rows
                found[table] = np.linalg.solve(system, reward)
        return found

    def losses(self, start: np.ndarray, worst: bool) -> tuple[dict[tuple, float], float]:
        """Table to loss, of all tables; and the optimal value from the start."""
        values = self.values()
        best = np.max(list(values.values()), axis=0)
        lost = {table: best - value for table, value in values.items()}
        told = {t: float(x.max() if worst else start @ x) for t, x in lost.items()}
        return told, float(start @ best)


def drawn(seed: int, average: bool = False) -> Small:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(STATES, 0.5), size=(ACTIONS, STATES))
    reward = np.round(rng.normal(1.0, 1.0, size=(STATES, ACTIONS)), 1)
    criterion = ts.Average() if average else 0.9
    return Small(ts.MDP.from_arrays(rows, reward, criterion, grid=AXES), rows, reward)


def tree_leaves(table: np.ndarray) -> int:
    """Leaves of the smallest tree that is a table."""
    if len(np.unique(table)) == 1:
        return 1
    axes = range(table.ndim)
    parts = [np.split(table, [at], axis) for axis in axes for at in range(1, table.shape[axis])]
    return min(tree_leaves(a) + tree_leaves(b) for a, b in parts)


def table_runs(table: np.ndarray) -> int:
    return min(1 + int((np.diff(t.ravel()) != 0).sum()) for t in (table, table.T))


def surface_size(table: np.ndarray) -> float:
    """Numbers of a monotone table told by its corners, from below or from above; inf of others."""
    signs = itertools.product((1, -1), repeat=table.ndim)
    turned = [table[tuple(slice(None, None, sign) for sign in way)] for way in signs]
    rising = [t for one in turned for t in (one, -one) if _rises(t)]
    return min(map(_corner_numbers, rising), default=np.inf)


def _rises(table: np.ndarray) -> bool:
    return all((np.diff(table, axis=k) >= 0).all() for k in range(table.ndim))


def _corner_numbers(table: np.ndarray) -> int:
    """1, one for each level, and a coordinate along each axis looked at of every corner."""
    corners = []
    for at in np.ndindex(table.shape):
        before = table[tuple(slice(0, k + 1) for k in at)].ravel()[:-1]
        if (before < table[at]).all() and any(at):
            corners.append(at)
    levels = {table[at] for at in corners}
    axes = sum(any(at[k] for at in corners) for k in range(table.ndim))
    return 1 + len(levels) + axes * len(corners)


SMALLEST: dict[str, tuple[ts.RuleClass, Callable[[np.ndarray], float]]] = {
    "axis tree": (ts.AxisTree(), lambda table: 3 * tree_leaves(table) - 2),
    "run-length table": (ts.RunLength(), lambda table: 2 * table_runs(table)),
    "monotone surface": (ts.MonotoneSurface(), surface_size),
}


KINDS = (None, [ts.SmallNetwork(), ts.RunLength()], [ts.RunLength(), ts.MonotoneSurface()])


def faults(seed: int) -> list[str]:
    """What is wrong with the rules of one model: promises broken, sizes that cannot be."""
    rng = np.random.default_rng(seed)
    small = drawn(seed, average=bool(seed % 3 == 0))
    start = np.full(STATES, 1 / STATES) if rng.random() < 0.5 else np.eye(STATES)[seed % STATES]
    worst, loss = bool(rng.random() < 0.5), float(rng.choice([0.0, 0.003, 0.02, 0.1]))
    losses, best = small.losses(start, worst)
    most = loss * abs(best) + 1e-9
    solution = ts.solve(small.mdp)
    kinds = KINDS[int(rng.integers(len(KINDS)))]
    rule = ts.compress(solution, loss, start=start, worst=worst, classes=kinds)
    lost = losses[tuple(rule.table.ravel().tolist())]
    found = [] if lost <= most else [f"promised {most:.6g}, lost {lost:.6g}"]
    said = rule.facts["worst_loss" if worst else "mean_loss"]
    if said < lost - 1e-9:
        found.append(f"proven to lose at most {said!r}, lost {lost!r}")
    tables = [np.reshape(t, SHAPE) for t, x in losses.items() if x <= most]
    for kind, (_, size) in SMALLEST.items():
        true = min(size(table) for table in tables)
        for outcome in (o for o in rule.outcomes if o.kind == kind):
            if outcome.size_needed > true:
                found.append(f"{kind}: {outcome.size_needed} needed, but {true} do")
            if outcome.size is not None and outcome.size < true:
                found.append(f"{kind}: {outcome.size} found, but {true} are needed")
            if "no rule of this class" in outcome.explanation and np.isfinite(true):
                found.append(f"{kind}: called impossible, but {true} numbers do")
    return found
