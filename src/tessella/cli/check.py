"""``tessella check MODEL``: whether a model is sound, and whether a certificate of it holds."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model import about, model_of, takes_model, titled

if TYPE_CHECKING:
    from tessella.mdp.model import MDP


@as_command(
    "check", example="tessella check model.toml\ntessella check model.toml --certificate c.json"
)
@takes_model
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check this certificate against the model, independently of what made it.",
)
def command(model: str, given: tuple[str, ...], certificate: Path | None) -> Answer:
    """Check a model, and whether a certificate of it holds.

    All that is wrong with a model file is said at once.

    With --certificate, the stand-alone checker decides whether each figure in it is true of the
    model; the exit status is 1 if one is not.
    """
    mdp = model_of(model, given)
    data = {"model": about(mdp), "certificate": None}
    text = f"sound: {titled(mdp)}"
    if certificate is None:
        return Answer(text, data)
    status, said = _checked(mdp, certificate)
    told = {"file": str(certificate), "holds": status == 0, "said": said}
    return Answer(f"{text}\n{said}", data | {"certificate": told}, status)


def _checked(mdp: MDP, certificate: Path) -> tuple[int, str]:
    from tessella.certificates.check import main

    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        path = Path(folder) / "model.nc"
        mdp.save(path)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = main([str(certificate), str(path)])
    return min(status, 1), said.getvalue().strip()
