"""A rule, which is a small policy with a certificate, in sentences too; and the frontier of rules.

In sentences, a tree becomes one line for each leaf, a split one line for each branch, both with the
grid's own values: "stock is at most 3", never "stock <= 3.5". Two conditions of a
path on one axis become one: "stock is 4 to 7". Lines begin with the states that are exceptions: the
first line that applies holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.errors import FileError, counted, format_value
from tessella.files import NATURAL_NUMBER, read_field, read_json, wrap_read_errors, write_json
from tessella.mdp.actions import actions_to_json, describe_action, format_action
from tessella.mdp.policy import (
    RULE_FORMAT,
    VERSION,
    Policy,
    grid_to_json,
    read_policy_fields,
    read_rule_tree,
)
from tessella.mdp.rule_tree import (
    Exceptions,
    Leaf,
    Lookup,
    Node,
    RuleTree,
    node_to_json,
)
from tessella.rounding import format_percent_bound, round_up
from tessella.rules.comparisons import (
    Condition,
    Conditions,
    LabelSet,
    SumRange,
    add_condition,
    get_single_axis,
    is_possible,
    list_branches,
)
from tessella.rules.export.export import ExportedFile, export
from tessella.rules.export.export_context import OffGrid
from tessella.rules.loss_target import AVERAGE_UNITS, describe_loss_reference
from tessella.rules.rule_class import (
    Candidate,
    find_pareto_front,
    format_state,
    format_weighted_sum,
)
from tessella.support.text import align_columns

EXPLANATION_MAX_LINES = 60  # lines, beyond which a rule is summed up
RULE_FILE_NOUN = "a saved rule"  # what messages call such a file
FACT_TYPES = {
    "model": "text",
    "fingerprint": "text",
    "mean_loss": "a number",
    "relative_loss": "a number or null",
    "worst_loss": "a number",
    "certified": "true or false",
    "stated_in": "text",
    "loss_limit": "a number",
    "constraints": "text",
    "periods_per_time": "a number",
    "parameters": "an object",
}


def describe_tree(tree: RuleTree, actions: tuple, action_name: str) -> str:
    """A rule tree line by line."""
    named = [describe_action(action_name, action) for action in actions]
    lines = describe_paths(tree, named)
    for action, text in zip(actions, named, strict=True):
        if lines == [f"{text} everywhere"]:
            return f"Always {format_action(action_name, action)}."
    if any(isinstance(node, Exceptions) for node in tree.iterate_nodes()):
        lines.insert(0, "Take the first line that applies.")
    if len(lines) > EXPLANATION_MAX_LINES:
        more = f"... and {len(lines) - EXPLANATION_MAX_LINES:,} more lines"
        lines = [*lines[:EXPLANATION_MAX_LINES], more]
    return "\n".join(lines)


def _describe_size(rule: Rule) -> str:
    text = f"Rule type: {rule.kind}, {counted(rule.size, 'parameter')}."
    if rule.proven:
        return f"{text} No rule of this type with fewer parameters meets the limit."
    if rule.size_needed > 1:
        return f"{text} A rule of this type needs at least {rule.size_needed:,} parameters."
    return f"{text} Not proven minimal."


def _describe_loss(rule: Rule) -> str:
    if not rule.facts:
        return ""
    in_costs = rule.facts.get("stated_in") == "costs"
    if "constraints" in rule.facts:
        text = _describe_constrained_loss(rule, in_costs)
    elif rule.facts["mean_loss"] or rule.facts["worst_loss"]:
        text = _describe_loss_bounds(rule, in_costs)
    else:
        text = "It is optimal."
    return f"{text}\nRequested limit: {rule.loss_target}."


def _describe_constrained_loss(rule: Rule, in_costs: bool) -> str:
    facts = rule.facts
    share = facts["relative_loss"]
    relative = "" if share is None else f" ({format_percent_bound(share)} of the bound)"
    verb, comparison = ("costs", "more") if in_costs else ("earns", "less")
    return (
        f"Proven: {facts['constraints']}.\n"
        f"It {verb} at most {_format_mean_loss(rule)} {comparison}{relative} "
        "than any policy that satisfies the constraints, random ones included."
    )


def _format_mean_loss(rule: Rule) -> str:
    """``0.08054``, ``0.2042 per unit of time``: the bound on the mean loss, rounded up."""
    facts = rule.facts
    if not rule.is_average:
        return round_up(facts["mean_loss"], 4)
    unit = "unit of time" if "periods_per_time" in facts else "period"
    loss = Decimal(facts.get("periods_per_time", 1)) * Decimal(facts["mean_loss"])
    return f"{round_up(loss, 4)} per {unit}"


def _describe_loss_bounds(rule: Rule, in_costs: bool) -> str:
    facts = rule.facts
    share = facts.get("relative_loss")
    is_optimal = facts.get("loss_limit") == 0
    text = "It is optimal, as far as the solution is exact. " if is_optimal else ""
    text += f"Guaranteed {'extra cost' if in_costs else 'loss'}: "
    start = "" if rule.is_average else " on average from the start"
    text += f"at most {_format_mean_loss(rule)}{start}"
    if share is not None:
        percent = format_percent_bound(share).removeprefix("at most ")
        text += f" ({percent} of {describe_loss_reference(in_costs)})"
    if rule.is_average:
        return f"{text}."
    return f"{text}, and at most {round_up(facts['worst_loss'], 4)} from the worst state."


def describe_paths(tree: RuleTree, action_names: list[str]) -> list[str]:
    """One line for each path through a rule tree."""
    lines: list[str] = []
    stack: list[tuple[Node, Conditions]] = [(tree.root, ())]
    while stack:
        node, path = stack.pop()
        where = _format_where(tree, path)
        if isinstance(node, Leaf):
            otherwise = " elsewhere" if lines else " everywhere"
            lines.append(f"{action_names[node.action]}{where or otherwise}")
        elif isinstance(node, Lookup):
            lines += _describe_runs(tree, node, action_names, where)
        elif isinstance(node, Exceptions):
            for state, action in zip(node.places, node.actions, strict=True):
                place = f"{where} and" if where else " where"
                state_text = format_state(tree.grid.axes, state)
                lines.append(f"{action_names[action]}{place} {state_text}")
            stack.append((node.otherwise, path))
        else:
            paths = [
                (child, add_condition(path, condition))
                for condition, child in list_branches(tree.grid, node)
            ]
            stack += [
                (child, conditions)
                for child, conditions in reversed(paths)
                if all(_is_possible(tree, each) for each in conditions)
            ]
    return lines


def _describe_runs(tree: RuleTree, node: Lookup, action_names: list[str], where: str) -> list[str]:
    """A table with a line for each run: the states are read axis by axis, the last one fastest."""
    grid = tree.grid
    order = [grid.axis(name) for name in node.axes]
    positions = np.unravel_index(node.starts, [grid.lengths[k] for k in order])
    columns = [
        [name, *map(format_value, grid.values[k][at].tolist())]
        for name, k, at in zip(node.axes, order, positions, strict=True)
    ]
    columns.append(["", *(action_names[action] for action in node.actions)])
    head = f"Sort the states{where} by {', then '.join(node.axes)}"
    if len(order) > 1:
        head += ", each in the order of its values"
    table = align_columns(list(zip(*columns, strict=True)), "r" * len(order), indent="  ")
    return [f"{head}. Each line holds from its state up to the next line's:", *table]


def _is_possible(tree: RuleTree, condition: Condition) -> bool:
    """Whether some state of the grid may meet a condition."""
    if isinstance(condition, LabelSet):
        return is_possible(condition)
    if get_single_axis(condition.weights) is not None:
        return _select_inside(tree, condition).size > 0
    least, largest = _bound_sum(tree, condition)
    return is_possible(condition) and condition.low < largest and condition.high >= least


def _format_where(tree: RuleTree, path: Conditions) -> str:
    """`` where stock is 3 and season is dry``, or nothing."""
    texts = (_format_condition(tree, condition) for condition in path)
    tests = " and ".join(filter(None, texts))
    return f" where {tests}" if tests else ""


def _format_condition(tree: RuleTree, condition: Condition) -> str:
    """A condition in words; empty where it holds in every state."""
    if isinstance(condition, LabelSet):
        return _format_labels(tree, condition)
    axis = get_single_axis(condition.weights)
    if axis is None:
        return _format_sum_range(tree, condition)
    values = tree.grid.numbers[tree.grid.axis(axis)]
    inside = _select_inside(tree, condition)
    first, last = (format_value(float(x)) for x in (inside.min(), inside.max()))
    if len(inside) == len(values):
        return ""
    if first == last:
        return f"{axis} is {first}"
    if inside.min() == values.min():
        return f"{axis} is at most {last}"
    if inside.max() == values.max():
        return f"{axis} is at least {first}"
    return f"{axis} is {first} to {last}"


def _format_labels(tree: RuleTree, condition: LabelSet) -> str:
    """``season is dry or wet``; of three or more in a row ``weekday is Mon to Wed``."""
    labels = tree.grid.values[tree.grid.axis(condition.axis)].tolist()
    first = labels.index(condition.labels[0])
    is_row = tuple(labels[first : first + len(condition.labels)]) == condition.labels
    if len(condition.labels) == len(labels):
        return ""
    if is_row and len(condition.labels) > 2:
        return f"{condition.axis} is {condition.labels[0]} to {condition.labels[-1]}"
    return f"{condition.axis} is {' or '.join(condition.labels)}"


def _format_sum_range(tree: RuleTree, condition: SumRange) -> str:
    """``stock - 0.5 regime is below 3``; empty where no state of the grid is outside."""
    least, largest = _bound_sum(tree, condition)
    text = format_weighted_sum(condition.weights)
    low = condition.low if condition.low >= least else None
    high = condition.high if condition.high < largest else None
    if _has_whole_values(tree, condition):
        first = None if low is None else math.floor(low) + 1
        last = None if high is None else math.floor(high)
        return _format_range(text, first, last, "at least", "at most")
    return _format_range(text, low, high, "above", "below")


def _format_range(
    text: str, low: float | None, high: float | None, from_low: str, to_high: str
) -> str:
    """``x is 3 to 5``, or with one end alone ``x is at least 3``; empty without ends."""
    if low is None and high is None:
        return ""
    if high is None:
        return f"{text} is {from_low} {format_value(low)}"
    if low is None:
        return f"{text} is {to_high} {format_value(high)}"
    return f"{text} is {format_value(low)}" + (f" to {format_value(high)}" if low < high else "")


def _has_whole_values(tree: RuleTree, condition: SumRange) -> bool:
    """Whether a weighted sum is a whole number in every state."""
    terms = ((w, tree.grid.numbers[tree.grid.axis(name)]) for name, w in condition.weights)
    return all(w == round(w) and (values == np.rint(values)).all() for w, values in terms)


def _bound_sum(tree: RuleTree, condition: SumRange) -> tuple[float, float]:
    """The least and the largest value of a weighted sum on the grid."""
    terms = [w * tree.grid.numbers[tree.grid.axis(name)] for name, w in condition.weights]
    return float(sum(t.min() for t in terms)), float(sum(t.max() for t in terms))


def _select_inside(tree: RuleTree, condition: SumRange) -> NDArray[np.float64]:
    """The values of the single axis of a condition that meet it."""
    values = tree.grid.numbers[tree.grid.axis(condition.weights[0][0])]
    return values[(values > condition.low) & (values <= condition.high)]


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """The best rule of its class and size.

    Attributes:
        kind: the name of its class.
        size: parameters.
        loss: in the units of the loss target; not certified.
        candidate: the rule.
        table: (S,) its actions.
    """

    kind: str
    size: int
    loss: float
    candidate: Candidate = field(repr=False)
    table: NDArray[np.int32] = field(repr=False)


@dataclass(frozen=True)
class ClassOutcome:
    """The result of a search in one class.

    Attributes:
        kind: its name.
        size: of its smallest rule that meets the loss target, or of its smallest rule for a
            frontier; None if none was found.
        size_needed: no rule of the class with fewer numbers meets the loss target; 0 if nothing is
            proven.
        explanation: why the class is out or not proven, how far the search went, and what may help.
    """

    kind: str
    size: int | None
    size_needed: int
    explanation: str

    def __str__(self) -> str:
        text = "none found"
        if self.size is not None:
            text = counted(self.size, "parameter")
            text += f", at least {self.size_needed} needed" if self.size_needed else ""
        explanation = f" ({self.explanation})" if self.explanation else ""
        return f"{self.kind}: {text}{explanation}"


@dataclass(frozen=True, eq=False)
class Frontier:
    """The rules that lose less than every smaller one, over all classes.

    Attributes:
        points: by size, each with a smaller loss than all before.
        all_points: all rules that were evaluated, the best of each class and size.
        outcomes: what became of each class.
    """

    points: tuple[FrontierPoint, ...]
    all_points: tuple[FrontierPoint, ...] = field(repr=False)
    outcomes: tuple[ClassOutcome, ...] = ()

    def merge(self, other: Frontier) -> Frontier:
        """The rules of both, with these outcomes."""
        all_points = self.all_points + other.all_points
        front = find_pareto_front(all_points, "loss")
        return Frontier(tuple(front), all_points, self.outcomes)

    def within(self, loss: float) -> FrontierPoint | None:
        """The smallest rule found whose loss is at most this."""
        return next((point for point in self.points if point.loss <= loss), None)

    def of_class(self, kind: str) -> tuple[FrontierPoint, ...]:
        """The frontier of one class."""
        points = (point for point in self.all_points if point.kind == kind)
        return tuple(find_pareto_front(points, "loss"))

    def __str__(self) -> str:
        lines = [f"{'parameters':>10} {'loss':>12}  class"]
        lines += [f"{p.size:>10,} {p.loss:>12.6g}  {p.kind}" for p in self.points]
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
        """Its decisions, what it loses, and how small it could be, in plain sentences."""
        text = self.sentence or describe_tree(self.tree, self.actions, self.action_name)
        return "\n".join(filter(None, [text, _describe_size(self), _describe_loss(self)]))

    def __str__(self) -> str:
        return self.explain()

    def save(self, path: str | Path) -> None:
        """Write the rule itself as JSON, for ``Rule.load``: its tree, and what was proven."""
        about = {"format": RULE_FORMAT, "version": VERSION, "name": self.name, "kind": self.kind}
        about |= {
            "size": self.size,
            "size_needed": self.size_needed,
            "loss_target": self.loss_target,
        }
        about |= {"words": self.sentence, "facts": self.facts, "action_name": self.action_name}
        about |= {"actions": actions_to_json(self.actions), "seconds": self.seconds}
        about |= grid_to_json(self.grid)
        try:
            write_json(path, about | {"program": node_to_json(self.tree.root)}, indent=1)
        except RecursionError:
            requirement = "a rule that is saved must not be nested so deeply; a table can hold it"
            raise FileError(requirement, value=f"it has {self.tree.depth:,} levels") from None

    def export(self, path: str | Path, *, off_grid: OffGrid | None = None) -> ExportedFile:
        """Write it as something that a system runs, by the ending of ``path``: see ``export``."""
        return export(self, path, off_grid=off_grid)

    @staticmethod
    def load(path: str | Path) -> Rule:
        """A rule that ``save`` wrote; ``certify`` computes its certificate again."""
        content = read_json(path, RULE_FILE_NOUN)
        with wrap_read_errors(path, RULE_FILE_NOUN):
            about, _ = read_policy_fields(content, (RULE_FORMAT,))
            facts = read_field(content, "facts", "an object")
            _check_facts(facts)
            loss_target = read_field(content, "loss_target", "text")
            return Rule(
                rule=read_rule_tree(content, about["grid"], about["actions"]),
                kind=read_field(content, "kind", "text"),
                loss_target=loss_target,
                is_average=loss_target.endswith(AVERAGE_UNITS),
                sentence=read_field(content, "words", "text"),
                size_needed=read_field(content, "size_needed", NATURAL_NUMBER),
                seconds=float(read_field(content, "seconds", "a number")),
                facts=facts,
                **about,
            )


def _check_facts(facts: dict[str, Any]) -> None:
    """Reject facts that are not what the head of a file states: none, or losses at least."""
    worst = () if "constraints" in facts else ("worst_loss",)
    for name in facts.keys() | ({"mean_loss", *worst} if facts else ()):
        if name in FACT_TYPES:
            read_field(facts, name, FACT_TYPES[name])
