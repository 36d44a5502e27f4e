"""In how many states every export of every benchmark agrees with the policy.

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
from tessella.rules.export.export import FORMATS


def find_smallest_tree(policy: ts.Policy) -> ts.Rule:
    """The axis tree of fewest leaves that takes the same actions everywhere."""
    wrong = 1.0 - np.eye(len(policy.actions))[policy.table.ravel()]
    costs = ts.Costs(policy.grid, policy.actions, wrong)
    fitted = min((f for f in ts.AxisTree().fit(costs, 400, 0.5) if f.cost < 0.5), key=_get_size)
    return ts.Rule(policy.grid, policy.actions, fitted.build_tree(policy.grid), "tree")


def _get_size(fitted: ts.Candidate) -> int:
    return fitted.size


def count_agreeing_states(policy: ts.Policy, folder: Path, suffix: str) -> str:
    """How many states a file agrees in; it is an error if it differs in one."""
    report = ts.export(policy, folder / f"rule{suffix}")
    return "not run" if report.remark else f"{report.states}"


def main() -> None:
    print(f"| problem | what | {' | '.join(file_format.suffix for file_format in FORMATS)} |")
    print("| --- | --- |" + " ---: |" * len(FORMATS), flush=True)
    for name in sys.argv[1:] or ts.BENCHMARKS:
        policy = ts.solve(ts.benchmark(name)).policy
        for kind, exported in (("tree", find_smallest_tree(policy)), ("table", policy)):
            with TemporaryDirectory() as folder:
                cells = [
                    count_agreeing_states(exported, Path(folder), file_format.suffix)
                    for file_format in FORMATS
                ]
            print(f"| {name} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
