"""The published yardstick for small trees: inner nodes at four losses, and what is proven.

    python benchmarks/yardstick.py [model ...]

Losses are relative to optimal minus uniformly random, from one start, discount 0.99. Published: the
best of OMDT, dtPAYNT and dtControl in the artifact ``randriu/dt-synthesis-cav-25``, with 1,200 s
for each depth. The last columns are inner nodes that are proven necessary, and processor seconds
for the whole frontier.
"""

from __future__ import annotations

import sys
import time

import tessella as ts

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


def inner_nodes(size: int) -> int:
    """Inner nodes of a tree that stores so many numbers: two each, and one for each leaf."""
    return (size - 1) // 3


def proven(solution: ts.Solution, loss: float) -> int:
    """Inner nodes that every tree within a loss needs."""
    from tessella.rules.compress import size_needed

    numbers = size_needed(solution, loss, ts.AxisTree(), relative_to="random")
    return inner_nodes(numbers)


def main() -> None:
    print("| model | states | 10 % | 5 % | 1 % | 0.1 % | published | proven necessary | cpu s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: |")
    for name in sys.argv[1:] or MODELS:
        problem, settings, published, leaves = MODELS[name]
        solution = ts.solve(ts.problem(problem).build(**settings))
        begun = time.process_time()
        found = ts.frontier(solution, 3 * leaves - 2, classes=[ts.AxisTree()], relative_to="random")
        seconds = time.process_time() - begun
        points = [found.within(loss * (1 + 1e-9)) for loss in LOSSES]
        nodes = [str(inner_nodes(p.size)) if p else "none" for p in points]
        needed = [str(proven(solution, loss)) for loss in LOSSES]
        row = [name, f"{solution.mdp.n_states}", *nodes, ", ".join(map(str, published))]
        print(f"| {' | '.join(row)} | {', '.join(needed)} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
