"""A rule: a small policy with a certificate, and what is known about how small it could be."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tessella.certificates.certificate import Certificate
from tessella.errors import FileError
from tessella.files import NATURAL_NUMBER, atomic_write, read_errors, read_field, read_json
from tessella.mdp.actions import actions_to_json
from tessella.mdp.policy import PROGRAM_FORMAT, VERSION, Policy, policy_fields, read_program
from tessella.mdp.rule_tree import RuleTree, node_to_json
from tessella.rules.explain import explain
from tessella.rules.export.export import ExportedFile, export
from tessella.rules.export.export_context import OffGrid
from tessella.rules.frontier import ClassOutcome, Frontier

RULE_FORMAT = PROGRAM_FORMAT
WHAT = "a saved rule"
FACTS = {
    "model": "text",
    "fingerprint": "text",
    "mean_loss": "a number",
    "relative_loss": "a number or null",
    "worst_loss": "a number",
    "certified": "true or false",
    "told_in": "text",
    "promised": "a number",
    "periods_per_time": "a number",
}


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Policy):
    """A policy that is a tree of a few numbers. Made by ``compress``.

    Attributes:
        kind: the class of rules that it comes from.
        size_needed: no rule of its class with fewer numbers keeps the promise; 0 if none is proven.
        promise: what it was asked to keep, in words.
        certificate: what it loses, for the stand-alone checker; None for a rule from a file.
        frontier: the other rules that were found, size against loss.
        outcomes: what became of each class of rules: found, proven, ruled out and why.
        seconds: how long the search took.
        sentence: the rule in words, where its class has a sentence.
        facts: model, fingerprint and proven loss, as files name them.
    """

    kind: str = ""
    size_needed: int = 0
    promise: str = ""
    certificate: Certificate | None = field(default=None, repr=False)
    frontier: Frontier = field(default_factory=lambda: Frontier((), ()), repr=False)
    outcomes: tuple[ClassOutcome, ...] = field(default=(), repr=False)
    seconds: float = 0.0
    sentence: str = ""
    facts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def program(self) -> RuleTree:
        """What decides, in the form that exports read."""
        assert isinstance(self.rule, RuleTree)
        return self.rule

    @property
    def proven(self) -> bool:
        """Whether no smaller rule of its class keeps the promise."""
        return self.size_needed == self.size

    def explain(self) -> str:
        """What it says and what is known of it, in plain sentences."""
        return explain(self)

    def __str__(self) -> str:
        return self.explain()

    def save(self, path: str | Path) -> None:
        """Write the rule itself as JSON, for ``Rule.load``: its tree, and what was proven."""
        grid = self.grid
        axes = {n: v.tolist() for n, v in zip(grid.axes, grid.values, strict=True)}
        about = {"format": RULE_FORMAT, "version": VERSION, "name": self.name, "kind": self.kind}
        about |= {"size": self.size, "size_needed": self.size_needed, "promise": self.promise}
        about |= {"words": self.sentence, "facts": self.facts, "action_name": self.action_name}
        about |= {"actions": actions_to_json(self.actions), "axes": axes, "seconds": self.seconds}
        try:
            tree_json = node_to_json(self.program.root)
            text = json.dumps(about | {"program": tree_json}, indent=1) + "\n"
        except RecursionError:
            requirement = (
                "a rule that is saved must not be nested so deeply; a table has room for it"
            )
            raise FileError(requirement, value=f"it has {self.program.depth:,} levels") from None
        with atomic_write(path) as part:
            part.write_text(text, encoding="utf-8")

    def export(self, path: str | Path, *, off_grid: OffGrid | None = None) -> ExportedFile:
        """Write it as something that a system runs, by the ending of ``path``: see ``export``."""
        return export(self, path, off_grid=off_grid)

    @staticmethod
    def load(path: str | Path) -> Rule:
        """A rule that ``save`` wrote; its certificate is made again with ``certify``."""
        content = read_json(path, WHAT)
        with read_errors(path, WHAT):
            about, _ = policy_fields(content, (RULE_FORMAT,))
            facts = read_field(content, "facts", "an object")
            _check_facts(facts)
            return Rule(
                rule=read_program(content, about["grid"], about["actions"]),
                kind=read_field(content, "kind", "text"),
                promise=read_field(content, "promise", "text"),
                sentence=read_field(content, "words", "text"),
                size_needed=read_field(content, "size_needed", NATURAL_NUMBER),
                seconds=float(read_field(content, "seconds", "a number")),
                facts=facts,
                **about,
            )


def _check_facts(facts: dict[str, Any]) -> None:
    """Refuse facts that are not what the head of a file states: none, or losses at least."""
    for name in facts.keys() | ({"mean_loss", "worst_loss"} if facts else ()):
        if name in FACTS:
            read_field(facts, name, FACTS[name])
