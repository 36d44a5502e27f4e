"""Rivals side by side, in one run:  python benchmarks/rivals [--quick] [--minutes 25]

Every contender gets the same models and is asked for the same accuracy, max|V - V*| <= 1e-6, each
in a process and an environment of its own, in turn, several rounds. The best of the rounds counts.
Then come nine inputs, most of them faulty, dtControl's trees beside our rules, and how our own cost
grows (``benchmarks/growth.py``). What comes out is ``docs/rivals.md`` with its plots, written by
this script alone. ``--quick`` takes the small models of each group, to try it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import faults  # noqa: E402
import growth  # noqa: E402
import numpy as np  # noqa: E402
import report  # noqa: E402
import trees  # noqa: E402
from contenders import with_tessella  # noqa: E402
from contest import TOL, answer_of, contest  # noqa: E402
from environments import DTCONTROL, RIVALS, Environment, Rival, environment  # noqa: E402
from models import Model  # noqa: E402
from the_set import prepare, the_set  # noqa: E402

import tessella as ts  # noqa: E402

OURS = Rival("tessella", "tessella", ())
GROWING = "structured", "discounts", "random", "maps", "averages"
UNTRIED = {"failed": "not tried: it had no answer to a smaller one"}
LATE = {"failed": "not tried: the time was up"}
FOR_THE_REST = 330  # seconds kept for faults, trees, growth and the page
BOUNDED = 1_000  # states of an average whose actions are told to be right or wrong


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def judged(figures: dict, truth: ts.Solution) -> dict:
    """The figures with the error of the value, and how many decided actions are wrong.

    Actions of an average are decided by its relative values, whose bound takes long where models
    are large; there they are not judged.
    """
    if "failed" in figures:
        return figures
    value, policy = figures.pop("value").ravel(), figures.pop("policy").ravel()
    if truth.gain is not None:
        figures["error"] = float(np.abs(value - truth.gain).max())
    else:
        figures["error"] = float(np.abs(value - truth.value.ravel()).max())
    if truth.gain is None or len(policy) <= BOUNDED:
        other = policy != truth.policy.table.ravel()
        figures |= {"other": int(other.sum()), "wrong": int((other & truth.decided.ravel()).sum())}
    return figures


def _hopeless(figures: dict) -> bool:
    """Whether a larger model need not be tried."""
    why = "no answer", "out of memory", "cannot state", "not tried: it"
    return figures.get("failed", "").startswith(why)


def contests(
    models: Iterable[Model],
    able: list[Rival],
    homes: dict[str, Environment],
    folder: Path,
    rounds: int,
    until: float,
) -> dict[str, dict]:
    """For each model, the figures of each contender; who failed in a group is out of the rest."""
    results: dict[str, dict] = {}
    out: set[tuple[str, str]] = set()
    for model in models:
        if time.monotonic() > until:
            row = {r.name: dict(LATE) for r in able}
        else:
            trying = [r for r in able if (model.group, r.name) not in out]
            prepare(model)
            truth = ts.solve(with_tessella.build(model))
            found = contest(model, trying, homes, folder, rounds)
            row = {r.name: dict(UNTRIED) for r in able}
            row |= {name: judged(figures, truth) for name, figures in found.items()}
        if model.group in GROWING:
            out |= {(model.group, name) for name, f in row.items() if _hopeless(f)}
        results[model.name] = {"group": model.group, "states": model.states, "figures": row}
        told = {k: f.get("failed") or f"{1e3 * f['solve_cpu']:.3g} ms" for k, f in row.items()}
        say(model.name, told)
    return results


def said_to(model: Model, figures: dict) -> tuple[str, bool]:
    """What a contender says to one of the nine inputs, and whether that is as it should be."""
    wanted = faults.FAULTS[model.name]
    if "failed" in figures:
        said = figures["failed"]
        silent = "died", "ended without", "no answer", "out of memory"
        return said, wanted == "refuses" and not said.startswith(silent)
    value = np.asarray(figures["value"], dtype=float).ravel()[:2]
    if not np.isfinite(value).all():
        return "answers NaN", False
    off = float(np.abs(value - faults.optimum(model)).max())
    if wanted == "answers":
        right = off <= TOL * 1.01
        return ("right" if right else f"off by {off:.2g}, without a word"), right
    return f"answers {value[0]:.6g}, without a word", False


def nine_inputs(
    able: list[Rival], homes: dict[str, Environment], folder: Path
) -> dict[str, dict[str, tuple[str, bool]]]:
    """What each contender says to each of the nine; two at a time, as nothing is timed."""

    def asked(rival: Rival) -> dict[str, tuple[str, bool]]:
        home = homes[rival.name]
        return {
            model.name: said_to(model, answer_of(model, rival, home, folder))
            for model in faults.models()
        }

    with ThreadPoolExecutor(2) as pool:
        by_rival = dict(zip((r.name for r in able), pool.map(asked, able), strict=True))
    return {what: {name: said[what] for name, said in by_rival.items()} for what in faults.FAULTS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small models of each group")
    parser.add_argument("--minutes", type=float, default=25, help="installing not counted")
    parser.add_argument("--rounds", type=int, default=2, help="turns after the first answers")
    parser.add_argument("--environments", type=Path, default=Path("build/rivals"))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--only", default="", help="names of rivals, with commas")
    parser.add_argument("--groups", default="", help="groups of models, with commas")
    asked = parser.parse_args()
    chosen = [r for r in (*RIVALS, DTCONTROL) if not asked.only or r.name in asked.only.split(",")]
    homes = {r.name: environment(r, asked.environments.resolve()) for r in chosen}
    homes[OURS.name] = Environment(sys.executable)
    able = [OURS, *(r for r in chosen if not homes[r.name].failed and r != DTCONTROL)]
    began = time.monotonic()
    until = began + 60 * asked.minutes - FOR_THE_REST
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        groups = asked.groups.split(",") if asked.groups else []
        models = [m for m in the_set(folder, asked.quick) if not groups or m.group in groups]
        results = contests(models, able, homes, folder, asked.rounds, until)
        say("nine inputs")
        said = nine_inputs(able, homes, folder)
        say("trees")
        beside = trees.beside(homes.get(DTCONTROL.name), folder, asked.quick)
    missing = {r.title: homes[r.name].failed for r in chosen if homes[r.name].failed}
    report.write(asked.out, able, results, said, beside, missing, asked.quick)
    say("growth")
    growth.write(asked.out / "generated" / "growth.md", asked.quick)
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    say(f"{(time.monotonic() - began) / 60:.1f} minutes, {used / 60:.1f} of contenders' processor")


if __name__ == "__main__":
    main()
