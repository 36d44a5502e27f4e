"""Constraints: the optimum and small rules at service levels, and its time at 501,501 states.

    python benchmarks/constraints.py [levels] [rules] [large] [storm PYTHON]

``levels`` is INV-Mix without shortage costs at four fill rates; ``rules`` the smallest rules on the
inventory and queue problems at three levels each; ``large`` the CPU time of one constraint at
501,501 states as a multiple of one solve, second runs of both; ``storm`` compares with the
multi-objective queries of Storm, run by a Python that has stormpy.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tessella as ts

FILL_RATES = (0.90, 0.95, 0.98, 0.99)
LOSS = 0.02
# The measure, its sense, and shares of the way from the unconstrained level to the best level.
PROBLEMS = {
    "inventory": ("fill_rate", ts.AtLeast),
    "lost_sales": ("fill_rate", ts.AtLeast),
    "perishable": ("fill_rate", ts.AtLeast),
    "queue_admission": ("rejection", ts.AtMost),
    "naor_admission": ("rejection", ts.AtMost),
}
SHARES = (0.25, 0.5, 0.75)
STORM_PROGRAM = Path(__file__).parent / "with_storm_multi.py"


def print_row(*cells: object) -> None:
    print(" | ".join(str(cell) for cell in cells), flush=True)


def print_levels() -> None:
    mdp = ts.inventory(shortage_cost=0.0)
    print_row("fill rate", "least cost", "bounds apart", "drawn in", "no draw", "a point", "s")
    for level in FILL_RATES:
        start = time.perf_counter()
        result = ts.solve(mdp, subject_to={"fill_rate": ts.AtLeast(level)})
        seconds = time.perf_counter() - start
        randomised = result.randomised
        print_row(
            level,
            f"{-result.high:.4f}",
            f"{result.high - result.low:.1e}",
            " and ".join(mdp.grid.describe(one.state) for one in randomised) or "nowhere",
            "none" if result.best is None else f"{-result.best.reward.value:.4f}",
            f"{0.01 * result.constraints[0].price:.3f}",
            f"{seconds:.2f}",
        )


def print_rules() -> None:
    print_row("problem", "constraint", "parameters", "rule", "above", "measure", "exports", "s")
    for name, (measure, kind) in PROBLEMS.items():
        mdp = ts.problem(name).build()
        optimum = ts.evaluate(mdp, ts.solve(mdp).policy).measures[measure].value
        limit = find_limit(mdp, measure, kind)
        for share in SHARES:
            level = kind(optimum + share * (limit - optimum))
            print_rule(name, mdp, measure, level)


def print_rule(name: str, mdp: ts.MDP, measure: str, level: ts.AtLeast | ts.AtMost) -> None:
    start = time.perf_counter()
    try:
        rule = ts.compress(mdp, LOSS, subject_to={measure: level}, time_limit=40)
    except ts.TessellaError as error:
        print_row(name, f"{measure} {level}", f"none: {error}")
        return
    seconds = time.perf_counter() - start
    evaluation = ts.evaluate(mdp, rule)
    value = evaluation.measures[measure]
    worst = value.low if level.sign > 0 else value.high
    holds = level.sign * worst >= level.sign * level.level
    bound = ts.solve(mdp, subject_to={measure: level}).high
    print_row(
        name,
        f"{measure} {level}",
        rule.size,
        rule.kind,
        f"{(bound - evaluation.mean) / abs(bound):.2%}",
        f"{value.value:.6g} {'holds' if holds else 'MISSED'}",
        agree(rule),
        f"{seconds:.1f}",
    )


def find_limit(mdp: ts.MDP, measure: str, kind: type) -> float:
    """The best level, from the message about a level beyond it."""
    try:
        ts.solve(mdp, subject_to={measure: kind(kind.sign * 1e9)})
    except ts.ArgumentError as error:
        words = str(error).split()
        return float(words[words.index("in") - 1])
    raise AssertionError("a level beyond all was reached")


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


def main() -> None:
    parts = sys.argv[1:] or ["levels", "rules", "large"]
    if "levels" in parts:
        print_levels()
    if "rules" in parts:
        print_rules()
    if "large" in parts:
        print_large()
    if "storm" in parts:
        compare_with_storm(parts[-1])


if __name__ == "__main__":
    main()
