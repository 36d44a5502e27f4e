"""The command line: one command per file, which parses, calls and says what it found."""

from tessella.cli.group import main

__all__ = ["main"]
