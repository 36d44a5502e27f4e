"""What several commands are given: lists with commas, a loss target, and a policy from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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


class LossParam(click.ParamType):
    """``1%`` or ``0.01`` of the optimal value, or ``12.5 units`` in the model's own."""

    name = "loss"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, bool]:
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        relative = True
        scale = 1.0
        if text.endswith("%"):
            text = text[:-1]
            scale = 0.01
        elif text.endswith("units"):
            text = text.removesuffix("units")
            relative = False
        try:
            number = float(text) * scale
        except ValueError:
            self.fail(f"{value!r} is not a loss, such as 1%, 0.01 or '12.5 units'", param, ctx)
        if relative and number > 1 and scale == 1.0:
            self.fail(
                f"{value!r} is above 1, the whole value: write {value}% or '{value} units'",
                param,
                ctx,
            )
        return number, relative


POLICY_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def policy_option(function: Callable) -> Callable:
    """Adds the option ``--policy``."""
    about = "A saved rule or policy (.json) or a table (.csv); by default the optimal policy."
    return click.option("--policy", type=POLICY_FILE, help=about)(function)
