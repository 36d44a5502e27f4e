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
    from tessella.rules.rule import RULE_FORMAT, Rule

    content = read_json(path, "a saved rule or policy")
    is_rule = isinstance(content, dict) and content.get("format") == RULE_FORMAT
    return Rule.load(path) if is_rule else Policy.load(path)


def require_writable_targets(paths: Iterable[Path]) -> None:
    """Before any work: files of a known ending, in folders that are there, that can be written."""
    from tessella.files import require_writable
    from tessella.rules.export.export import find_target

    for path in paths:
        find_target(path).require_packages()
        require_writable(path)


def write_policy(policy: Policy, out: Path) -> str:
    """Write a policy by the ending of ``out``, and say what was written."""
    from tessella.rules.export.export import export

    if out.suffix.lower() == ".json":
        policy.save(out)
        return f"{out}: saved, for other commands"
    return str(export(policy, out))
