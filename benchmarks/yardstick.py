"""The published yardstick for small trees: inner nodes at four losses, and what is proven.

    python benchmarks/yardstick.py [model ...]

Losses are relative to optimal minus uniformly random, from one start, discount 0.99. Published: the
best of OMDT, dtPAYNT and dtControl in the artifact ``randriu/dt-synthesis-cav-25``, with 1,200 s
for each depth. First the whole frontier, then for each loss the least size by branch and bound, for
``SECONDS`` of the processor each; it may find a smaller tree. The table, which is
docs/generated/yardstick.md, has sizes "= n" that are proven least, and "n, at least m" otherwise;
seconds are the processor's. "above" counts losses at which a rival or a prototype is smaller.
"""

from __future__ import annotations

import sys
import time

from tables import Table

import tessella as ts

SECONDS = 12.0
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

PROTOTYPE = {
    "3d_navigation": (6, 6, 6, 6),
    "frozenlake_4x4": (6, 6, 6, 6),
    "frozenlake_8x8": (2, 8, 15, 20),
    "frozenlake_12x12": (27, 31, 43, 51),
    "system_administrator_1": (6, 10, 15, 24),
    "system_administrator_2": (7, 7, 8, 11),
    "system_administrator_tree": (7, 7, 7, 7),
    "traffic_intersection": (2, 2, 5, 6),
}
COLUMNS = ("model", "states", "10 %", "5 %", "1 %", "0.1 %", "published", "prototype")
HEAD = """# Trees beside the published

Written by `benchmarks/yardstick.py`. [Small rules](../rules.md) says what is measured.
"""
TABLE = Table("yardstick", (*COLUMNS, "above", "frontier, s", "proofs, s"), head=HEAD)


def inner_nodes(size: int) -> int:
    """Inner nodes of a tree that stores so many numbers: two each, and one for each leaf."""
    return (size - 1) // 3


def cell(found: int | None, needed: int) -> str:
    if found is None:
        return "none"
    return f"= {found}" if needed >= found else f"{found}, at least {needed}"


def line(name: str) -> list[str]:
    problem, settings, published, leaves = MODELS[name]
    solution, most = ts.solve(ts.problem(problem).build(**settings)), 3 * leaves - 2
    begun = time.process_time()
    tree = ts.AxisTree()
    found = ts.frontier(solution, most, classes=[tree], relative_to="random")
    seconds, cells, above = time.process_time() - begun, [], 0
    for i, loss in enumerate(LOSSES):
        point = found.within(loss * (1 - 1e-9))
        limits = {"most": max(point.size - 1, 1) if point else most, "time_limit": SECONDS}
        proof = ts.least_size(solution, loss, tree, relative_to="random", **limits)
        sizes = [size for size in (point and point.size, proof.size) if size]
        nodes = inner_nodes(min(sizes)) if sizes else None
        cells.append(cell(nodes, inner_nodes(proof.size_needed)))
        above += nodes is None or nodes > min(published[i], PROTOTYPE[name][i])
    proofs = time.process_time() - begun - seconds
    rivals = [", ".join(map(str, sizes)) for sizes in (published, PROTOTYPE[name])]
    told = [f"{above}", f"{seconds:.1f}", f"{proofs:.1f}"]
    return [name, f"{solution.mdp.n_states}", *cells, *rivals, *told]


def main() -> None:
    time.perf_counter = time.process_time  # so that limits are the same on a busy machine
    for name in sys.argv[1:] or MODELS:
        TABLE.put(line(name))


if __name__ == "__main__":
    main()
