"""``tessella study``: a comparison of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tessella.cli.command import Answer, as_command, format_table
from tessella.cli.params import CommaList

if TYPE_CHECKING:
    from tessella.problems.problem import Problem

SHOWN_METRICS = ("policy_error", "mean_loss", "relative_loss")


@as_command(
    "study",
    example="tessella study --models QUE-Lin,shop.toml --methods linear,margin,fitted_q --seeds 3",
)
@click.option("--models", type=CommaList(), required=True, help="MODELs with commas.")
@click.option(
    "--methods", type=CommaList(), required=True, help="Names with commas, or module:name."
)
@click.option("--sizes", type=CommaList(int), default="100,400,1600", show_default=True)
@click.option("--seeds", type=int, default=5, show_default=True, help="Repetitions of every run.")
@click.option("--measures", type=CommaList(), default="", help="What else to store: module:name.")
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
    from tessella.runner.progress import open_display
    from tessella.runner.run_study import run_study
    from tessella.runner.study import Study

    problems = tuple(map(_as_problem, models))
    study = Study(problems, methods, sizes, seeds, measures)
    with open_display(sys.stderr) as progress:
        results = run_study(study, out, workers=workers, retry=retry, display=progress)
    columns = [name for name in (*SHOWN_METRICS, *study.measures) if name in results.frame.columns]
    keys = ["problem", "method", "n", *columns]
    means = results.table(*columns).reset_index()[keys].to_dict("records")
    failed = [{"run": str(r.spec), "reason": r.reason} for r in results.failed]
    lines = [_format_means(means, columns)]
    lines += [f"failed: {run['run']}: {run['reason']}" for run in failed]
    data = {"runs": len(results.records), "failed": failed, "means": means, "folder": out}
    return Answer("\n".join(lines), data, 1 if failed else 0)


def _format_means(means: list[dict[str, Any]], columns: list[str]) -> str:
    rows = [[_format_cell(value) for value in row.values()] for row in means]
    headings = ["model", "method", "n", *columns]
    return format_table(rows, headings, alignment="  r" + "r" * len(columns))


def _as_problem(word: str) -> str | Problem:
    """A problem by name; of any other model, one known by its word and the model's fingerprint.

    The fingerprint is a setting, so that runs of a model that has changed since are not taken.
    """
    from tessella.cli.model_argument import load_model
    from tessella.problems.problem import Choice, Problem

    if not word.endswith((".toml", ".nc")) and ".py:" not in word:
        return word
    mdp = load_model(word)
    identity = Choice("model", mdp.fingerprint, "what it is", options=(mdp.fingerprint,))
    noise = mdp.observation_noise if isinstance(mdp.observation_noise, float) else 0.0
    return Problem(
        word.replace(":", " "),
        f"the model {word}",
        make=lambda model: mdp,
        parameters=(identity,),
        observation_noise=noise,
    )


def _format_cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
