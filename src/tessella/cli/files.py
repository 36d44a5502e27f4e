"""Policies and rules in files, in the form that the ending of the name asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessella.mdp.policy import Policy


def read_policy(path: Path) -> Policy:
    """A rule or a policy from the file where ``save`` put it."""
    from tessella.errors import FileError, reading
    from tessella.mdp.policy import Policy
    from tessella.rules.rule import FORMAT, Rule

    try:
        with reading(path, "a saved rule or policy"):
            content = json.loads(path.read_text(encoding="utf-8"))
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a saved rule or policy: {error}") from error
    of_rule = isinstance(content, dict) and content.get("format") == FORMAT
    return Rule.load(path) if of_rule else Policy.load(path)


def refuse_other_files(paths: Iterable[Path]) -> None:
    """Before any work: files of a known ending, in folders that are there, that can be written."""
    from tessella.errors import writing
    from tessella.rules.export.export import target_of

    for path in paths:
        target_of(path).require()
        with writing(path):
            pass


def write_policy(policy: Policy, out: Path) -> str:
    """Write a policy by the ending of ``out``, and say what was written."""
    from tessella.rules.export.export import export

    if out.suffix.lower() == ".json":
        policy.save(out)
        return f"{out}: saved, for other commands"
    return str(export(policy, out))
