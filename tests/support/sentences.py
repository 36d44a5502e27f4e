"""Rules read back from their sentences, by a reader that knows the words and not the program.

    decide(text, state) -> the action's name and value, as the sentences say

A limit is a number with a slope at most (``6.5 - 0.38 x life1``), a level a sum of axes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NUMBER = r"-?\d[\d.e+-]*"
ROUNDING = 1e-9
WAY = re.compile(
    r"(?:order up to (?P<limit>.+?): the|take the) (?P<end>largest|smallest) (?P<name>\w+)"
    rf"(?: of (?P<least>{NUMBER}) or)?(?: in lots of (?P<lot>{NUMBER}))? that (?:keeps|brings) "
    r"(?P<level>.+?) (?:at or below|to) (?P<there>.+?)(?: or above)?(?:, or (?P<none>.+?) if there"
    r" is none)?$",
    re.IGNORECASE,
)
State = Mapping[str, float | str]


def decide(text: str, state: State, orders: list[float]) -> str:
    """``order 3``: what a rule's sentences say in a state, of actions that are ``order_sizes``."""
    first = text.splitlines()[0]
    if first.startswith("Always "):
        return first[7:-1]
    if " while " in first:
        return _threshold(first, state)
    if re.search(r"\b(keeps|brings)\b", first):
        return _order_up_to(first, state, orders)
    if first.startswith("Read the states by "):
        return _run(text, state)
    return _first_line(text, state)


def _threshold(line: str, state: State) -> str:
    high, where, low = re.fullmatch(r"(.+) while (.+); otherwise (.+)\.", line).groups()
    said = high if _holds(where, state) else low
    if low == "do not":
        return f"{high.lower()} {int(said == high)}"
    return said[0].lower() + said[1:]


def _order_up_to(line: str, state: State, orders: list[float]) -> str:
    split = re.fullmatch(r"(?:Where (.+?), )?(.+?)(?:; elsewhere (.+))?\.", line)
    where, way, elsewhere = split.groups()
    if where and not _holds(where, state):
        return elsewhere
    found = WAY.fullmatch(way)
    limit = _number(found["limit"] or found["there"], state)
    level = _number(found["level"].removesuffix(f" + {found['name']}"), state)
    if found["lot"]:
        lot, least = float(found["lot"]), float(found["least"] or "nan")
        whole = [order for order in orders if abs(order / lot - round(order / lot)) < ROUNDING]
        orders = sorted({*whole, *(order for order in orders if order == least)})
    if found["end"] == "largest":
        fit = [order for order in orders if level + order <= limit + ROUNDING][-1:]
    else:
        fit = [order for order in orders if level + order >= limit - ROUNDING][:1]
    return f"{found['name']} {fit[0]:g}" if fit else found["none"]


def _run(text: str, state: State) -> str:
    head, *lines = text.splitlines()
    axes = re.fullmatch(r"Read the states by (.+), each in the order of its values:", head)[1]
    here, said = [float(state[name]) for name in axes.split(", then by ")], ""
    for line in lines:
        action, place = re.fullmatch(r"(\S+) from (.+) on", line).groups()
        if [float(part.split("=")[1]) for part in place.split(", ")] <= here:
            said = action
    return said.replace("=", " ")


def _first_line(text: str, state: State) -> str:
    for line in text.splitlines():
        action, _, where = line.rstrip(".").partition(" where ")
        if line.startswith("Take the first line"):
            continue
        if not where:
            return action.removesuffix(" elsewhere").replace("=", " ")
        ways = [way.split(" and ") for way in where.split("; or ")]
        if any(all(_holds(part, state) for part in way) for way in ways):
            return action.replace("=", " ")
    raise AssertionError(f"{text!r} says nothing of {dict(state)}")


def _holds(condition: str, state: State) -> bool:
    level, said = condition.split(" is ")
    value = _number(level, state)
    ends = re.split(r" to ", said)
    if len(ends) == 2:
        return float(ends[0]) - ROUNDING <= value <= float(ends[1]) + ROUNDING
    word, limit = re.fullmatch(r"(at most|at least|below|above) (.+)", said).groups()
    if word in ("at most", "below"):
        return value <= _number(limit, state) + ROUNDING
    return value >= _number(limit, state) - ROUNDING


def _number(text: str, state: State) -> float:
    """``6.5 - 0.38 x life1``, ``first + 0.9 second`` or ``stock`` in a state."""
    total = 0.0
    for sign, part in re.findall(r"(^-?|[+-] )([^+-]+?(?:e[+-]\d+[^+-]*?)?)(?= [+-] |$)", text):
        words = part.replace(" x ", " ").split()
        factor = -1.0 if sign.startswith("-") else 1.0
        for word in words:
            factor *= float(state[word]) if word in state else float(word)
        total += factor
    return total
