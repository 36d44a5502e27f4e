"""The commands that run many solves: study, paper and bench."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import tessella as ts
from tessella.cli import arguments
from tessella.cli.command import Answer, as_command, format_table
from tessella.errors import FileError, StudyError, counted
from tessella.rounding import round_up

if TYPE_CHECKING:
    from tessella.paper.results import PaperResults

SHOWN_METRICS = ("policy_error", "mean_loss", "relative_loss")
LOCAL_MAX_WORKERS = 256  # worker processes of one machine; each holds a few hundred MB
DEFAULT_MODELS = ("QUE-Mix", "INV-Mix", "INV-Hard")


class CommaList(click.ParamType):
    """A list written with commas."""

    name = "list"

    def __init__(self, kind: type = str) -> None:
        self.kind = kind

    def convert(self, value, param, ctx):
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(part.strip()) for part in value.split(",") if part.strip())
        except ValueError:
            self.fail(f"{value!r} is not a list of {self.kind.__name__} with commas", param, ctx)


@as_command(
    "study",
    example="tessella study --models QUE-Lin,shop.toml --methods linear,margin,fitted_q --seeds 3",
)
@click.option("--models", type=CommaList(), required=True, help="MODELs, separated by commas.")
@click.option(
    "--methods", type=CommaList(), required=True, help="Names or module:name, separated by commas."
)
@click.option(
    "--sizes",
    type=CommaList(int),
    default="100,400,1600",
    help="Labels, or updates, that a method gets.",
)
@click.option("--seeds", type=int, default=5, help="Repetitions of every run.")
@click.option("--measures", type=CommaList(), default=(), help="What else to store: module:name.")
@click.option("--out", type=arguments.PATH, help="Folder where runs are kept.")
@click.option(
    "--workers", type=click.IntRange(0, LOCAL_MAX_WORKERS), default=0, help="Worker processes."
)
@click.option("--retry", is_flag=True, help="Run again what failed before.")
def study_command(models, methods, sizes, seeds, measures, out, workers, retry) -> Answer:
    """Compare methods on models, over sample sizes and seeds.

    With --out a study may be stopped at any time; the same command continues it.
    """
    problems = tuple(map(_as_problem, models))
    study = ts.Study(problems, methods, sizes, seeds, measures)
    with ts.open_progress() as progress:
        results = ts.run_study(study, out, workers=workers, retry=retry, progress=progress)
    shown = (*SHOWN_METRICS, *results.measures)
    columns = [name for name in shown if name in results.frame.columns]
    keys = ["problem", "method", "n", *columns]
    means = results.table(*columns).reset_index()[keys].to_dict("records")
    failed = [{"run": str(r.spec), "reason": r.reason} for r in results.failed]
    rows = [list(map(_format_cell, row.values())) for row in means]
    headings = ["model", "method", "n", *columns]
    lines = [format_table(rows, headings, alignment="  r" + "r" * len(columns))]
    lines += [f"failed: {run['run']}: {run['reason']}" for run in failed]
    data = {"runs": len(results.records), "failed": failed, "means": means, "folder": out}
    return Answer("\n".join(lines), data, 1 if failed else 0)


def _format_cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "-" if math.isnan(value) else f"{value:.4g}"


def _as_problem(word: str) -> str | ts.Problem:
    """A problem by name; of any other model, one known by its word and the model's fingerprint.

    The fingerprint is a setting, so that stored runs of an earlier form of the model are not used.
    """
    if not word.endswith((".toml", ".nc")) and ".py:" not in word:
        return word
    mdp = arguments.NamedModel(word).ignore_constraints()
    identity = ts.Choice("model", mdp.fingerprint, "what it is", options=(mdp.fingerprint,))
    noise = mdp.observation_noise if isinstance(mdp.observation_noise, float) else 0.0
    return ts.Problem(
        word.replace(":", " "),
        f"the model {word}",
        make=lambda model: mdp,
        parameters=(identity,),
        observation_noise=noise,
    )


@as_command(
    "paper",
    example="tessella paper --seeds 3\ntessella paper --methods linear,margin --out results",
)
@click.option("--seeds", default=15, help="Repetitions of every run.")
@click.option(
    "--methods",
    type=CommaList(),
    help="Names, separated by commas, such as linear,fitted_q; all by default.",
)
@click.option("--problems", type=CommaList(), help="Labels, separated by commas; all by default.")
@click.option(
    "--sizes",
    type=CommaList(int),
    help="Sample sizes, separated by commas; the paper's by default.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    help="Folder for the store, tables, figures and report.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, LOCAL_MAX_WORKERS),
    help="Worker processes; one for each core.",
)
@click.option("--scheduler", help="A running dask scheduler's address, such as tcp://host:8786.")
@click.option("--retry", is_flag=True, help="Run again what failed before.")
@click.option(
    "--report/--no-report",
    default=True,
    show_default=False,
    help="Write tables, figures and report.",
)
def paper_command(
    seeds, methods, problems, sizes, out, workers, scheduler, retry, report
) -> Answer:
    """Reproduce the paper: its runs, table, figures, and one report.

    May be stopped at any time; the same command continues it. A finished study starts no work, and
    a changed setting runs only what depends on it.
    """
    if scheduler is not None and workers is not None:
        raise click.UsageError("--workers is for this machine; a scheduler has its own")
    if scheduler is not None and not scheduler.strip():
        raise click.UsageError("--scheduler needs an address")
    # A custom method may lie in the current folder.
    sys.path.append(os.getcwd())
    # A request to end is handled as an interrupt.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = {"problems": problems, "methods": methods, "sizes": sizes, "seeds": seeds}
    given = {name: value for name, value in chosen.items() if value is not None}
    results = _run_paper(
        given, out, workers=workers, scheduler=scheduler, retry=retry, report=report
    )
    n_failed = len(results.failed)
    if n_failed:
        again = _format_command() if retry else f"{_format_command()} --retry"
        pronoun = "it" if n_failed == 1 else "them"
        _exit_with(f"{counted(n_failed, 'run')} failed; to run {pronoun} again: {again}", 1)
    where = out / "report.html" if report else out
    return Answer(str(where), {"folder": out, "report": where if report else None})


def _run_paper(settings: dict[str, Any], out: Path, **options: Any) -> PaperResults:
    """Run the study with the options of ``reproduce``; if it stops, print how to continue it."""
    from tessella.paper.published import paper_study
    from tessella.paper.reproduce import reproduce
    from tessella.runner.methods.method import UnknownNameError
    from tessella.runner.run_study import StudyInterrupted

    study = paper_study(**settings)
    try:
        with ts.open_progress() as shown:
            return reproduce(study, out, shown, **options)
    except UnknownNameError:
        raise
    except (StudyError, FileError) as error:
        _exit_with(f"Error: {error}; to continue: {_format_command()}", 1)
    except StudyInterrupted as stop:
        _exit_with(f"stopped; {stop}; to continue: {_format_command()}", 130)
    except KeyboardInterrupt:
        _exit_with(f"stopped; to continue: {_format_command()}", 130)


def _format_command() -> str:
    """This command, as it can be typed again."""
    program = Path(sys.argv[0])
    installed = shutil.which(program.name)
    use_path = program.is_file() and not (installed and Path(installed).samefile(program))
    return shlex.join([sys.argv[0] if use_path else "tessella", *sys.argv[1:]])


def _exit_with(message: str, status: int) -> NoReturn:
    click.echo(message, err=True)
    raise SystemExit(status)


@as_command("bench", example="tessella bench\ntessella bench model.toml lost_sales --repeat 5")
@click.argument("models", nargs=-1, type=arguments.ModelParam())
@arguments.settings_option
@click.option("--repeat", type=click.IntRange(1, 1000), default=3)
@click.option("--tol", type=float, default=1e-6, help="Largest error.")
def bench_command(
    models: tuple[str, ...], assignments: tuple[str, ...], repeat: int, tol: float
) -> Answer:
    """Time building and solving here.

    The first solve compiles; of later ones the quickest counts. Solutions are not cached.
    """
    import resource

    timings = [_time_model(word, assignments, repeat, tol) for word in models or DEFAULT_MODELS]
    rows = [
        (
            timing["model"]["name"] or "model",
            f"{timing['model']['states']:,}",
            *(f"{timing[key]:.3g}" for key in ("build", "first", "again")),
            str(timing["sweeps"]),
            round_up(timing["bound"], 2),
        )
        for timing in timings
    ]
    headings = ("model", "states", "build s", "first s", "again s", "sweeps", "bound")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_bytes = peak if sys.platform == "darwin" else 1024 * peak
    table = format_table(rows, headings, alignment=" rrrrrr")
    text = f"{table}\npeak memory {peak_bytes / 1e6:,.0f} MB"
    return Answer(text, {"runs": timings, "peak_bytes": peak_bytes})


def _time_model(word: str, assignments: tuple[str, ...], repeat: int, tol: float) -> dict[str, Any]:
    began = time.perf_counter()
    mdp = arguments.NamedModel(word, assignments).ignore_constraints()
    seconds = [time.perf_counter() - began]
    solution = None
    for _ in range(1 + repeat):
        began = time.perf_counter()
        solution = ts.solve(mdp, tol=tol)
        seconds.append(time.perf_counter() - began)
    assert solution is not None
    return {
        "model": arguments.describe_model(mdp),
        "build": seconds[0],
        "first": seconds[1],
        "again": min(seconds[2:]),
        "sweeps": solution.sweeps,
        "bound": solution.error_bound,
    }
