"""The published yardstick for small trees: inner nodes at four losses, and what is proven.

    python benchmarks/yardstick.py [--drn FOLDER] [--seconds SECONDS] [model ...]

Losses are relative to optimal minus uniformly random, from one start, discount 0.99. Published: the
best of OMDT, dtPAYNT and dtControl in the artifact ``randriu/dt-synthesis-cav-25``, with 1,200 s
for each depth. First the whole frontier, then for each loss the least size by branch and bound, for
SECONDS (12) of the processor each; it may find a smaller tree. The table, which is
docs/generated/yardstick.md, has sizes "= n" that are proven least, and "n, at least m" otherwise;
seconds are the processor's. "above" counts losses at which a rival or a prototype is smaller.

FOLDER has models of the artifact, and those that ``with_storm.py examples`` writes, as DRN or UMB;
those that are there are measured as well. Storm's own examples have no published trees. There, as
in the artifact, an action that a state does not have means a random one of those that it has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from tables import Table

import tessella as ts

FRONTIER_SECONDS = 100.0
LOSSES = (0.1, 0.05, 0.01, 0.001)
MODELS = {
    "3d_navigation": ("navigation", {}, (6, 6, 6, 6), 12),
    "frozenlake_4x4": ("frozen_lake", {"map": "4x4"}, (5, 5, 7, 7), 12),
    "frozenlake_8x8": ("frozen_lake", {"map": "8x8"}, (3, 8, 28, 28), 30),
    "frozenlake_12x12": ("frozen_lake", {"map": "12x12"}, (67, 67, 67, 67), 60),
    "system_administrator_1": ("system_administrator", {"network": "1"}, (7, 76, 76, 76), 27),
    "system_administrator_2": ("system_administrator", {"network": "2"}, (41, 41, 41, 41), 20),
    "system_administrator_tree": (
        "system_administrator",
        {"network": "tree"},
        (12, 12, 12, 12),
        14,
    ),
    "traffic_intersection": ("traffic_intersection", {}, (3, 3, 6, 9), 14),
}

# The file of a model, how it is read, and what was published; none where no tree met the loss.
ARTIFACT = {"without_actions": ("__random__",)}
FILES = {
    "omdt_blackjack": ("omdt_blackjack.drn.gz", ARTIFACT, (1, 1, 3, 7), 12),
    "maze_steps": ("maze_steps.drn.gz", ARTIFACT | {"goal": "goal"}, (7, 7, 29, 48), 50),
    "firewire-3": ("firewire-3.drn.gz", ARTIFACT | {"goal": "goal"}, (1, 3, 14, None), 20),
    "storm_coin2": ("coin2-2.umb", {"goal": "finished", "minimise": True}, None, 30),
    "storm_csma2": ("csma2-2.umb", {"goal": "all_delivered", "minimise": True}, None, 30),
}

PROTOTYPE = {
    "3d_navigation": (6, 6, 6, 6),
    "frozenlake_4x4": (6, 6, 6, 6),
    "frozenlake_8x8": (2, 8, 15, 20),
    "frozenlake_12x12": (27, 31, 43, 51),
    "system_administrator_1": (6, 10, 15, 24),
    "system_administrator_2": (7, 7, 8, 11),
    "system_administrator_tree": (7, 7, 7, 7),
    "traffic_intersection": (2, 2, 5, 6),
    "omdt_blackjack": (1, 1, 3, 6),
    "maze_steps": (6, 8, 15, 22),
}
COLUMNS = ("model", "states", "10 %", "5 %", "1 %", "0.1 %", "published", "prototype")
INTRODUCTION = """# Axis trees and published trees compared

Written by `benchmarks/yardstick.py`. [Small rules](../rules.md) explains what is measured.
"""
TABLE = Table("yardstick", (*COLUMNS, "above", "frontier, s", "proofs, s"), head=INTRODUCTION)


def count_inner_nodes(size: int) -> int:
    """Inner nodes of a tree of this size: two numbers each, and one for each leaf."""
    return max(size - 1, 0) // 3


def format_cell(size: int | None, needed: int) -> str:
    if size is None:
        return "none"
    return f"= {size}" if needed >= size else f"{size}, at least {needed}"


def load(name: str, folder: Path | None) -> tuple[ts.MDP, tuple | None, int]:
    """A model, the published inner nodes, and the most leaves to look for."""
    if name in MODELS:
        problem, settings, published, leaves = MODELS[name]
        return ts.problem(problem).build(**settings), published, leaves
    file, options, published, leaves = FILES[name]
    mdp = ts.MDP.from_drn(folder / file, 0.99, **options)
    return mdp if mdp.feasible is None else fill_infeasible_actions(mdp), published, leaves


def fill_infeasible_actions(mdp: ts.MDP) -> ts.MDP:
    """The model in which an action that a state does not have is a random one of its own."""
    tables = mdp.to_sparse()
    share = tables.feasible / tables.feasible.sum(axis=1, keepdims=True)
    random = sum(
        sp.diags_array(s) @ rows for s, rows in zip(share.T, tables.transition, strict=True)
    )
    rewards = np.where(tables.feasible, tables.reward, 0.0)
    mean = (share * rewards).sum(axis=1)
    rows = [
        sp.diags_array(is_feasible.astype(float)) @ rows
        + sp.diags_array((~is_feasible).astype(float)) @ random
        for is_feasible, rows in zip(tables.feasible.T, tables.transition, strict=True)
    ]
    reward = np.where(tables.feasible, rewards, mean[:, None])
    filled = ts.MDP.from_arrays(
        rows,
        mdp.sense.display(reward),
        mdp.discount,
        grid=mdp.grid,
        actions=mdp.actions,
        minimise=mdp.minimise,
    )
    return filled.with_start(mdp.start)


def prove_size(
    solution: ts.Solution, frontier: ts.Frontier, loss: float, max_size: int, seconds: float
) -> tuple[int | None, str]:
    """(inner nodes of the smallest tree found, the cell of the table) for one loss."""
    point = frontier.within(loss * (1 - 1e-9))
    limit = max(point.size - 1, 1) if point else max_size
    proof = ts.least_size(
        solution, loss, ts.AxisTree(), relative_to="random", max_size=limit, time_limit=seconds
    )
    sizes = [size for size in (point and point.size, proof.size) if size]
    nodes = count_inner_nodes(min(sizes)) if sizes else None
    return nodes, format_cell(nodes, count_inner_nodes(proof.size_needed))


def format_rival(sizes: Sequence[int | None] | None) -> str:
    """Inner nodes of published trees or of the prototype, loss by loss."""
    return ", ".join("none" if n is None else str(n) for n in sizes or "-")


def measure_row(name: str, folder: Path | None, seconds_each: float) -> list[str]:
    mdp, published, leaves = load(name, folder)
    solution, max_size = ts.solve(mdp), 3 * leaves - 2
    start = time.process_time()
    frontier = ts.frontier(
        solution,
        max_size,
        classes=[ts.AxisTree()],
        relative_to="random",
        time_limit=FRONTIER_SECONDS,
    )
    frontier_seconds, cells, n_above = time.process_time() - start, [], 0
    rivals = [published, PROTOTYPE.get(name)]
    for i, loss in enumerate(LOSSES):
        nodes, cell = prove_size(solution, frontier, loss, max_size, seconds_each)
        cells.append(cell)
        known = [sizes[i] for sizes in rivals if sizes and sizes[i] is not None]
        n_above += bool(known) and (nodes is None or nodes > min(known))
    proof_seconds = time.process_time() - start - frontier_seconds
    cells += map(format_rival, rivals)
    cells += [f"{n_above}", f"{frontier_seconds:.1f}", f"{proof_seconds:.1f}"]
    return [name, f"{solution.mdp.n_states}", *cells]


def main() -> None:
    time.perf_counter = time.process_time  # so that limits are the same on a busy machine
    parser = argparse.ArgumentParser()
    parser.add_argument("--drn", type=Path)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    files = [
        name for name, (file, *_) in FILES.items() if options.drn and (options.drn / file).exists()
    ]
    for name in options.models or [*MODELS, *files]:
        TABLE.put(measure_row(name, options.drn, options.seconds))


if __name__ == "__main__":
    main()
