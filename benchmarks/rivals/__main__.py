"""Rivals side by side, in one run:  python benchmarks/rivals [--largest] [--rounds 3]

Every contender gets the same models and is asked for the same accuracy, max|V - V*| <= 1e-6, each
in a process and an environment of its own, in turn, several rounds. The best of the rounds counts.
What comes out is ``docs/rivals.md`` with its plots, written by this script alone. ``--largest``
adds 501,501 structured states, which take whoever holds matrices 6 GB and more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import faults  # noqa: E402
import numpy as np  # noqa: E402
import report  # noqa: E402
from contenders import with_tessella  # noqa: E402
from environments import RIVALS, Environment, Rival, environment  # noqa: E402
from models import Model, the_set  # noqa: E402

import tessella as ts  # noqa: E402

TOL = 1e-6
LIMIT = 240  # seconds for one contender on one model; then it has no answer
FAULT_LIMIT = 40
OURS = Rival("tessella", "tessella", ())


def run(rival: Rival, python: str, model: Model, folder: Path, limit: int) -> dict:
    """What one contender makes of one model: figures and answer, or what went wrong."""
    told, answer = folder / "model.json", folder / "answer.npz"
    told.write_text(json.dumps(asdict(model) | {"tol": TOL}))
    answer.unlink(missing_ok=True)
    asked = [python, str(HERE / "contend.py"), rival.name, str(told), str(answer)]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=limit, cwd=HERE)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {limit} s"}
    if done.returncode or not answer.exists():
        return {"failed": reason(done)}
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    with np.load(answer) as found:
        figures |= {"value": found["value"], "policy": found["policy"]}
    return figures


def reason(done: subprocess.CompletedProcess) -> str:
    """Why a process has no answer, in a line."""
    if done.returncode < 0:
        return f"died of signal {-done.returncode}"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    last = said[-1] if said else "ended without a word"
    if last.startswith("NotImplementedError"):
        return "cannot state it"
    return "out of memory" if "MemoryError" in last or "bad_alloc" in last else last[:120]


def judged(figures: dict, truth: ts.Solution) -> dict:
    """The figures with the error of the value, and how many decided actions are wrong."""
    if "failed" in figures:
        return figures
    value, policy = figures.pop("value"), figures.pop("policy")
    best = truth.policy.table.ravel()
    wrong = truth.decided.ravel() & (policy.ravel() != best)
    error = float(np.abs(value.ravel() - truth.value.ravel()).max())
    return figures | {"error": error, "wrong": int(wrong.sum())}


def better(old: dict | None, new: dict) -> dict:
    """The best of two rounds, figure by figure."""
    if old is None or "failed" in old or "failed" in new:
        return new if old is None else old
    times = {key: min(old[key], new[key]) for key in new if key not in ("error", "wrong", "memory")}
    return new | times


def said_to(model: Model, figures: dict) -> str:
    """What a contender says to one of the nine inputs."""
    if "failed" in figures:
        return figures["failed"]
    value = np.asarray(figures["value"], dtype=float).ravel()[:2]
    if not np.isfinite(value).all():
        return "answers NaN"
    off = float(np.abs(value - faults.optimum(model)).max())
    if faults.FAULTS[model.name] == "answers":
        return "right" if off <= TOL * 1.01 else f"off by {off:.2g}, without a word"
    return f"answers {value[0]:.6g}, without a word"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", action="store_true", help="501,501 structured states too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--environments", type=Path, default=Path("build/rivals"))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--only", default="", help="names of rivals, with commas")
    asked = parser.parse_args()
    rivals = [r for r in RIVALS if not asked.only or r.name in asked.only.split(",")]
    homes = {r.name: environment(r, asked.environments.resolve()) for r in rivals}
    homes[OURS.name] = Environment(sys.executable)
    able = [OURS, *(r for r in rivals if not homes[r.name].failed)]
    results: dict[str, dict[str, dict]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for model in the_set(asked.largest):
            truth = ts.solve(with_tessella.build(model))
            row = results[model.name] = {}
            for _ in range(asked.rounds):
                for rival in able:
                    if "failed" in row.get(rival.name, {}):
                        continue
                    python = homes[rival.name].python
                    got = judged(run(rival, python, model, folder, LIMIT), truth)
                    row[rival.name] = better(row.get(rival.name), got)
            told = {k: v.get("failed") or f"{1e3 * v['solve_s']:.3g} ms" for k, v in row.items()}
            print(model.name, told, file=sys.stderr, flush=True)
        said = {
            model.name: {
                r.name: said_to(model, run(r, homes[r.name].python, model, folder, FAULT_LIMIT))
                for r in able
            }
            for model in faults.models()
        }
    missing = {r.title: homes[r.name].failed for r in rivals if homes[r.name].failed}
    report.write(asked.out, able, results, said, missing)


if __name__ == "__main__":
    main()
