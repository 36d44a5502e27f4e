"""A rule in plain sentences, with the names of axes and actions.

A tree becomes one line for each leaf, a split one line for each branch, both with the grid's own
values: "stock is at most 3", never "stock <= 3.5". What a path says twice about one axis it says
once: "stock is 4 to 7".
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from tessella.errors import counted, format_value
from tessella.mdp.actions import describe_action, spoken
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Lookup, Node, RuleTree, Split
from tessella.rounding import round_up, round_up_percent
from tessella.rules.export.comparisons import (
    Condition,
    LabelSet,
    SumRange,
    add_condition,
    is_possible,
    iterate_branches,
    single_axis,
)
from tessella.rules.loss_target import describe_loss_reference
from tessella.rules.rule_class import format_weighted_sum

if TYPE_CHECKING:
    from tessella.rules.rule import Rule

EXPLANATION_MAX_LINES = 60  # lines, beyond which a rule is summed up


def explain(rule: Rule) -> str:
    """The decisions of a rule, what it loses, and how small it could be."""
    text = rule.sentence or describe_tree(rule.tree, rule.actions, rule.action_name)
    return "\n".join(filter(None, [text, _describe_size(rule), _describe_loss(rule)]))


def describe_tree(tree: RuleTree, actions: tuple, action_name: str) -> str:
    """A rule tree line by line."""
    if isinstance(tree.root, Leaf):
        return f"Always {spoken(action_name, actions[tree.root.action])}."
    named = [describe_action(action_name, action) for action in actions]
    lines = list(describe_paths(tree, named))
    if len(lines) > EXPLANATION_MAX_LINES:
        more = f"... and {len(lines) - EXPLANATION_MAX_LINES:,} more lines"
        lines = [*lines[:EXPLANATION_MAX_LINES], more]
    return "\n".join(lines)


def _describe_size(rule: Rule) -> str:
    text = f"It is of the class {rule.kind!r} and stores {counted(rule.size, 'number')}"
    if rule.proven:
        return text + ", and no rule of its class with fewer meets the loss target."
    if rule.size_needed:
        verb = "is" if rule.size_needed == 1 else "are"
        return text + f"; at least {rule.size_needed:,} {verb} needed in its class."
    return text + "; it is not proven that fewer would not do."


def _describe_loss(rule: Rule) -> str:
    if not rule.facts:
        return ""
    is_optimal = not rule.facts["mean_loss"] and not rule.facts["worst_loss"]
    text = _describe_no_loss(rule) if is_optimal else _describe_loss_bounds(rule)
    return f"{text}\nThe target was {rule.loss_target}."


def _is_stated_in_costs(rule: Rule) -> bool:
    return rule.facts.get("told_in") == "costs"


def _describe_no_loss(rule: Rule) -> str:
    verb = "costs as little as possible" if _is_stated_in_costs(rule) else "loses nothing"
    return f"It {verb}: it is optimal."


def _describe_loss_bounds(rule: Rule) -> str:
    facts = rule.facts
    in_costs = _is_stated_in_costs(rule)
    share = facts.get("relative_loss")
    reference = describe_loss_reference(in_costs)
    comparison = "" if share is None else f" ({round_up_percent(share)} of {reference})"
    if in_costs:
        comparison = f" more than the least possible{comparison}"
    text = f"It {'costs' if in_costs else 'loses'} at most "
    if rule.is_average:
        unit = "unit of time" if "periods_per_time" in facts else "period"
        loss = Decimal(facts.get("periods_per_time", 1)) * Decimal(facts["mean_loss"])
        return f"{text}{round_up(loss, 4)}{comparison} per {unit}."
    worst = f"{round_up(facts['worst_loss'], 4)}{' more' if in_costs else ''}"
    mean = f"{round_up(facts['mean_loss'], 4)}{comparison}"
    return f"{text}{mean} on average from the start and {worst} from the worst state."


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
            lines += _describe_runs(tree, node, action_names, where)
        elif isinstance(node, Exceptions):
            for state, action in zip(node.places, node.actions, strict=True):
                state_where = _format_where(tree, (*path, _format_state(tree, state)))
                lines.append(f"{action_names[action]} {state_where}")
            stack.append((node.otherwise, (*path, "otherwise")))
        else:
            stack += [
                (child, conditions)
                for condition, child in reversed(_list_branches(tree, node))
                if _has_states(tree, conditions := add_condition(path, condition))
            ]
    return lines


def _describe_runs(tree: RuleTree, node: Lookup, action_names: list[str], where: str) -> list[str]:
    """A line for each run: the states are read axis by axis, the last one fastest."""
    order = [tree.grid.axis(name) for name in node.axes]
    firsts = np.unravel_index(node.starts, [tree.grid.shape[k] for k in order])
    head = f"Read the states by {', then by '.join(node.axes)}, each in the order of its values"
    lines = [f"{head}{f', {where}' if where else ''}:"]
    for action, place in zip(node.actions, zip(*firsts, strict=True), strict=True):
        values = [tree.grid.values[k].tolist()[i] for k, i in zip(order, place, strict=True)]
        state = ", ".join(f"{n}={format_value(v)}" for n, v in zip(node.axes, values, strict=True))
        lines.append(f"{action_names[action]} from {state} on")
    return lines


PathConditions = tuple[Condition | str, ...]  # texts for states by name, and "otherwise"


def _list_branches(tree: RuleTree, node: Split | LabelSplit) -> list[tuple[Condition, Node]]:
    """The branches with their conditions, labels in the order of their axis."""
    if isinstance(node, Split):
        return list(iterate_branches(node))
    labels = tree.grid.values[tree.grid.axis(node.axis)].tolist()
    inside = tuple(label for label in labels if label in node.labels)
    outside = tuple(label for label in labels if label not in node.labels)
    return [
        (LabelSet(node.axis, inside), node.inside),
        (LabelSet(node.axis, outside), node.outside),
    ]


def _has_states(tree: RuleTree, path: PathConditions) -> bool:
    return all(_is_possible(tree, condition) for condition in path)


def _is_possible(tree: RuleTree, condition: Condition | str) -> bool:
    """Whether some state of the grid may meet a condition."""
    if isinstance(condition, str):
        return True
    if isinstance(condition, SumRange) and single_axis(condition.weights) is not None:
        return _axis_range(tree, condition) is not None
    return is_possible(condition)


def _format_where(tree: RuleTree, path: PathConditions) -> str:
    tests = " and ".join(_format_condition(tree, condition) for condition in path)
    return f"where {tests}" if tests else ""


def _format_state(tree: RuleTree, index: tuple) -> str:
    values = zip(tree.grid.axes, index, strict=True)
    return ", ".join(f"{name}={format_value(value)}" for name, value in values)


def _format_condition(tree: RuleTree, condition: Condition | str) -> str:
    if isinstance(condition, str):
        return condition
    if isinstance(condition, LabelSet):
        return f"{condition.axis} is {' or '.join(condition.labels)}"
    axis_range = _axis_range(tree, condition)
    if axis_range is None:
        operand = format_weighted_sum(condition.weights)
        return f"{operand} {_format_interval(condition.low, condition.high)}"
    first, last = axis_range
    axis = single_axis(condition.weights)
    if not np.isfinite(condition.low):
        return f"{axis} is at most {last}"
    if not np.isfinite(condition.high):
        return f"{axis} is at least {first}"
    return f"{axis} is {first} to {last}"


def _axis_range(tree: RuleTree, condition: SumRange) -> tuple[str, str] | None:
    """The first and the last value of an axis that meets a condition; None for other sums."""
    name = single_axis(condition.weights)
    if name is None:
        return None
    values = tree.grid.numbers[tree.grid.axis(name)]
    inside = values[(values > condition.low) & (values <= condition.high)]
    if not inside.size:
        return None
    return format_value(float(inside.min())), format_value(float(inside.max()))


def _format_interval(low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"is below {format_value(high)}"
    if not np.isfinite(high):
        return f"is above {format_value(low)}"
    return f"is {format_value(low)} to {format_value(high)}"
