"""Policies and rules in files, in the form that the ending of the name asks for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessella.mdp.policy import Policy


def read_policy(path: Path) -> Policy:
    """A rule or a policy from the file where ``save`` put it."""
    from tessella.files import read_json
    from tessella.mdp.policy import Policy
    from tessella.rules.rule import FORMAT, Rule

    content = read_json(path, "a saved rule or policy")
    of_rule = isinstance(content, dict) and content.get("format") == FORMAT
    return Rule.load(path) if of_rule else Policy.load(path)


def refuse_other_files(paths: Iterable[Path]) -> None:
    """Before any work: files of a known ending, in folders that are there, that can be written."""
    from tessella.files import refuse_unwritable
    from tessella.rules.export.export import target_of

    for path in paths:
        target_of(path).require()
        refuse_unwritable(path)


def write_policy(policy: Policy, out: Path) -> str:
    """Write a policy by the ending of ``out``, and say what was written."""
    from tessella.rules.export.export import export

    if out.suffix.lower() == ".json":
        policy.save(out)
        return f"{out}: saved, for other commands"
    return str(export(policy, out))
