"""Every export of every benchmark says what the policy says, in how many states.

    python benchmarks/exports.py [problem ...]

For the paper's benchmarks, unless some are named: the smallest exact axis tree and the table of the
optimal policy, each exported in every format, which runs it over the whole grid and refuses a file
that differs anywhere. A format whose means to run it are not installed says "not run".
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import tessella as ts
from tessella.rules.export.export import TARGETS


def smallest_tree(policy: ts.Policy) -> ts.Rule:
    """The axis tree of fewest leaves that takes the same actions everywhere."""
    wrong = 1.0 - np.eye(len(policy.actions))[policy.table.ravel()]
    costs = ts.Costs(policy.grid, policy.actions, wrong)
    fitted = min((f for f in ts.AxisTree().fit(costs, 400, 0.5) if f.cost < 0.5), key=_size)
    return ts.Rule(policy.grid, policy.actions, fitted.build_tree(policy.grid), "tree")


def _size(fitted: ts.Candidate) -> int:
    return fitted.size


def agreeing(made: ts.Policy, folder: Path, suffix: str) -> str:
    """How many states a file agrees in; it is an error if it differs in one."""
    written = ts.export(made, folder / f"rule{suffix}")
    return "not run" if written.remark else f"{written.states}"


def main() -> None:
    print(f"| problem | what | {' | '.join(target.suffix for target in TARGETS)} |")
    print("| --- | --- |" + " ---: |" * len(TARGETS), flush=True)
    for name in sys.argv[1:] or ts.BENCHMARKS:
        policy = ts.solve(ts.benchmark(name)).policy
        for what, made in (("tree", smallest_tree(policy)), ("table", policy)):
            with TemporaryDirectory() as folder:
                cells = [agreeing(made, Path(folder), target.suffix) for target in TARGETS]
            print(f"| {name} | {what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
