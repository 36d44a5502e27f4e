"""The command line: parse, call, print."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

MOST_WORKERS = 256  # of one machine; each holds a few hundred MB


class Words(click.ParamType):
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tessella")
def main() -> None:
    """From a model of repeated decisions to a small rule that you can read and trust."""


def _set(function):
    """The option that gives a problem other settings."""
    return click.option(
        "--set", "given", multiple=True, metavar="NAME=VALUE", help="Another setting; may repeat."
    )(function)


def _model(name: str, given: tuple[str, ...]):
    """The model of the problem called ``name``, with the settings that were typed."""
    from tessella.errors import ArgumentError
    from tessella.problems.registry import problem

    sys.path.append(os.getcwd())  # a problem of one's own may lie in the current folder
    known, settings = problem(name), {}
    for word in given:
        key, equals, text = word.partition("=")
        parameter = known.parameter(key.strip())
        try:
            settings[parameter.name] = parameter.parse(text) if equals else None
        except ValueError:
            rule = f"{parameter.name} must be {parameter.range}"
            raise ArgumentError(rule, place=known.name, value=f"got {text!r}") from None
    return known.build(**settings)


@main.command("list")
def list_problems() -> None:
    """The problems, by name, with their families."""
    from tessella.problems.registry import all_problems

    for known in all_problems():
        click.echo(f"{known.name:16} {known.family:10} {known.title}")


@main.command()
@click.argument("problem")
def show(problem: str) -> None:
    """Say what of a problem may be set, and what theory knows of it."""
    from tessella.errors import TessellaError
    from tessella.problems.registry import problem as found

    sys.path.append(os.getcwd())
    try:
        click.echo(found(problem))
    except TessellaError as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.argument("problem")
@_set
def solve(problem: str, given: tuple[str, ...]) -> None:
    """Solve a problem exactly and say how good the answer is.

    PROBLEM is a name that `tessella list` prints, or package.module:attribute.
    """
    from tessella.errors import NotConverged, TessellaError
    from tessella.solvers import solve as exactly

    try:
        click.echo(exactly(_model(problem, given)))
    except (TessellaError, NotConverged) as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.argument("problem")
@click.argument("policy", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_set
@click.option("--save", type=click.Path(path_type=Path), help="Also write it as JSON.")
def certify(problem: str, policy: Path, given: tuple[str, ...], save: Path | None) -> None:
    """Say what a policy loses on a problem, exactly.

    POLICY is a saved policy or rule (.json), or a CSV file with a row for each state: a column for
    each axis, and one for the action.
    """
    from tessella.certificates.certify import certify as certified
    from tessella.errors import NotConverged, TessellaError
    from tessella.solvers import solve as exactly

    try:
        certificate = certified(exactly(_model(problem, given)), policy)
        if save is not None:
            certificate.save(save)
    except (TessellaError, NotConverged) as error:
        raise click.ClickException(str(error)) from None
    click.echo(certificate.summary())


@main.command()
@click.option("--seeds", default=15, show_default=True, help="Repetitions of every run.")
@click.option(
    "--methods", type=Words(), help="Names with commas, such as linear,fitted_q; all by default."
)
@click.option("--problems", type=Words(), help="Labels with commas; all by default.")
@click.option("--sizes", type=Words(int), help="Sample sizes with commas; the paper's by default.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder for the store, tables, figures and report.",
)
@click.option(
    "--workers", type=click.IntRange(1, MOST_WORKERS), help="Worker processes; one for each core."
)
@click.option("--scheduler", help="A running dask scheduler's address, such as tcp://host:8786.")
@click.option("--retry", is_flag=True, help="Run again what failed before.")
@click.option("--report/--no-report", default=True, help="Write tables, figures and report.")
def paper(seeds, methods, problems, sizes, out, workers, scheduler, retry, report) -> None:
    """Reproduce the paper: its runs, table, figures, and one report.

    May be stopped at any time; the same command goes on where it was. A finished study starts no
    work, and a changed setting runs only what it touches.
    """
    from tessella.errors import StudyError, TessellaError
    from tessella.paper.plan import paper_study
    from tessella.paper.reproduce import reproduce
    from tessella.runner.display import display
    from tessella.runner.names import UnknownNameError
    from tessella.runner.run_study import Cluster, Interrupted

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
        with display(sys.stderr) as shown:
            where = Cluster(workers, scheduler)
            done = reproduce(study, out, shown, where, retry=retry, report=report)
    except UnknownNameError as error:
        raise click.ClickException(str(error)) from None
    except StudyError as error:
        _leave(f"Error: {error}; to go on: {_command()}", 1)
    except Interrupted as stop:
        _leave(f"stopped; {stop}; to go on: {_command()}", 130)
    except KeyboardInterrupt:
        _leave(f"stopped; to go on: {_command()}", 130)
    if done.failed:
        again = _command() if retry else f"{_command()} --retry"
        many = len(done.failed)
        what = "1 run failed; to run it" if many == 1 else f"{many} runs failed; to run them"
        _leave(f"{what} again: {again}", 1)
    click.echo(done.folder / "report.html" if report else done.folder)


def _command() -> str:
    """This command, as it can be typed again."""
    program = Path(sys.argv[0])
    found = shutil.which(program.name)
    typed = program.is_file() and not (found and Path(found).samefile(program))
    return shlex.join([sys.argv[0] if typed else "tessella", *sys.argv[1:]])


def _leave(message: str, status: int) -> NoReturn:
    click.echo(message, err=True)
    raise SystemExit(status)
