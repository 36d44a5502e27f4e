"""The commands about models: list, show, new and check."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import tessella as ts
from tessella.cli import arguments
from tessella.cli.command import Answer, as_command, format_table
from tessella.errors import ArgumentError, FileError, TessellaError, counted

LISTED_MAX_VALUES = 12  # values that are listed one by one


@as_command("list", example="tessella list\ntessella list --family inventory")
@click.option("--family", help="Those of one family alone.")
def list_command(family: str | None) -> Answer:
    """Problems by name, with their families."""
    problems = ts.all_problems()
    shown = [known for known in problems if family in (None, known.family)]
    if not shown:
        families = ", ".join(sorted({known.family for known in problems}))
        raise ArgumentError(f"no family is called {family!r}; there are {families}")
    rows = [(known.name, known.family, known.title) for known in shown]
    keys = ("name", "family", "title")
    data = {"problems": [dict(zip(keys, row, strict=True)) for row in rows]}
    return Answer(format_table(rows), data)


@as_command("show", example="tessella show lost_sales --set lead_time=3\ntessella show model.toml")
@arguments.model_argument
def show_command(model: arguments.NamedModel) -> Answer:
    """Describe a model in words.

    Axes, actions, the events of a period, the criterion, and what it needs in memory.

    Of a problem also its settings, and what theory knows of it.
    """
    from tessella.mdp.describe import count_model_bytes, describe_events
    from tessella.solvers.execution_plan import make_plan
    from tessella.solvers.plan import estimate_cost

    mdp = model.mdp
    try:
        named_problem = ts.problem(model.word)
    except TessellaError:
        named_problem = None
    event_texts = describe_events(mdp)
    cost = estimate_cost(make_plan(mdp), calibrate=False)
    model_bytes = count_model_bytes(mdp.dynamics)
    data = arguments.describe_model(mdp) | {
        "events": event_texts,
        "exogenous": [] if mdp.exogenous is None else list(mdp.exogenous.names),
        "bytes": {"model": model_bytes, "solve": cost.memory - model_bytes},
        "measures": _list_measures(mdp),
    }
    text = _describe(mdp, event_texts, named_problem, model_bytes) + f"\n{cost.sentence}"
    if named_problem is not None:
        data["problem"] = _describe_problem(named_problem, mdp)
        text = f"{named_problem}\n\n{text}"
    return Answer(text, {"model": data})


def _describe_problem(named_problem: ts.Problem, mdp: ts.MDP) -> dict[str, Any]:
    keys = ("name", "default", "range", "about")
    return {
        "title": named_problem.title,
        "family": named_problem.family,
        "settings": [{key: getattr(p, key) for key in keys} for p in named_problem.settable],
        "axes": [{"name": n, "about": named_problem.coordinate(n)} for n in mdp.grid.axes],
        "theory": [asdict(statement) for statement in named_problem.theory],
    }


def _list_measures(mdp: ts.MDP) -> dict[str, str]:
    """Each measure with its formula, and its constraint if it has one."""
    required = {name: f", {constraint}" for name, constraint in mdp.constraints.items()}
    return {name: one.text + required.get(name, "") for name, one in mdp.measures.items()}


def _describe(
    mdp: ts.MDP, event_texts: list[str], named_problem: ts.Problem | None, model_bytes: int
) -> str:
    from tessella.mdp.describe import describe_exogenous
    from tessella.support.text import format_bytes

    rows = [
        (
            name,
            counted(len(v), "value"),
            _format_values(v.tolist()),
            named_problem.coordinate(name) if named_problem else "",
        )
        for name, v in zip(mdp.grid.axes, mdp.grid.values, strict=True)
    ]
    period = "Every period:" if mdp.clock is None else f"Every period ({mdp.clock}):"
    lines = [f"The model {mdp.name}:" if mdp.name else "The model:"]
    lines += [f"  {line}" for line in format_table(rows, alignment=" r").splitlines()]
    lines += [f"  {mdp.action_name}: {_format_values(mdp.actions)}"]
    lines += ["", period, *(f"  {k}. {subject}" for k, subject in enumerate(event_texts, 1))]
    lines += [f"  {sentence}" for sentence in describe_exogenous(mdp)]
    lines[-1] += arguments.format_measures([*_list_measures(mdp).items()])
    lines += ["", f"Wanted: {mdp.sense.goal}, {arguments.describe_criterion(mdp)}."]
    size = f"{counted(mdp.n_states, 'state')}, {counted(mdp.n_actions, 'action')}"
    lines.append(f"Size: {size}; the model takes {format_bytes(model_bytes)}.")
    return "\n".join(lines)


def _format_values(values: Sequence[Any]) -> str:
    words = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
    separator = "; " if any("," in word for word in words) else ", "
    if len(words) <= LISTED_MAX_VALUES:
        return separator.join(words)
    return separator.join([*words[:3], "...", words[-1]])


@as_command(
    "new", example="tessella new lost_sales > model.toml\ntessella new perishable -o shop.toml"
)
@click.argument("problem", type=arguments.ModelParam())
@arguments.settings_option
@click.option("-o", "--out", type=arguments.PATH, help="A file instead of the screen.")
def new_command(problem: str, assignments: tuple[str, ...], out: Path | None) -> Answer:
    """Write a model file of a problem, with every setting explained.

    The file solves as it is; change what differs in your business.
    """
    known = ts.problem(problem)
    if out is not None and out.exists():
        raise FileError(f"{out} exists already", value="it is not overwritten")
    text = ts.write_model(
        arguments.build_problem(known, assignments) if assignments else known, out
    )
    output = text.rstrip() if out is None else f"{out}: {known.title}"
    return Answer(output, {"problem": known.name, "text": text, "file": out})


@as_command(
    "check", example="tessella check model.toml\ntessella check model.toml --certificate c.json"
)
@arguments.model_argument
@click.option(
    "--certificate",
    type=arguments.EXISTING_FILE,
    help="Check this certificate against the model, independently of the code that wrote it.",
)
def check_command(model: arguments.NamedModel, certificate: Path | None) -> Answer:
    """Check a model, and whether a certificate of it holds.

    All mistakes in a model file are listed at once.

    With --certificate, the stand-alone checker decides whether each figure in it is true of the
    model; the exit status is 1 if one is not, or if the certificate cannot be checked.
    """
    mdp = model.mdp
    data = {"model": arguments.describe_model(mdp), "certificate": None}
    text = f"valid: {arguments.format_title(mdp)}"
    if certificate is None:
        return Answer(text, data)
    status, report = _run_checker(model, certificate)
    holds = None if status > 1 else status == 0  # None where nothing was checked
    check = {"file": str(certificate), "holds": holds, "said": report}
    return Answer(f"{text}\n{report}", data | {"certificate": check}, min(status, 1))


def _run_checker(model: arguments.NamedModel, certificate: Path) -> tuple[int, str]:
    """The checker's status and report; a saved model is checked as the file that it is."""
    from tessella.checker import main

    output = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        path = Path(model.word)
        if not arguments.is_saved_model(path):
            path = Path(folder) / "model.nc"
            model.mdp.save(path)
        with contextlib.redirect_stdout(output):
            status = main([str(path), str(certificate)])
    return status, output.getvalue().strip()
