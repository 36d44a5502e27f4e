"""The policy that a command is about: the optimal one, or one from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

POLICY_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def policy_option(function: Callable) -> Callable:
    """Adds the option ``--policy``."""
    about = "A saved rule or policy (.json) or a table (.csv); by default the optimal policy."
    return click.option("--policy", type=POLICY_FILE, help=about)(function)
