"""Lists that are typed with commas."""

from __future__ import annotations

import click


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
