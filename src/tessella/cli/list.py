"""``tessella list``: the problems that can be named."""

from __future__ import annotations

import click

from tessella.cli.command import Answer, as_command, format_table
from tessella.errors import ArgumentError


@as_command("list", example="tessella list\ntessella list --family inventory")
@click.option("--family", help="Those of one family alone.")
def command(family: str | None) -> Answer:
    """Problems by name, with their families."""
    from tessella.problems.registry import all_problems

    every = all_problems()
    shown = [known for known in every if family in (None, known.family)]
    if not shown:
        families = ", ".join(sorted({known.family for known in every}))
        raise ArgumentError(f"no family is called {family!r}; there are {families}")
    rows = [(known.name, known.family, known.title) for known in shown]
    keys = ("name", "family", "title")
    return Answer(
        format_table(rows), {"problems": [dict(zip(keys, row, strict=True)) for row in rows]}
    )
