"""A rule, which is a small policy with a certificate; and the frontier of size against loss."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.errors import FileError, counted
from tessella.files import NATURAL_NUMBER, atomic_write, read_errors, read_field, read_json
from tessella.grid import StateGrid
from tessella.mdp.actions import actions_to_json
from tessella.mdp.policy import PROGRAM_FORMAT, VERSION, Policy, policy_fields, read_program
from tessella.mdp.rule_tree import RuleTree, node_to_json
from tessella.rules.explain import explain
from tessella.rules.export.export import ExportedFile, export
from tessella.rules.export.export_context import OffGrid
from tessella.rules.loss_target import PER_PERIOD
from tessella.rules.rule_class import Candidate, pareto_front

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


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """A rule that was found.

    Attributes:
        kind: the name of its class.
        size: numbers stored.
        loss: in the units of the loss target; not certified.
        candidate: the rule.
        table: (S,) its actions.
    """

    kind: str
    size: int
    loss: float
    candidate: Candidate = field(repr=False)
    table: NDArray[np.int32] = field(repr=False)

    def build_tree(self, grid: StateGrid) -> RuleTree:
        return self.candidate.build_tree(grid)


@dataclass(frozen=True)
class ClassOutcome:
    """What became of one class in a search.

    Attributes:
        kind: its name.
        size: of its smallest rule that meets the loss target; None if none was found.
        size_needed: no rule of the class with fewer numbers meets the loss target; 0 if nothing is
            proven.
        explanation: why the class is out or not proven, how far the search went, and what may help.
    """

    kind: str
    size: int | None
    size_needed: int
    explanation: str

    def __str__(self) -> str:
        size_text = counted(self.size, "number") if self.size is not None else "none found"
        bound_text = (
            f", at least {self.size_needed} needed" if self.size_needed and self.size else ""
        )
        return f"{self.kind}: {size_text}{bound_text}" + (
            f" ({self.explanation})" if self.explanation else ""
        )


@dataclass(frozen=True, eq=False)
class Frontier:
    """The rules that no smaller one undercuts, over all classes.

    Attributes:
        points: by size, each with a smaller loss than all before.
        all_points: all rules that were evaluated, the best of each class and size.
        outcomes: what became of each class.
    """

    points: tuple[FrontierPoint, ...]
    all_points: tuple[FrontierPoint, ...] = field(repr=False)
    outcomes: tuple[ClassOutcome, ...] = ()

    def within(self, loss: float) -> FrontierPoint | None:
        """The smallest rule found whose loss is at most this."""
        return next((point for point in self.points if point.loss <= loss), None)

    def of_class(self, kind: str) -> tuple[FrontierPoint, ...]:
        """The frontier of one class."""
        points = (point for point in self.all_points if point.kind == kind)
        return tuple(pareto_front(points, "loss"))

    def __str__(self) -> str:
        lines = [f"{'numbers':>8} {'loss':>12}  class"]
        lines += [f"{p.size:>8,} {p.loss:>12.6g}  {p.kind}" for p in self.points]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Policy):
    """A policy that is a tree of a few numbers. Made by ``compress``.

    Attributes:
        kind: the class of rules that it comes from.
        size_needed: no smaller rule of its class meets the loss target; 0 if that is not proven.
        loss_target: the loss that it stays within, in words.
        certificate: what it loses, for the stand-alone checker; None for a rule from a file.
        frontier: the other rules that were found, size against loss.
        outcomes: what became of each class of rules: found, proven, ruled out and why.
        seconds: how long the search took.
        sentence: the rule in words, where its class has a sentence.
        facts: model, fingerprint and proven loss, as files name them.
        is_average: whether its losses are per period, the same from every start.
    """

    kind: str = ""
    size_needed: int = 0
    loss_target: str = ""
    certificate: Certificate | None = field(default=None, repr=False)
    frontier: Frontier = field(default_factory=lambda: Frontier((), ()), repr=False)
    outcomes: tuple[ClassOutcome, ...] = field(default=(), repr=False)
    seconds: float = 0.0
    sentence: str = ""
    facts: dict[str, Any] = field(default_factory=dict, repr=False)
    is_average: bool = False

    @property
    def tree(self) -> RuleTree:
        """What decides, in the form that exports read."""
        assert isinstance(self.rule, RuleTree)
        return self.rule

    @property
    def proven(self) -> bool:
        """Whether no smaller rule of its class meets the loss target."""
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
        about |= {"size": self.size, "size_needed": self.size_needed, "promise": self.loss_target}
        about |= {"words": self.sentence, "facts": self.facts, "action_name": self.action_name}
        about |= {"actions": actions_to_json(self.actions), "axes": axes, "seconds": self.seconds}
        try:
            tree_json = node_to_json(self.tree.root)
            text = json.dumps(about | {"program": tree_json}, indent=1) + "\n"
        except RecursionError:
            requirement = "a rule that is saved must not be nested so deeply; a table can hold it"
            raise FileError(requirement, value=f"it has {self.tree.depth:,} levels") from None
        with atomic_write(path) as part:
            part.write_text(text, encoding="utf-8")

    def export(self, path: str | Path, *, off_grid: OffGrid | None = None) -> ExportedFile:
        """Write it as something that a system runs, by the ending of ``path``: see ``export``."""
        return export(self, path, off_grid=off_grid)

    @staticmethod
    def load(path: str | Path) -> Rule:
        """A rule that ``save`` wrote; ``certify`` computes its certificate again."""
        content = read_json(path, WHAT)
        with read_errors(path, WHAT):
            about, _ = policy_fields(content, (RULE_FORMAT,))
            facts = read_field(content, "facts", "an object")
            _check_facts(facts)
            loss_target = read_field(content, "promise", "text")
            return Rule(
                rule=read_program(content, about["grid"], about["actions"]),
                kind=read_field(content, "kind", "text"),
                loss_target=loss_target,
                is_average=loss_target.endswith(PER_PERIOD),
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
