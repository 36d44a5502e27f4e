"""All commands, in the order in which a user meets them; each is imported when it is asked for."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

SECTIONS = {
    "Models": ("list", "show", "new", "check"),
    "Solve and look": ("solve", "map", "measure", "simulate"),
    "Policies and rules": ("fit", "certify", "compress", "export", "diff"),
    "Studies": ("study", "paper", "bench"),
}
NAMES = tuple(name for names in SECTIONS.values() for name in names)


class Commands(click.Group):
    """Finds a command in the file of its name, where it is called ``command``."""

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run a command and end the process; whatever is wrong is one line."""
        settings.pop("standalone_mode", None)
        try:
            status = super().main(*args, standalone_mode=False, **settings)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            help_ = f"; see {context.command_path} --help" if context is not None else ""
            click.echo(f"Error: {error.format_message().rstrip('.')}{help_}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("stopped", err=True)
            sys.exit(130)
        except BrokenPipeError:  # what it printed to has ended
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (nothing is left to flush)
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in NAMES:
            return None
        return import_module(f"tessella.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, NAMES))
        for title, names in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(n.ljust(width), c.get_short_help_str(70)) for n, c in found if c is not None]
                )


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Each command has --help with an example. `eval "$(_TESSELLA_COMPLETE=bash_source '
    'tessella)"` completes names in bash (zsh_source, fish_source in others).',
)
@click.version_option(package_name="tessella")
def main() -> None:
    """From a model of repeated decisions to a small rule that you can read and trust.

    MODEL is, in every command, the name of a problem (`tessella list`), a model file
    (model.toml), a saved model or solution (.nc), or module.py:function.
    """
