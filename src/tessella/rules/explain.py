"""A rule in plain sentences, with the names of axes and actions.

A tree becomes one line for each leaf, a split one line for each branch, both with the grid's own
values: "stock is at most 3", never "stock <= 3.5". What a path says twice about one axis it says
once: "stock is 4 to 7".
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tessella.errors import counted, format_value
from tessella.mdp.actions import describe_action, spoken
from tessella.mdp.rule_tree import (
    Exceptions,
    LabelSplit,
    Leaf,
    Lookup,
    Node,
    RuleTree,
    Split,
    children,
)
from tessella.rounding import round_up, round_up_percent
from tessella.rules.loss_target import describe_loss_reference

if TYPE_CHECKING:
    from tessella.rules.rule import Rule

EXPLANATION_MAX_LINES = 60  # lines, beyond which a rule is summed up


def explain(rule: Rule) -> str:
    """What a rule says, what it loses, and how small it could be."""
    text = rule.sentence or list_ways(rule.program, rule.actions, rule.action_name)
    return "\n".join(filter(None, [text, _describe_size(rule), _describe_loss(rule)]))


def list_ways(program: RuleTree, actions: tuple, action_name: str) -> str:
    """A rule tree line by line."""
    if isinstance(program.root, Leaf):
        return f"Always {spoken(action_name, actions[program.root.action])}."
    named = [describe_action(action_name, action) for action in actions]
    lines = list(describe_paths(program, named))
    if len(lines) > EXPLANATION_MAX_LINES:
        more = f"... and {len(lines) - EXPLANATION_MAX_LINES:,} more lines"
        lines = [*lines[:EXPLANATION_MAX_LINES], more]
    return "\n".join(lines)


def _describe_size(rule: Rule) -> str:
    text = f"It is of the class {rule.kind!r} and stores {counted(rule.size, 'number')}"
    if rule.proven:
        return text + ", and no rule of its class with fewer keeps the promise."
    if rule.size_needed:
        verb = "is" if rule.size_needed == 1 else "are"
        return text + f"; at least {rule.size_needed:,} {verb} needed in its class."
    return text + "; it is not proven that fewer would not do."


def _describe_loss(rule: Rule) -> str:
    if not rule.facts:
        return ""
    facts = rule.facts
    in_costs = rule.facts.get("told_in") == "costs"
    mean = facts["mean_loss"]
    worst = facts["worst_loss"]
    share = facts.get("relative_loss")
    relative = (
        ""
        if share is None
        else f" ({round_up_percent(share)} of {describe_loss_reference(in_costs)})"
    )
    comparison = f" more than the least possible{relative}" if in_costs else relative
    text = f"It {'costs' if in_costs else 'loses'} at most "
    if not mean and not worst:
        text = (
            f"It {'costs as little as possible' if in_costs else 'loses nothing'}: it is optimal."
        )
    elif rule.promise.endswith("per period"):
        unit = "unit of time" if "periods_per_time" in facts else "period"
        most = Decimal(facts.get("periods_per_time", 1)) * Decimal(mean)
        text += f"{round_up(most, 4)}{comparison} per {unit}."
    else:
        suffix = " more" if in_costs else ""
        text += f"{round_up(mean, 4)}{comparison} on average from the start and "
        text += f"{round_up(worst, 4)}{suffix} from the worst state."
    return f"{text}\nPromised was {rule.promise}."


def describe_paths(tree: RuleTree, action_names: list[str]) -> list[str]:
    """One line for each path through a rule tree."""
    lines: list[str] = []
    stack: list[tuple[Node, PathConditions]] = [(tree.root, ())]
    while stack:
        node, path = stack.pop()
        where = _format_where(tree, path)
        if isinstance(node, Leaf):
            lines.append(f"{action_names[node.action]} {where or 'everywhere'}")
        elif isinstance(node, Lookup):
            lines += _runs(tree, node, action_names, where)
        elif isinstance(node, Exceptions):
            for state, action in zip(node.places, node.actions, strict=True):
                state_where = _format_where(tree, (*path, _format_state(tree, state)))
                lines.append(f"{action_names[action]} {state_where}")
            stack.append((node.otherwise, (*path, "otherwise")))
        else:
            branches = zip(_list_branch_conditions(tree, node), children(node), strict=True)
            extended = (
                (child, _extend_path(tree, path, condition)) for condition, child in branches
            )
            stack += [
                (child, conditions) for child, conditions in extended if conditions is not None
            ][::-1]
    return lines


def _runs(program: RuleTree, node: Lookup, named: list[str], where: str) -> list[str]:
    """A line for each run: the states are read axis by axis, the last one fastest."""
    order = [program.grid.axis(name) for name in node.axes]
    firsts = np.unravel_index(node.starts, [program.grid.shape[k] for k in order])
    head = f"Read the states by {', then by '.join(node.axes)}, each in the order of its values"
    lines = [f"{head}{f', {where}' if where else ''}:"]
    for action, place in zip(node.actions, zip(*firsts, strict=True), strict=True):
        values = [program.grid.values[k].tolist()[i] for k, i in zip(order, place, strict=True)]
        state = ", ".join(f"{n}={format_value(v)}" for n, v in zip(node.axes, values, strict=True))
        lines.append(f"{named[action]} from {state} on")
    return lines


@dataclass(frozen=True)
class SumInterval:
    """``low < sum of weight x coordinate <= high``."""

    weights: tuple[tuple[str, float], ...]
    low: float
    high: float


@dataclass(frozen=True)
class LabelChoice:
    """A text axis has one of these labels."""

    axis: str
    labels: tuple[str, ...]


Condition = SumInterval | LabelChoice | str
PathConditions = tuple[Condition, ...]


def _list_branch_conditions(tree: RuleTree, node: Split | LabelSplit) -> list[Condition]:
    """The condition of each branch."""
    if isinstance(node, Split):
        ends = pairwise([-np.inf, *node.cuts, np.inf])
        return [SumInterval(node.weights, low, high) for low, high in ends]
    all_labels = tree.grid.values[tree.grid.axis(node.axis)].tolist()
    inside = tuple(label for label in all_labels if label in node.labels)
    outside = tuple(label for label in all_labels if label not in node.labels)
    return [LabelChoice(node.axis, inside), LabelChoice(node.axis, outside)]


def _extend_path(
    tree: RuleTree, path: PathConditions, condition: Condition
) -> PathConditions | None:
    """Conditions with one more, those about one thing joined; None if no state meets them all."""
    for i, existing in enumerate(path):
        intersection = _intersect(existing, condition)
        if intersection is not None:
            condition = intersection
            path = (*path[:i], *path[i + 1 :])
            break
    return (*path, condition) if _is_possible(tree, condition) else None


def _intersect(one: Condition, other: Condition) -> Condition | None:
    """Both conditions as one; None if they are about different things."""
    if (
        isinstance(one, SumInterval)
        and isinstance(other, SumInterval)
        and one.weights == other.weights
    ):
        return SumInterval(one.weights, max(one.low, other.low), min(one.high, other.high))
    if isinstance(one, LabelChoice) and isinstance(other, LabelChoice) and one.axis == other.axis:
        return LabelChoice(one.axis, tuple(label for label in one.labels if label in other.labels))
    return None


def _is_possible(tree: RuleTree, condition: Condition) -> bool:
    if isinstance(condition, LabelChoice):
        return bool(condition.labels)
    if isinstance(condition, str) or _single_axis(condition) is None:
        return isinstance(condition, str) or condition.low < condition.high
    return _axis_range(tree, condition) is not None


def _format_where(tree: RuleTree, path: PathConditions) -> str:
    return (
        f"where {' and '.join(_format_condition(tree, condition) for condition in path)}"
        if path
        else ""
    )


def _format_state(tree: RuleTree, index: tuple) -> str:
    values = zip(tree.grid.axes, index, strict=True)
    return ", ".join(f"{name}={format_value(value)}" for name, value in values)


def _format_condition(tree: RuleTree, condition: Condition) -> str:
    if isinstance(condition, str):
        return condition
    if isinstance(condition, LabelChoice):
        return f"{condition.axis} is {' or '.join(condition.labels)}"
    axis_range = _axis_range(tree, condition)
    low = condition.low
    high = condition.high
    if axis_range is None:
        return f"{_format_sum(condition.weights)} {_format_interval(low, high)}"
    return f"{_single_axis(condition)} {_format_axis_range(*axis_range, low, high)}"


def _single_axis(condition: SumInterval) -> str | None:
    """The axis of a sum that is a coordinate and nothing else."""
    (name, weight), *others = condition.weights
    return name if weight == 1.0 and not others else None


def _axis_range(tree: RuleTree, condition: SumInterval) -> tuple[str, str] | None:
    """The first and the last value of an axis that meets a condition."""
    name = _single_axis(condition)
    if name is None:
        return None
    values = tree.grid.numbers[tree.grid.axis(name)]
    inside = values[(values > condition.low) & (values <= condition.high)]
    return (
        (format_value(float(inside.min())), format_value(float(inside.max())))
        if inside.size
        else None
    )


def _format_axis_range(first: str, last: str, low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"is at most {last}" if np.isfinite(high) else "is any"
    return f"is at least {first}" if not np.isfinite(high) else f"is {first} to {last}"


def _format_interval(low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"is below {format_value(high)}"
    return (
        f"is above {format_value(low)}"
        if not np.isfinite(high)
        else f"is {format_value(low)} to {format_value(high)}"
    )


def _format_sum(weights: tuple[tuple[str, float], ...]) -> str:
    text = ""
    for name, weight in weights:
        magnitude = "" if abs(weight) == 1 else f"{format_value(abs(weight))} "
        sign = ("- " if weight < 0 else "+ ") if text else ("-" if weight < 0 else "")
        text += f" {sign}{magnitude}{name}" if text else f"{sign}{magnitude}{name}"
    return text
