"""``tessella new PROBLEM``: a commented model file to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import ModelParam, build_problem
from tessella.errors import FileError


@as_command(
    "new", example="tessella new lost_sales > model.toml\ntessella new perishable -o shop.toml"
)
@click.argument("problem", type=ModelParam())
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="Another setting.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="A file instead of the screen.")
def command(problem: str, given: tuple[str, ...], out: Path | None) -> Answer:
    """Write a model file of a problem, with every setting explained.

    The file solves as it is; change what differs in your business.
    """
    from tessella.modelfiles.named_problem import write_model
    from tessella.problems.registry import problem as find_problem

    known = find_problem(problem)
    if out is not None and out.exists():
        raise FileError(f"{out} is there already", value="it is not written over")
    text = write_model(build_problem(known, given) if given else known, out)
    output = text.rstrip() if out is None else f"{out}: {known.title}"
    return Answer(output, {"problem": known.name, "text": text, "file": out})
