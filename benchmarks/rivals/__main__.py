"""Compare tessella with other packages:  python benchmarks/rivals [--quick] [--minutes 25]

Every package solves the same models with the same target, max|V - V*| <= 1e-6. Each runs in its own
process and environment; packages take turns, and the best of several rounds counts. Nine small
inputs follow, most of them faulty, then dtControl's trees compared with our rules, and how our own
run time grows (``benchmarks/growth.py``). The script writes ``docs/generated/rivals.md`` and its
plots; ``scripts/speed_table.py`` then writes the table of ``docs/results/speed.md``. ``--quick``
takes only the small models of each group, to test the script.
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
from contest import TOLERANCE, request_answer, run_contest  # noqa: E402
from environments import (  # noqa: E402
    DTCONTROL,
    RIVALS,
    Environment,
    Rival,
    prepare_environment,
)
from model_set import list_models, write_arrays  # noqa: E402
from models import Model  # noqa: E402

import tessella as ts  # noqa: E402

OURS = Rival("tessella", "tessella", ())
# In these groups, a package without an answer is not run on larger models.
GROUPS_OF_GROWING_MODELS = "structured", "discounts", "random", "maps", "averages"
SKIPPED_AFTER_FAILURE = {"failed": "not tried: it had no answer to a smaller one"}
SKIPPED_FOR_TIME = {"failed": "not tried: the time was up"}
RESERVED_SECONDS = 330  # for faulty inputs, trees, growth and the page
AVERAGE_POLICY_MAX_STATES = 1_000  # policies of larger averages are not compared


def print_progress(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def evaluate_answer(figures: dict, truth: ts.Solution) -> dict:
    """Replace value and policy by the error of the value and the number of wrong actions.

    In an average, bounds on the relative values decide actions. They take long in large models, so
    policies are not compared there.
    """
    if "failed" in figures:
        return figures
    value, policy = figures.pop("value").ravel(), figures.pop("policy").ravel()
    exact = truth.value.ravel() if truth.gain is None else truth.gain
    figures["error"] = float(np.abs(value - exact).max())
    if truth.gain is None or len(policy) <= AVERAGE_POLICY_MAX_STATES:
        differs = policy != truth.policy.table.ravel()
        wrong = differs & truth.decided.ravel()
        figures |= {"other": int(differs.sum()), "wrong": int(wrong.sum())}
    return figures


def rules_out_larger_models(figures: dict) -> bool:
    reasons = "no answer", "out of memory", "cannot state", "not tried: it"
    return figures.get("failed", "").startswith(reasons)


def run_model(
    model: Model,
    contenders: list[Rival],
    excluded: set[tuple[str, str]],
    homes: dict[str, Environment],
    folder: Path,
    rounds: int,
) -> dict[str, dict]:
    """The figures of each contender on one model."""
    participants = [r for r in contenders if (model.group, r.name) not in excluded]
    write_arrays(model)
    truth = ts.solve(with_tessella.build(model))
    answers = run_contest(model, participants, homes, folder, rounds)
    figures = {r.name: dict(SKIPPED_AFTER_FAILURE) for r in contenders}
    return figures | {name: evaluate_answer(answer, truth) for name, answer in answers.items()}


def run_models(
    models: Iterable[Model],
    contenders: list[Rival],
    homes: dict[str, Environment],
    folder: Path,
    rounds: int,
    end: float,
) -> dict[str, dict]:
    """For each model, the figures of each contender; ``end`` is a time of the monotonic clock."""
    results: dict[str, dict] = {}
    excluded: set[tuple[str, str]] = set()  # (group, contender)
    for model in models:
        if time.monotonic() > end:
            figures = {r.name: dict(SKIPPED_FOR_TIME) for r in contenders}
        else:
            figures = run_model(model, contenders, excluded, homes, folder, rounds)
        if model.group in GROUPS_OF_GROWING_MODELS:
            failed = [name for name, f in figures.items() if rules_out_larger_models(f)]
            excluded |= {(model.group, name) for name in failed}
        results[model.name] = {"group": model.group, "states": model.states, "figures": figures}
        print_progress(model.name, {name: summarise(f) for name, f in figures.items()})
    return results


def summarise(figures: dict) -> str:
    return figures.get("failed") or f"{1e3 * figures['solve_cpu']:.3g} ms"


def describe_reaction(model: Model, figures: dict) -> tuple[str, bool]:
    """How a contender reacts to one of the nine inputs, and whether that is correct."""
    expected = faults.EXPECTED_REACTIONS[model.name]
    if "failed" in figures:
        failure = figures["failed"]
        without_message = "died", "ended without", "no answer", "out of memory"
        return failure, expected == "rejects" and not failure.startswith(without_message)
    value = np.asarray(figures["value"], dtype=float).ravel()[:2]
    if not np.isfinite(value).all():
        return "answers NaN", False
    if expected != "answers":
        return f"answers {value[0]:.6g}, without a warning", False
    error = float(np.abs(value - faults.compute_optimum(model)).max())
    if error <= TOLERANCE * 1.01:
        return "right", True
    return f"off by {error:.2g}, without a warning", False


def run_faulty_inputs(
    contenders: list[Rival], homes: dict[str, Environment], folder: Path
) -> dict[str, dict[str, tuple[str, bool]]]:
    """The reaction of each contender to each of the nine; two at a time, as nothing is timed."""

    def run(rival: Rival) -> dict[str, tuple[str, bool]]:
        home = homes[rival.name]
        return {
            model.name: describe_reaction(model, request_answer(model, rival, home, folder))
            for model in faults.list_models()
        }

    names = [r.name for r in contenders]
    with ThreadPoolExecutor(2) as pool:
        by_rival = dict(zip(names, pool.map(run, contenders), strict=True))
    return {
        fault: {name: reactions[fault] for name, reactions in by_rival.items()}
        for fault in faults.EXPECTED_REACTIONS
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the small models of each group")
    parser.add_argument("--minutes", type=float, default=25, help="without installation")
    parser.add_argument("--rounds", type=int, default=2, help="turns after the first answers")
    parser.add_argument("--environments", type=Path, default=Path("build/rivals"))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--only", default="", help="names of rivals, separated by commas")
    parser.add_argument("--groups", default="", help="groups of models, separated by commas")
    return parser.parse_args()


def choose_models(options: argparse.Namespace, folder: Path) -> list[Model]:
    groups = options.groups.split(",") if options.groups else []
    return [m for m in list_models(folder, options.quick) if not groups or m.group in groups]


def choose_rivals(options: argparse.Namespace) -> list[Rival]:
    names = options.only.split(",") if options.only else []
    return [r for r in (*RIVALS, DTCONTROL) if not names or r.name in names]


def main() -> None:
    options = parse_options()
    chosen = choose_rivals(options)
    homes = {r.name: prepare_environment(r, options.environments.resolve()) for r in chosen}
    missing = {r.title: homes[r.name].failed for r in chosen if homes[r.name].failed}
    contenders = [OURS, *(r for r in chosen if r.title not in missing and r != DTCONTROL)]
    homes[OURS.name] = Environment(sys.executable)
    start = time.monotonic()
    end = start + 60 * options.minutes - RESERVED_SECONDS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models = choose_models(options, folder)
        results = run_models(models, contenders, homes, folder, options.rounds, end)
        print_progress("nine inputs")
        reactions = run_faulty_inputs(contenders, homes, folder)
        print_progress("trees")
        comparisons = trees.compare_trees(homes.get(DTCONTROL.name), folder, options.quick)
    report.write(options.out, contenders, results, reactions, comparisons, missing, options.quick)
    print_progress("growth")
    growth.write(options.out / "generated" / "growth.md", options.quick)
    minutes = (time.monotonic() - start) / 60
    cpu_minutes = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) / 60
    print_progress(f"{minutes:.1f} minutes; contenders used {cpu_minutes:.1f} processor minutes")


if __name__ == "__main__":
    main()
