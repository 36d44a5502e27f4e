"""Rules beside dtControl's trees, for the same optimal policies.

The policy goes over as dtControl's own table; what comes back is the number of nodes of trees that
repeat it exactly. Ours: the axis tree with the fewest leaves that is found, and the smallest rule
of any class, exact and within 1 % of the optimum.
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
LIMIT = 60  # seconds for dtControl on one table
SEARCH = 6.0  # seconds for one search of ours


@dataclass
class Beside:
    """One policy, by either."""

    name: str
    states: int
    theirs: dict = field(default_factory=dict)  # what dtControl found, or why not
    tree: str = ""  # nodes of our axis tree
    exact: str = ""  # numbers of our smallest exact rule
    near: str = ""  # and of the one within 1 %
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """A row of the table."""
        if "failed" in self.theirs:
            nodes, spent = [self.theirs["failed"], ""], ""
        else:
            nodes = [_nodes(self.theirs[way]) for way in ("axes", "lines")]
            spent = f"{sum(one['s'] for one in self.theirs.values()):.1f}"
        cells = [self.name, f"{self.states:,}", *nodes, self.tree, self.exact, self.near]
        return f"| {' | '.join(cells)} | {spent}, {self.seconds:.1f} |"


def _nodes(found: dict) -> str:
    wrong = "" if found["accuracy"] == 1 else f" ({found['accuracy']:.1%} right)"
    return f"{found['nodes']}{wrong}"


def beside(home: Environment | None, folder: Path, quick: bool) -> list[Beside]:
    """All policies; dtControl is left out where it could not be installed."""
    made = []
    for name in PROBLEMS[:2] if quick else PROBLEMS:
        mdp = ts.benchmark(name) if name in ts.BENCHMARKS else ts.problem(name).build()
        solution = ts.solve(mdp)
        path = folder / f"{name}.dtcontrol.csv"
        ts.export(solution.policy, path)
        theirs = grown(home, path)
        began = time.process_time()
        ours = [
            _size(solution, 0.0, [ts.AxisTree()]),
            _size(solution, 0.0, None),
            _size(solution, 0.01, None),
        ]
        made.append(Beside(name, mdp.n_states, theirs, *ours, time.process_time() - began))
        print(made[-1].line, file=sys.stderr, flush=True)
    return made


def grown(home: Environment | None, path: Path) -> dict:
    """What dtControl makes of a table, or why it makes nothing."""
    if home is None:
        return {"failed": "not asked"}
    if home.failed:
        return {"failed": "not installed"}
    asked = [home.python, str(HERE / "contenders" / "with_dtcontrol.py"), str(path)]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=LIMIT, cwd=path.parent)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {LIMIT} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["ended without a word"])[-1][:80]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _size(solution: ts.Solution, loss: float, classes: list | None) -> str:
    """Nodes of an axis tree, or the numbers of a rule and its class."""
    rule = ts.compress(solution, loss, classes=classes, time_limit=SEARCH)
    cut = "*" if any("time limit" in outcome.explanation for outcome in rule.outcomes) else ""
    if classes is None:
        return f"{rule.size} ({rule.kind}){cut}"
    return f"{2 * ((rule.size + 2) // 3) - 1}{cut}"
