"""Small models on listed states, compared with one axis of states and with all trees."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import tessella as ts
from tessella.grid import StateGrid


def draw_model(seed: int) -> ts.MDP:
    """2 to 9 states of 2 to 4 variables, 3 actions."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    points = np.unique(rng.integers(-2, 3, size=(int(rng.integers(2, 10)), d)), axis=0)
    points = rng.permutation(points)
    columns = {f"v{k}": points[:, k] for k in range(d)}
    n = len(points)
    rows = rng.dirichlet(np.full(n, 0.5), size=(3, n))
    reward = rng.random((n, 3))
    return ts.MDP.from_arrays(rows, reward, 0.9, grid=StateGrid.from_states(columns))


def count_fewest_leaves(points: np.ndarray, labels: np.ndarray) -> int:
    """Leaves of the smallest tree of axis-aligned cuts, by trying all."""
    if len(set(labels.tolist())) == 1:
        return 1
    sides = [
        (points[:, k] < cut) for k in range(points.shape[1]) for cut in np.unique(points[:, k])[1:]
    ]
    return min(
        count_fewest_leaves(points[s], labels[s]) + count_fewest_leaves(points[~s], labels[~s])
        for s in sides
    )


def find_faults(seed: int) -> list[str]:
    """What is wrong with one model: its values, its smallest tree, or its UMB file."""
    mdp = draw_model(seed)
    solution = ts.solve(mdp)
    tables = mdp.to_arrays()
    messages = []
    plain = ts.solve(ts.MDP.from_arrays(tables.transition, tables.reward, 0.9))
    if not np.array_equal(plain.value, solution.value):
        messages.append("values differ from those on one axis")
    rule = ts.compress(solution, loss=0.0, classes=[ts.AxisTree()])
    optimal_actions = solution.q.argmax(axis=-1)
    fewest = 3 * count_fewest_leaves(mdp.grid.points, optimal_actions) - 2
    if not np.array_equal(rule.table, optimal_actions):
        messages.append("the tree is not the optimal policy")
    if not rule.size == rule.size_needed == fewest:
        messages.append(f"a tree has {fewest} numbers, not {rule.size} or {rule.size_needed}")
    with tempfile.TemporaryDirectory() as folder:
        mdp.to_umb(Path(folder, "model.umb"))
        copy = ts.MDP.from_umb(Path(folder, "model.umb"), 0.9)
    varying = [k for k, length in enumerate(mdp.grid.lengths) if length > 1]
    states = [0] if len(mdp.grid.points) == 1 else copy.grid.nearest(mdp.grid.points[:, varying])
    if not np.allclose(ts.solve(copy).value.ravel()[states], solution.value, rtol=0, atol=1e-9):
        messages.append("values differ after UMB")
    return messages
