"""A rule in plain sentences, with the names of axes and actions.

A tree becomes one line for each leaf, a split one line for each branch, both with the grid's own
values: "stock at most 3", never "stock <= 3.5".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tessella.errors import shown
from tessella.mdp.actions import described
from tessella.rules.program import Among, Choose, Except, Lookup, Node, Program, Split

if TYPE_CHECKING:
    from tessella.rules.rule import Rule

MANY = 60  # lines, beyond which a rule is summed up


def explain(rule: Rule) -> str:
    """What a rule says, what it loses, and how small it could be."""
    said = rule.words or _listed(rule.program, rule.actions, rule.action_name)
    return "\n".join(filter(None, [said, _size(rule), _loss(rule)]))


def _listed(program: Program, actions: tuple, action_name: str) -> str:
    named = [described(action_name, action) for action in actions]
    lines = list(sentences(program, named))
    if len(lines) > MANY:
        more = f"... and {len(lines) - MANY:,} more lines"
        lines = [*lines[:MANY], more]
    return "\n".join(lines)


def _size(rule: Rule) -> str:
    text = f"It is of the class {rule.kind!r} and stores {rule.size:,} number"
    text += "" if rule.size == 1 else "s"
    if rule.proven:
        return text + ", and no rule of its class with fewer keeps the promise."
    if rule.size_needed:
        return text + f"; at least {rule.size_needed:,} are needed in its class."
    return text + "; it is not proven that fewer would not do."


def _loss(rule: Rule) -> str:
    if not rule.facts:
        return ""
    mean, worst = rule.facts["mean_loss"], rule.facts["worst_loss"]
    share = rule.facts.get("relative_loss")
    relative = "" if share is None else f" ({share:.3%} of the optimal value)"
    text = f"It loses at most {mean:.6g}{relative} "
    if rule.promise.endswith("per period"):
        text += "per period."
    else:
        text += f"on average from the start and {worst:.6g} from the worst state."
    return f"{text}\nPromised was {rule.promise}."


def sentences(program: Program, named: list[str]) -> list[str]:
    """One line for each way through a program."""
    lines: list[str] = []
    _walk(program, program.root, [], named, lines)
    return lines


def _walk(program: Program, node: Node, so_far: list[str], named: list[str], lines: list) -> None:
    if isinstance(node, Choose):
        lines.append(f"{named[node.action]} {_where(so_far)}")
    elif isinstance(node, Split):
        for j, branch in enumerate(node.branches):
            condition = _between(program, node, j)
            if condition is not None:
                _walk(program, branch, [*so_far, condition], named, lines)
    elif isinstance(node, Among):
        labels = " or ".join(node.labels)
        rest = [
            v for v in program.grid.values[program.grid.axis(node.axis)] if v not in node.labels
        ]
        _walk(program, node.inside, [*so_far, f"{node.axis} is {labels}"], named, lines)
        other = f"{node.axis} is {' or '.join(map(str, rest))}"
        _walk(program, node.outside, [*so_far, other], named, lines)
    elif isinstance(node, Except):
        for place, action in zip(node.places, node.actions, strict=True):
            values = zip(program.grid.axes, place, strict=True)
            at = ", ".join(f"{name}={shown(value)}" for name, value in values)
            lines.append(f"{named[action]} {_where([*so_far, at])}")
        _walk(program, node.otherwise, [*so_far, "otherwise"], named, lines)
    elif isinstance(node, Lookup):
        kept = f"a table of {len(node.starts):,} runs over {' x '.join(node.axes)}"
        lines.append(f"{kept} {_where(so_far)}".rstrip())


def _where(conditions: list[str]) -> str:
    return f"where {' and '.join(conditions)}" if conditions else "everywhere"


def _between(program: Program, node: Split, branch: int) -> str | None:
    """The condition of a branch; None if no state of the grid meets it."""
    low = node.cuts[branch - 1] if branch else -np.inf
    high = node.cuts[branch] if branch < len(node.cuts) else np.inf
    if low >= high:
        return None
    if len(node.weights) == 1 and node.weights[0][1] == 1.0:
        name = node.weights[0][0]
        inside = _inside(program.grid.numbers[program.grid.axis(name)], low, high)
        return None if inside is None else f"{name} {_range(*inside, low, high)}"
    return f"{_sum(node)} {_open(low, high)}"


def _inside(values: np.ndarray, low: float, high: float) -> tuple[str, str] | None:
    within = values[(values > low) & (values <= high)]
    return (shown(float(within.min())), shown(float(within.max()))) if within.size else None


def _range(first: str, last: str, low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"at most {last}" if np.isfinite(high) else "any"
    return f"at least {first}" if not np.isfinite(high) else f"{first} to {last}"


def _open(low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"is below {shown(high)}"
    return (
        f"is above {shown(low)}" if not np.isfinite(high) else f"is {shown(low)} to {shown(high)}"
    )


def _sum(node: Split) -> str:
    text = ""
    for name, weight in node.weights:
        size = "" if abs(weight) == 1 else f"{shown(abs(weight))} "
        sign = ("- " if weight < 0 else "+ ") if text else ("-" if weight < 0 else "")
        text += f" {sign}{size}{name}" if text else f"{sign}{size}{name}"
    return text
