"""``tessella check MODEL``: whether a model is sound, and whether a certificate of it holds."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import describe_model, format_title, load_model, model_argument

if TYPE_CHECKING:
    from tessella.mdp.model import MDP


@as_command(
    "check", example="tessella check model.toml\ntessella check model.toml --certificate c.json"
)
@model_argument
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check this certificate against the model, independently of the code that wrote it.",
)
def command(model: str, given: tuple[str, ...], certificate: Path | None) -> Answer:
    """Check a model, and whether a certificate of it holds.

    All mistakes in a model file are listed at once.

    With --certificate, the stand-alone checker decides whether each figure in it is true of the
    model; the exit status is 1 if one is not.
    """
    mdp = load_model(model, given)
    data = {"model": describe_model(mdp), "certificate": None}
    text = f"sound: {format_title(mdp)}"
    if certificate is None:
        return Answer(text, data)
    status, report = _run_checker(mdp, certificate)
    check = {"file": str(certificate), "holds": status == 0, "said": report}
    return Answer(f"{text}\n{report}", data | {"certificate": check}, status)


def _run_checker(mdp: MDP, certificate: Path) -> tuple[int, str]:
    from tessella.checker import main

    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        path = Path(folder) / "model.nc"
        mdp.save(path)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = main([str(certificate), str(path)])
    return min(status, 1), output.getvalue().strip()
