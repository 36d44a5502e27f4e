"""The command line: one command in each file, which parses, computes and prints."""

from tessella.cli.group import main
