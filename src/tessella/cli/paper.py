"""``tessella paper``: the study of the paper, from its runs to its report."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.params import CommaList

LOCAL_MAX_WORKERS = 256  # worker processes of one machine; each holds a few hundred MB


@as_command(
    "paper",
    example="tessella paper --seeds 3\ntessella paper --methods linear,margin --out results",
)
@click.option("--seeds", default=15, show_default=True, help="Repetitions of every run.")
@click.option(
    "--methods",
    type=CommaList(),
    help="Names with commas, such as linear,fitted_q; all by default.",
)
@click.option("--problems", type=CommaList(), help="Labels with commas; all by default.")
@click.option(
    "--sizes", type=CommaList(int), help="Sample sizes with commas; the paper's by default."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder for the store, tables, figures and report.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, LOCAL_MAX_WORKERS),
    help="Worker processes; one for each core.",
)
@click.option("--scheduler", help="A running dask scheduler's address, such as tcp://host:8786.")
@click.option("--retry", is_flag=True, help="Run again what failed before.")
@click.option("--report/--no-report", default=True, help="Write tables, figures and report.")
def command(seeds, methods, problems, sizes, out, workers, scheduler, retry, report) -> Answer:
    """Reproduce the paper: its runs, table, figures, and one report.

    May be stopped at any time; the same command goes on where it was. A finished study starts no
    work, and a changed setting runs only what it touches.
    """
    from tessella.errors import FileError, StudyError, TessellaError
    from tessella.paper.published import paper_study
    from tessella.paper.reproduce import reproduce
    from tessella.runner.methods.method import UnknownNameError
    from tessella.runner.progress import open_display
    from tessella.runner.run_study import ClusterOptions, StudyInterrupted

    if scheduler is not None and workers is not None:
        raise click.UsageError("--workers is for this machine; a scheduler has its own")
    if scheduler is not None and not scheduler.strip():
        raise click.UsageError("--scheduler needs an address")
    # A method of one's own may lie in the current folder.
    sys.path.append(os.getcwd())
    # Being asked to end is the same as being interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = {"problems": problems, "methods": methods, "sizes": sizes, "seeds": seeds}
    try:
        study = paper_study(**{name: value for name, value in chosen.items() if value is not None})
    except TessellaError as error:
        raise click.ClickException(str(error)) from None
    try:
        with open_display(sys.stderr) as shown:
            cluster = ClusterOptions(workers, scheduler)
            finished = reproduce(study, out, shown, cluster, retry=retry, report=report)
    except UnknownNameError as error:
        raise click.ClickException(str(error)) from None
    except (StudyError, FileError) as error:
        _exit_with(f"Error: {error}; to go on: {_format_command()}", 1)
    except StudyInterrupted as stop:
        _exit_with(f"stopped; {stop}; to go on: {_format_command()}", 130)
    except KeyboardInterrupt:
        _exit_with(f"stopped; to go on: {_format_command()}", 130)
    if finished.failed:
        retry_command = _format_command() if retry else f"{_format_command()} --retry"
        n_failed = len(finished.failed)
        subject = (
            "1 run failed; to run it" if n_failed == 1 else f"{n_failed} runs failed; to run them"
        )
        _exit_with(f"{subject} again: {retry_command}", 1)
    where = finished.folder / "report.html" if report else finished.folder
    return Answer(
        str(where), {"folder": str(finished.folder), "report": str(where) if report else None}
    )


def _format_command() -> str:
    """This command, as it can be typed again."""
    program = Path(sys.argv[0])
    installed = shutil.which(program.name)
    use_path = program.is_file() and not (installed and Path(installed).samefile(program))
    return shlex.join([sys.argv[0] if use_path else "tessella", *sys.argv[1:]])


def _exit_with(message: str, status: int) -> NoReturn:
    click.echo(message, err=True)
    raise SystemExit(status)
