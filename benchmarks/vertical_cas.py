"""Aircraft collision avoidance at its published size: 41 times, 1.78 million states each.

    python benchmarks/vertical_cas.py [--every 1] [--seconds 40] [--picture vertical-cas.svg]

Builds the model, solves it one second at a time, and prints how long a second took, how much memory
all of it, and in how many states the symmetry (h to -h, up and down exchanged) holds. The picture
shows the advisories by time and altitude, both aircraft level and clear of conflict before.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import tessella as ts
from tessella.problems.vertical_cas import ADVISORIES, MIRRORED_ADVISORY, vertical_cas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="of the published cut points")
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--picture", help="where to write the map")
    options = parser.parse_args()
    start = time.perf_counter()
    mdp = vertical_cas.build(every=options.every, seconds=options.seconds)
    build_end = time.perf_counter()
    solution = ts.solve(mdp)
    solve_end = time.perf_counter()
    periods = mdp.grid.shape[0]
    print(solution)
    print(f"built in {build_end - start:.1f} s, solved in {solve_end - build_end:.1f} s", end=", ")
    print(f"{(solve_end - build_end) / periods:.2f} s for each of {periods} periods")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB at most")
    largest, n_different, decided = check_symmetry(solution)
    print(f"values off their mirror images by at most {largest:.2g}")
    print(f"{decided:,} of {mdp.n_states:,} states decided, {n_different:,} of them not mirrored")
    if options.picture:
        draw(solution, options.picture)


def check_symmetry(solution: ts.Solution) -> tuple[float, int, int]:
    """(largest difference of values, decided states whose mirror image is another, decided)."""
    mirrored, largest, n_different = np.array(MIRRORED_ADVISORY), 0.0, 0
    for value, policy, decided in zip(
        solution.value, solution.policy.table, solution.decided, strict=True
    ):
        image = value[::-1, ::-1, ::-1][..., MIRRORED_ADVISORY, :]
        largest = max(largest, float(np.abs(value - image).max()))
        mirror_policy = mirrored[policy[::-1, ::-1, ::-1][..., MIRRORED_ADVISORY, :]]
        n_different += int(((policy != mirror_policy) & decided).sum())
    return largest, n_different, int(solution.decided.sum())


def draw(solution: ts.Solution, path: str) -> None:
    """The map that papers show: time against altitude, both level, clear of conflict before."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import BoundaryNorm, ListedColormap

    grid, level = solution.mdp.grid, solution.mdp.grid.shape[2] // 2
    table = solution.policy.table[:, :, level, level, 0, 0]
    seconds = len(table) - 1 - np.arange(len(table))
    h = grid.values[1]
    is_shown = np.abs(h) <= 1250
    colours = ["#eeeeee", "#fdd0a2", "#c6dbef", "#fd8d3c", "#6baed6", "#e6550d", "#3182bd"]
    colours += ["#a63603", "#08519c"]
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    norm = BoundaryNorm(np.arange(-0.5, 9.5), 9)
    axes.pcolormesh(
        seconds,
        h[is_shown],
        table.T[is_shown],
        cmap=ListedColormap(colours),
        norm=norm,
        shading="nearest",
    )
    axes.set(
        xlabel="seconds to the loss of horizontal separation",
        ylabel="intruder above own aircraft, ft",
        title="Advisory, both aircraft level, clear of conflict before",
    )
    for a in np.unique(table[:, is_shown]):
        axes.plot([], [], "s", color=colours[a], markeredgecolor="#888888", label=ADVISORIES[a])
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
