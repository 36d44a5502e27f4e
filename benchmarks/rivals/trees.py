"""Compare our rules with dtControl's trees, on the same optimal policies.

dtControl reads each policy in its own table format and returns the number of nodes of trees that
reproduce it exactly. Ours are the axis tree with the fewest leaves that was found, and the smallest
rule of any class, exact and within 1 % of the optimum.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from environments import Environment

import tessella as ts

HERE = Path(__file__).resolve().parent
PROBLEMS = (
    "INV-Mix",
    "QUE-Mix",
    "maintenance",
    "perishable",
    "two_class_server",
    "battery_arbitrage",
)
DTCONTROL_LIMIT_SECONDS = 60  # for one table
SEARCH_LIMIT_SECONDS = 6.0  # for one of our searches


@dataclass
class TreeComparison:
    """One policy as trees of dtControl and as our rules."""

    name: str
    states: int
    dtcontrol: dict = field(
        default_factory=dict
    )  # its result by preset, or the reason of its failure
    tree: str = ""  # nodes of our axis tree
    exact: str = ""  # parameters of our smallest exact rule
    within_1_percent: str = ""  # parameters of our smallest rule within 1 %
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """A row of the table."""
        if "failed" in self.dtcontrol:
            nodes, cpu_seconds = [self.dtcontrol["failed"], ""], ""
        else:
            nodes = [_describe_nodes(self.dtcontrol[preset]) for preset in ("axes", "lines")]
            cpu_seconds = f"{sum(result['s'] for result in self.dtcontrol.values()):.1f}"
        cells = [
            self.name,
            f"{self.states:,}",
            *nodes,
            self.tree,
            self.exact,
            self.within_1_percent,
        ]
        return f"| {' | '.join(cells)} | {cpu_seconds}, {self.seconds:.1f} |"


def _describe_nodes(result: dict) -> str:
    accuracy = "" if result["accuracy"] == 1 else f" ({result['accuracy']:.1%} right)"
    return f"{result['nodes']}{accuracy}"


def compare_trees(
    environment: Environment | None, folder: Path, quick: bool
) -> list[TreeComparison]:
    """Compare all policies; ``environment`` is None if dtControl was not requested."""
    comparisons = []
    for name in PROBLEMS[:2] if quick else PROBLEMS:
        mdp = ts.benchmark(name) if name in ts.BENCHMARKS else ts.problem(name).build()
        solution = ts.solve(mdp)
        path = folder / f"{name}.dtcontrol.csv"
        ts.export(solution.policy, path)
        dtcontrol = grow_trees(environment, path)
        start = time.process_time()
        sizes = [
            _describe_size(solution, 0.0, [ts.AxisTree()]),
            _describe_size(solution, 0.0, None),
            _describe_size(solution, 0.01, None),
        ]
        comparisons.append(
            TreeComparison(name, mdp.n_states, dtcontrol, *sizes, time.process_time() - start)
        )
        print(comparisons[-1].line, file=sys.stderr, flush=True)
    return comparisons


def grow_trees(environment: Environment | None, path: Path) -> dict:
    """The result of dtControl on a table, or the reason of its failure."""
    if environment is None:
        return {"failed": "not run"}
    if environment.failed:
        return {"failed": "not installed"}
    command = [environment.python, str(HERE / "contenders" / "with_dtcontrol.py"), str(path)]
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=DTCONTROL_LIMIT_SECONDS,
            cwd=path.parent,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {DTCONTROL_LIMIT_SECONDS} s"}
    if result.returncode:
        return {"failed": (result.stderr.strip().splitlines() or ["ended without a word"])[-1][:80]}
    return json.loads(result.stdout.strip().splitlines()[-1])


def _describe_size(solution: ts.Solution, loss: float, classes: list | None) -> str:
    """Nodes of an axis tree, or the parameters of a rule and its class; * at a time limit."""
    rule = ts.compress(solution, loss, classes=classes, time_limit=SEARCH_LIMIT_SECONDS)
    mark = "*" if any("time limit" in outcome.explanation for outcome in rule.outcomes) else ""
    if classes is None:
        return f"{rule.size} ({rule.kind}){mark}"
    return f"{2 * ((rule.size + 2) // 3) - 1}{mark}"
