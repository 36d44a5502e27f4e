"""A rule in plain sentences, with the names of axes and actions.

A tree becomes one line for each leaf, a split one line for each branch, both with the grid's own
values: "stock is at most 3", never "stock <= 3.5". What a way says twice about one axis it says
once: "stock is 4 to 7".
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tessella.errors import counted, shown
from tessella.mdp.actions import described, spoken
from tessella.mdp.program import Among, Choose, Except, Lookup, Node, Program, Split, children
from tessella.rounding import round_up, round_up_percent
from tessella.rules.promise import optimum

if TYPE_CHECKING:
    from tessella.rules.rule import Rule

MANY = 60  # lines, beyond which a rule is summed up


def explain(rule: Rule) -> str:
    """What a rule says, what it loses, and how small it could be."""
    said = rule.words or list_ways(rule.program, rule.actions, rule.action_name)
    return "\n".join(filter(None, [said, _size(rule), _loss(rule)]))


def list_ways(program: Program, actions: tuple, action_name: str) -> str:
    """A program line by line."""
    if isinstance(program.root, Choose):
        return f"Always {spoken(action_name, actions[program.root.action])}."
    named = [described(action_name, action) for action in actions]
    lines = list(sentences(program, named))
    if len(lines) > MANY:
        more = f"... and {len(lines) - MANY:,} more lines"
        lines = [*lines[:MANY], more]
    return "\n".join(lines)


def _size(rule: Rule) -> str:
    text = f"It is of the class {rule.kind!r} and stores {counted(rule.size, 'number')}"
    if rule.proven:
        return text + ", and no rule of its class with fewer keeps the promise."
    if rule.size_needed:
        verb = "is" if rule.size_needed == 1 else "are"
        return text + f"; at least {rule.size_needed:,} {verb} needed in its class."
    return text + "; it is not proven that fewer would not do."


def _loss(rule: Rule) -> str:
    if not rule.facts:
        return ""
    facts, costs = rule.facts, rule.facts.get("told_in") == "costs"
    mean, worst, share = facts["mean_loss"], facts["worst_loss"], facts.get("relative_loss")
    relative = "" if share is None else f" ({round_up_percent(share)} of {optimum(costs)})"
    more = f" more than the least possible{relative}" if costs else relative
    text = f"It {'costs' if costs else 'loses'} at most "
    if not mean and not worst:
        text = f"It {'costs as little as possible' if costs else 'loses nothing'}: it is optimal."
    elif rule.promise.endswith("per period"):
        unit = "unit of time" if "periods_per_time" in facts else "period"
        most = Decimal(facts.get("periods_per_time", 1)) * Decimal(mean)
        text += f"{round_up(most, 4)}{more} per {unit}."
    else:
        beyond = " more" if costs else ""
        text += f"{round_up(mean, 4)}{more} on average from the start and "
        text += f"{round_up(worst, 4)}{beyond} from the worst state."
    return f"{text}\nPromised was {rule.promise}."


def sentences(program: Program, named: list[str]) -> list[str]:
    """One line for each way through a program."""
    lines: list[str] = []
    waiting: list[tuple[Node, Met]] = [(program.root, ())]
    while waiting:
        node, met = waiting.pop()
        where = _where(program, met)
        if isinstance(node, Choose):
            lines.append(f"{named[node.action]} {where or 'everywhere'}")
        elif isinstance(node, Lookup):
            lines += _runs(program, node, named, where)
        elif isinstance(node, Except):
            for place, action in zip(node.places, node.actions, strict=True):
                lines.append(f"{named[action]} {_where(program, (*met, _state(program, place)))}")
            waiting.append((node.otherwise, (*met, "otherwise")))
        else:
            below = zip(_conditions(program, node), children(node), strict=True)
            further = ((child, _also(program, met, more)) for more, child in below)
            waiting += [(child, both) for child, both in further if both is not None][::-1]
    return lines


def _runs(program: Program, node: Lookup, named: list[str], where: str) -> list[str]:
    """A line for each run: the states are read axis by axis, the last one fastest."""
    order = [program.grid.axis(name) for name in node.axes]
    firsts = np.unravel_index(node.starts, [program.grid.shape[k] for k in order])
    head = f"Read the states by {', then by '.join(node.axes)}, each in the order of its values"
    lines = [f"{head}{f', {where}' if where else ''}:"]
    for action, place in zip(node.actions, zip(*firsts, strict=True), strict=True):
        values = [program.grid.values[k].tolist()[i] for k, i in zip(order, place, strict=True)]
        state = ", ".join(f"{n}={shown(v)}" for n, v in zip(node.axes, values, strict=True))
        lines.append(f"{named[action]} from {state} on")
    return lines


@dataclass(frozen=True)
class Within:
    """``low < sum of weight x coordinate <= high``."""

    weights: tuple[tuple[str, float], ...]
    low: float
    high: float


@dataclass(frozen=True)
class OneOf:
    """A text axis has one of these labels."""

    axis: str
    labels: tuple[str, ...]


Condition = Within | OneOf | str
Met = tuple[Condition, ...]


def _conditions(program: Program, node: Split | Among) -> list[Condition]:
    """The condition of each branch."""
    if isinstance(node, Split):
        ends = pairwise([-np.inf, *node.cuts, np.inf])
        return [Within(node.weights, low, high) for low, high in ends]
    every = program.grid.values[program.grid.axis(node.axis)].tolist()
    inside = tuple(label for label in every if label in node.labels)
    outside = tuple(label for label in every if label not in node.labels)
    return [OneOf(node.axis, inside), OneOf(node.axis, outside)]


def _also(program: Program, met: Met, more: Condition) -> Met | None:
    """Conditions with one more, those about one thing joined; None if no state meets them all."""
    for i, known in enumerate(met):
        joined = _joined(known, more)
        if joined is not None:
            more, met = joined, (*met[:i], *met[i + 1 :])
            break
    return (*met, more) if _possible(program, more) else None


def _joined(one: Condition, other: Condition) -> Condition | None:
    """Both conditions as one; None if they are about different things."""
    if isinstance(one, Within) and isinstance(other, Within) and one.weights == other.weights:
        return Within(one.weights, max(one.low, other.low), min(one.high, other.high))
    if isinstance(one, OneOf) and isinstance(other, OneOf) and one.axis == other.axis:
        return OneOf(one.axis, tuple(x for x in one.labels if x in other.labels))
    return None


def _possible(program: Program, condition: Condition) -> bool:
    if isinstance(condition, OneOf):
        return bool(condition.labels)
    if isinstance(condition, str) or _axis(condition) is None:
        return isinstance(condition, str) or condition.low < condition.high
    return _inside(program, condition) is not None


def _where(program: Program, met: Met) -> str:
    return f"where {' and '.join(_said(program, one) for one in met)}" if met else ""


def _state(program: Program, place: tuple) -> str:
    values = zip(program.grid.axes, place, strict=True)
    return ", ".join(f"{name}={shown(value)}" for name, value in values)


def _said(program: Program, condition: Condition) -> str:
    if isinstance(condition, str):
        return condition
    if isinstance(condition, OneOf):
        return f"{condition.axis} is {' or '.join(condition.labels)}"
    inside, low, high = _inside(program, condition), condition.low, condition.high
    if inside is None:
        return f"{_sum(condition.weights)} {_open(low, high)}"
    return f"{_axis(condition)} {_range(*inside, low, high)}"


def _axis(condition: Within) -> str | None:
    """The axis of a sum that is a coordinate and nothing else."""
    (name, weight), *others = condition.weights
    return name if weight == 1.0 and not others else None


def _inside(program: Program, condition: Within) -> tuple[str, str] | None:
    """The first and the last value of an axis that meets a condition."""
    name = _axis(condition)
    if name is None:
        return None
    values = program.grid.numbers[program.grid.axis(name)]
    within = values[(values > condition.low) & (values <= condition.high)]
    return (shown(float(within.min())), shown(float(within.max()))) if within.size else None


def _range(first: str, last: str, low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"is at most {last}" if np.isfinite(high) else "is any"
    return f"is at least {first}" if not np.isfinite(high) else f"is {first} to {last}"


def _open(low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"is below {shown(high)}"
    return (
        f"is above {shown(low)}" if not np.isfinite(high) else f"is {shown(low)} to {shown(high)}"
    )


def _sum(weights: tuple[tuple[str, float], ...]) -> str:
    text = ""
    for name, weight in weights:
        size = "" if abs(weight) == 1 else f"{shown(abs(weight))} "
        sign = ("- " if weight < 0 else "+ ") if text else ("-" if weight < 0 else "")
        text += f" {sign}{size}{name}" if text else f"{sign}{size}{name}"
    return text
