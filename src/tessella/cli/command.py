"""What all commands share: text or JSON, an example, exit codes, and errors in one line.

A command returns an `Answer`; what it prints is text, or with ``--json`` one JSON document. It ends
with 0 when it succeeded, 1 when it failed, 2 when its usage was wrong, and 130 when it was
interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click

import tessella as ts
from tessella.cli.cache import enable_jax_cache
from tessella.errors import NotConverged, TessellaError
from tessella.support.json_values import to_json_value
from tessella.support.text import align_columns


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    text: str  # for a person
    # The same for a program: numbers, text, lists and objects.
    data: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0  # the exit status; 1 where a check fails
    follow_up: Callable[[], None] | None = None  # runs after printing, until it is interrupted

    def to_json(self, command: str) -> str:
        content = {"command": command, "tessella": ts.__version__, **self.data}
        return json.dumps(to_json_value(content), indent=1, allow_nan=False)


class Command(click.Command):
    """A command with ``--json`` and ``--debug``, whose errors are one line."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document."),
            click.Option(["--debug"], is_flag=True, help="Show where an error comes from."),
        ]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"  {line}\n")

    def invoke(self, ctx: click.Context) -> None:
        as_json = ctx.params.pop("as_json")
        debug = ctx.params.pop("debug")
        enable_jax_cache()
        try:
            answer = super().invoke(ctx)
            click.echo(answer.to_json(str(ctx.command.name)) if as_json else answer.text)
            if answer.follow_up is not None:
                answer.follow_up()
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if debug:
                raise
            raise click.ClickException(_describe_error(error)) from None
        ctx.exit(answer.status)


def _describe_error(error: Exception) -> str:
    if isinstance(error, TessellaError | NotConverged):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is not enough memory for this: {error}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    subject = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{subject}; this is a fault of the program, --debug shows where"


# A function as a command, by name and example; its docstring is the help. Where there are many
# options, their types are not repeated in the signature: click checks them.
as_command = partial(click.command, cls=Command)


def format_table(
    rows: Sequence[Sequence[str]], headings: Sequence[str] = (), alignment: str = ""
) -> str:
    """Columns as wide as needed; ``alignment`` holds an ``r`` for each right-aligned one."""
    lines = align_columns([headings, *rows] if headings else rows, alignment)
    if headings:
        lines[0] = click.style(lines[0], bold=True)
    return "\n".join(lines)
