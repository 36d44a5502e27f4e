"""The command line: each command parses, computes and prints.

All commands are listed here in the order in which a user meets them; each is imported when it runs.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

# The first line of the help of each command; the general help imports no command.
COMMAND_SECTIONS = {
    "Models": {
        "list": "Problems by name, with their families.",
        "show": "Describe a model in words.",
        "new": "Write a model file of a problem, with every setting explained.",
        "check": "Check a model, and whether a certificate of it holds.",
    },
    "Solve and look": {
        "solve": "Solve a model exactly, with a bound on the error.",
        "map": "Show which action each state gets.",
        "measure": "Measure the policy's geometry, and test it for structure.",
        "tradeoff": "Find what levels of a measure cost, with proven bounds.",
        "simulate": "Play a policy forward on independent paths, and print what it earned.",
        "explore": "Open a page on which a model is changed, solved, looked at and compressed.",
    },
    "Policies and rules": {
        "fit": "Learn a policy from labelled states, and certify its loss.",
        "certify": "Compute what a policy loses on a model, exactly.",
        "compress": "Find the smallest rule whose certified loss is within a target.",
        "export": "Write a rule in the formats given by the file endings.",
        "diff": "Show what changes from one policy to another, in states and money.",
    },
    "Studies": {
        "study": "Compare methods on models, over sample sizes and seeds.",
        "paper": "Reproduce the paper: its runs, table, figures, and one report.",
        "bench": "Time building and solving here.",
    },
}
# Modules that hold several commands; any other command is in the module of its own name.
COMMAND_MODULES = {
    "models": ("list", "show", "new", "check"),
    "solve": ("solve", "simulate"),
    "maps": ("map", "measure", "tradeoff"),
    "policies": ("fit", "certify", "compress", "export", "diff"),
    "studies": ("study", "paper", "bench"),
}
COMMAND_NAMES = tuple(name for names in COMMAND_SECTIONS.values() for name in names)


class CommandGroup(click.Group):
    """Finds the command ``name`` in its module, where it is called ``name_command``."""

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run a command and end the process; any error is one line."""
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
        except BrokenPipeError:  # the reader of the pipe has ended
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (nothing is left to flush)
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMAND_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMAND_NAMES:
            return None
        shared = (module for module, names in COMMAND_MODULES.items() if cmd_name in names)
        module = import_module(f"tessella.cli.{next(shared, cmd_name)}")
        return getattr(module, f"{cmd_name}_command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMAND_NAMES))
        for title, commands in COMMAND_SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), summary) for name, summary in commands.items()]
                )


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog='Each command has --help with an example. `eval "$(_TESSELLA_COMPLETE=bash_source '
    'tessella)"` completes names in bash (zsh_source, fish_source in others).',
)
@click.version_option(package_name="tessella")
def main() -> None:
    """From a model of repeated decisions to a small rule that you can read and trust.

    MODEL is, in every command, the name of a problem (`tessella list`), a model file
    (model.toml), a saved model or solution (.nc), a model checker's file (.drn, .umb), or
    module.py:function.
    """
