"""Constraints: the optimum at service levels, small rules, and times.

    python benchmarks/constraints.py [levels] [rules] [large] [storm PYTHON] [accelerator]

``levels`` is INV-Mix without shortage costs at four fill rates; ``rules`` the smallest rules on all
inventory and queue problems at three levels each; ``large`` the CPU time of one constraint at
501,501 states as a multiple of one solve, second runs of both; ``storm`` compares with the
multi-objective queries of Storm, run by a Python that has stormpy; ``accelerator`` is one
constraint at ten million states, second run. The first two write
docs/generated/service_levels.md and constraints.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tables import Table

import tessella as ts
from tessella.mdp.stages.events import average_unit

FILL_RATES = (0.90, 0.95, 0.98, 0.99)
LOSS = 0.02
RULE_SECONDS = 40
# The measure and its sense. Routing to parallel queues always rejects as few as can be.
PROBLEMS = {
    "inventory": ("fill_rate", ts.AtLeast),
    "lost_sales": ("fill_rate", ts.AtLeast),
    "perishable": ("fill_rate", ts.AtLeast),
    "platelets": ("fill_rate", ts.AtLeast),
    "two_products": ("fill_rate", ts.AtLeast),
    "dual_sourcing": ("fill_rate", ts.AtLeast),
    "queue_admission": ("rejection", ts.AtMost),
    "naor_admission": ("rejection", ts.AtMost),
    "two_class_admission": ("second_rejection", ts.AtMost),
    "two_class_server": ("rejection", ts.AtMost),
}
SETTINGS = {"platelets": {"most": 10}, "dual_sourcing": {"backlog_cost": 35.0}}
SHARES = (0.25, 0.5, 0.75)  # of the way from the unconstrained level to the best
STORM_PROGRAM = Path(__file__).parent / "with_storm_multi.py"
LEVELS_TABLE = Table(
    "service_levels",
    ("fill rate", "least cost", "bounds apart", "drawn in", "deterministic", "a point costs", "s"),
    head="""\
# Costs of fill rates

Written by `benchmarks/constraints.py levels`. The least cost of `inventory(shortage_cost=0)` among
all policies: how far its bounds are apart, where an action is drawn, the cost of the best
deterministic policy found, what one percentage point more costs, and seconds.
""",
)
RULES_TABLE = Table(
    "constraints",
    ("problem", "constraint", "parameters", "rule", "above the bound", "measure", "exports", "s"),
    keys=2,
    head="""\
# Rules with constraints

Written by `benchmarks/constraints.py rules`. Levels lie 25, 50 and 75 % of the way from that of the
unconstrained optimum to the best of any policy. Rules cost at most 2 % more than the bound, below
which no policy of any kind is that satisfies the constraint. Measures are from exact evaluation;
exports to C and SQL were run in all states.
""",
)


def print_row(*cells: object) -> None:
    print(" | ".join(str(cell) for cell in cells), flush=True)


def write_levels() -> None:
    mdp = ts.inventory(shortage_cost=0.0)
    for level in FILL_RATES:
        start = time.perf_counter()
        result = ts.solve(mdp, subject_to={"fill_rate": ts.AtLeast(level)})
        seconds = time.perf_counter() - start
        drawn = " and ".join(mdp.grid.describe(one.state) for one in result.randomised)
        LEVELS_TABLE.put(
            [
                f"{level:.0%}",
                f"{-result.high:.4f}",
                f"{result.high - result.low:.1e}",
                drawn or "nowhere",
                "none" if result.best is None else f"{-result.best.reward.value:.4f}",
                f"{0.01 * result.constraints[0].price:.3f}",
                f"{seconds:.2f}",
            ]
        )


def write_rules(names: list[str]) -> None:
    for name, (measure, kind) in PROBLEMS.items():
        if names and name not in names:
            continue
        mdp = ts.problem(name).build(**SETTINGS.get(name, {}))
        better = "more" if kind is ts.AtLeast else "less"
        objective = "cost" if mdp.minimise else "reward"
        curve = ts.tradeoff(mdp, objective, measure, points=2, better=better)
        optimum = curve.points[0].value
        for share in SHARES:
            level = float(f"{optimum + share * (curve.best_level - optimum):.4g}")
            RULES_TABLE.put(
                [name, f"{measure} {kind(level)}", *find_rule(mdp, measure, kind(level))]
            )


def find_rule(mdp: ts.MDP, measure: str, level: ts.AtLeast | ts.AtMost) -> list[str]:
    """The cells of a rule: its size, class, cost above the bound, measure, exports, and seconds."""
    start = time.perf_counter()
    constraint = {measure: level}
    try:
        rule = ts.compress(mdp, LOSS, subject_to=constraint, time_limit=RULE_SECONDS)
    except ts.TessellaError:
        best = ts.solve(mdp, subject_to=constraint).best
        bound = ts.solve(mdp, subject_to=constraint).high
        known = "" if best is None else f"{(bound - best.reward.value) / abs(bound):.2%}"
        return ["none", "best deterministic policy", known, "", "", ""]
    seconds = time.perf_counter() - start
    evaluation = ts.evaluate(mdp, rule)
    value = evaluation.measures[measure]
    worst = value.low if level.sign > 0 else value.high
    holds = level.sign * worst >= level.sign * level.level
    bound = ts.solve(mdp, subject_to=constraint).high
    mean = evaluation.mean * (average_unit(mdp.clock)[0] if mdp.criterion.has_gain else 1.0)
    return [
        str(rule.size),
        rule.kind,
        f"{(bound - mean) / abs(bound):.2%}",
        f"{value.value:.5g} {'holds' if holds else 'MISSED'}",
        agree(rule),
        f"{seconds:.0f}",
    ]


def agree(rule: ts.Rule) -> str:
    """How exports to C and SQL say that they agree with the rule in every state."""
    with tempfile.TemporaryDirectory() as folder:
        reports = [str(rule.export(Path(folder) / name)) for name in ("rule.c", "rule.sql")]
    return "; ".join(report.split(": ", 1)[1] for report in reports)


def print_large() -> None:
    for discount in (0.95, 0.999):
        options = {"max_stock": 1000, "max_regime": 500, "demand_slope": 0.36 * 24 / 500}
        mdp = ts.inventory(**options, discount=discount, shortage_cost=0.0)
        plain = ts.inventory(**options, discount=discount)
        level = {"fill_rate": ts.AtLeast(0.98)}
        ts.solve(plain)
        one = measure_cpu(plain)
        ts.solve(mdp, subject_to=level)
        constrained = measure_cpu(mdp, subject_to=level)
        print_row("501,501 states", discount, f"one {one:.2f} s", f"{constrained / one:.1f} times")


def measure_cpu(mdp: ts.MDP, **options) -> float:
    start = time.process_time()
    ts.solve(mdp, **options)
    return time.process_time() - start


def compare_with_storm(python: str) -> None:
    cases = {
        "inventory": (ts.inventory(shortage_cost=0.0, max_stock=16, max_regime=8), "lost", 6.0),
        "queue_admission": (ts.queue_admission(max_queue=8, max_regime=4), "rejected", 15.0),
        "a short queue": (ts.queue_admission(max_queue=8, max_regime=4), "waiting", 30.0),
    }
    for name, (mdp, count, level) in cases.items():
        pairs = mdp.to_pairs()
        count_pairs = mdp.with_objective({count: 1.0}).to_pairs()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.npz"
            rows = pairs.transition
            np.savez(
                path,
                data=rows.data,
                indices=rows.indices,
                indptr=rows.indptr,
                shape=rows.shape,
                state=pairs.states,
                reward=pairs.reward,
                count=count_pairs.reward,
                discount=mdp.discount,
                level=level,
            )
            command = [python, str(STORM_PROGRAM), str(path)]
            storm_value = json.loads(
                subprocess.run(command, check=True, capture_output=True).stdout
            )
        result = ts.solve(mdp, subject_to={count: ts.AtMost(level)})
        bounds = f"[{result.low:.8f}, {result.high:.8f}]"
        print_row(name, f"{count} at most {level}", bounds, f"Storm {storm_value:.8f}")


def print_accelerator() -> None:
    options = {"max_stock": 4999, "max_regime": 2039, "demand_slope": 0.36 * 24 / 2040}
    mdp = ts.inventory(**options, shortage_cost=0.0)
    level = {"fill_rate": ts.AtLeast(0.98)}
    for run in ("first", "second"):
        start = time.perf_counter()
        result = ts.solve(mdp, subject_to=level)
        seconds = time.perf_counter() - start
        apart = f"bounds {result.high - result.low:.1e} apart"
        print_row(f"{mdp.n_states:,} states", f"{run} run {seconds:.1f} s", -result.high, apart)


def main() -> None:
    parts = sys.argv[1:] or ["levels", "rules", "large"]
    if "levels" in parts:
        write_levels()
    if "rules" in parts:
        write_rules([name for name in parts if name in PROBLEMS])
    if "large" in parts:
        print_large()
    if "storm" in parts:
        compare_with_storm(parts[-1])
    if "accelerator" in parts:
        print_accelerator()


if __name__ == "__main__":
    main()
