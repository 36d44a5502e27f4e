"""All commands, in the order in which a user meets them; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

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
