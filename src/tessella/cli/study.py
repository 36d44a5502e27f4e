"""``tessella study``: a comparison of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tessella.cli.command import Answer, as_command, table
from tessella.cli.words import Words

if TYPE_CHECKING:
    from tessella.problems.problem import Problem

FIGURES = ("policy_error", "mean_loss", "relative_loss")


@as_command(
    "study",
    example="tessella study --models QUE-Lin,shop.toml --methods linear,margin,fitted_q --seeds 3",
)
@click.option("--models", type=Words(), required=True, help="MODELs with commas.")
@click.option("--methods", type=Words(), required=True, help="Names with commas, or module:name.")
@click.option("--sizes", type=Words(int), default="100,400,1600", show_default=True)
@click.option("--seeds", type=int, default=5, show_default=True, help="Repetitions of every run.")
@click.option("--measures", type=Words(), default="", help="What else to store: module:name.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder where runs are kept.")
@click.option("--workers", type=click.IntRange(0, 256), default=0, help="Worker processes.")
@click.option("--retry", is_flag=True, help="Run again what failed before.")
def command(
    models: tuple[str, ...],
    methods: tuple[str, ...],
    sizes: tuple[int, ...],
    seeds: int,
    measures: tuple[str, ...],
    out: Path | None,
    workers: int,
    retry: bool,
) -> Answer:
    """Compare methods on models, over sample sizes and seeds.

    With --out a study may be stopped at any time; the same command goes on where it was.
    """
    from tessella.runner.display import display
    from tessella.runner.run_study import run_study
    from tessella.runner.study import Study

    problems = tuple(map(_problem, models))
    study = Study(problems, methods, sizes, seeds, measures)
    with display(sys.stderr) as shown:
        results = run_study(study, out, workers=workers, retry=retry, display=shown)
    columns = [name for name in (*FIGURES, *study.measures) if name in results.frame.columns]
    means = results.table(*columns).reset_index()
    keys = ["environment", "method", "n", *columns]
    rows = [[_cell(row[key]) for key in keys] for _, row in means.iterrows()]
    failed = [{"run": str(r.spec), "reason": r.reason} for r in results.failed]
    lines = [table(rows, ["model", "method", "n", *columns], right="  r" + "r" * len(columns))]
    lines += [f"failed: {run['run']}: {run['reason']}" for run in failed]
    data = {
        "runs": len(results.records),
        "failed": failed,
        "means": [
            dict(zip(keys, (row[key] for key in keys), strict=True)) for _, row in means.iterrows()
        ],
        "folder": None if out is None else str(out),
    }
    return Answer("\n".join(lines), data, 1 if failed else 0)


def _problem(word: str) -> str | Problem:
    """A problem by name; of any other model, one known by its word and the model's fingerprint.

    The fingerprint is a setting, so that runs of a model that has changed since are not taken.
    """
    from tessella.cli.model import model_of
    from tessella.problems.parameter import Choice
    from tessella.problems.problem import Problem

    if not word.endswith((".toml", ".nc")) and ".py:" not in word:
        return word
    mdp = model_of(word)
    known = Choice("model", mdp.fingerprint, "what it is", options=(mdp.fingerprint,))
    noise = mdp.observation_noise if isinstance(mdp.observation_noise, float) else 0.0
    return Problem(
        word.replace(":", " "),
        f"the model {word}",
        make=lambda model: mdp,
        parameters=(known,),
        observation_noise=noise,
    )


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
