"""Rules read back from their sentences, by a reader that knows the words and not the tree.

    decide(text, state) -> the action's name and value, as the sentences say

A limit is a number with a slope at most (``6.5 - 0.38 x life1``), a level a sum of axes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NUMBER = r"-?\d[\d.e+-]*"
TOLERANCE = 1e-9
CAP = rf"(?:, at most (?P<cap>{NUMBER}) at once)?"
CHOICE = re.compile(
    rf"(?:order up to (?P<limit>.+?){CAP}: the|take the) (?P<end>largest|smallest) (?P<name>\w+)"
    rf"(?: of (?P<least>{NUMBER}) or)?(?: in lots of (?P<lot>{NUMBER}))? that (?:keeps|brings) "
    rf"(?P<level>.+?) (?:at or below|to) (?P<there>.+?)(?: or above)?"
    rf"(?:, at most (?P<other_cap>{NUMBER}) at once)?(?:, or (?P<none>.+?) if there is none)?$",
    re.IGNORECASE,
)
EXACT_CHOICES = (  # all that is lacking
    re.compile(
        rf"(?P<name>order) up to (?P<limit>[^:]+?){CAP}: raise (?P<level>.+) to that level",
        re.I,
    ),
    re.compile(rf"bring (?P<level>.+) up to (?P<limit>.+?) with (?P<name>\w+){CAP}", re.I),
    re.compile(rf"(?P<name>order) up to (?P<limit>[^:]+?){CAP}", re.I),
)
State = Mapping[str, float | str]


def decide(text: str, state: State, orders: list[float]) -> str:
    """``order 3``: what a rule's sentences say in a state, of actions that are ``order_sizes``."""
    text, _, exceptions = text.partition("\nExcept:\n")
    for line in exceptions.splitlines():
        action, _, where = line.partition(" where ")
        if all(_holds(part, state) for part in where.split(" and ")):
            return action.replace("=", " ")
    first = text.splitlines()[0]
    if first.startswith("Always "):
        return first[7:-1]
    if " while " in first:
        return _decide_threshold(first, state)
    if re.match(
        r"(Order up to|Take the (largest|smallest)|Bring|When|\(.*\) = \(.*\): when) ", first
    ):
        return _decide_order_up_to(first, state, orders)
    if first.startswith("Sort the states by "):
        return _decide_run(text, state)
    return _decide_first_line(text, state)


def _decide_threshold(line: str, state: State) -> str:
    high, where, low = re.fullmatch(r"(.+) while (.+); otherwise (.+)\.", line).groups()
    choice = high if _holds(where, state) else low
    if low == "do not":
        return f"{high.lower()} {int(choice == high)}"
    return choice[0].lower() + choice[1:]


def decide_components(text: str, state: State, orders: Mapping[str, list[float]]) -> dict:
    """Component to value, as the lines say that choose one after the other."""
    chosen: dict[str, float] = {}
    for line in text.splitlines()[: len(orders)]:
        pattern = rf"(?:^|with |Always |largest |smallest |, )(?P<name>{'|'.join(orders)})\b"
        name = re.search(pattern, line, re.IGNORECASE)["name"].lower()
        values = {**state, **chosen}
        answer = decide(line, values, orders[name])
        chosen[name] = float(answer.replace("=", " ").removeprefix(f"{name} "))
    return chosen


def _decide_order_up_to(line: str, state: State, orders: list[float]) -> str:
    line = re.sub(r"^\(\w, \w\) = \(.*?\): when", "When", line)
    split = re.fullmatch(r"(?:When (.+?), )?(.+?)(?:; otherwise (.+?))?\.(?: Here .+)?", line)
    where, choice, otherwise = split.groups()
    if where and not _holds(where, state):
        return otherwise
    exact = next(filter(None, (pattern.fullmatch(choice) for pattern in EXACT_CHOICES)), None)
    if exact is not None:
        level = exact.groupdict().get("level") or where.split(" is ")[0]
        missing = _evaluate(exact["limit"], state) - _evaluate(level, state)
        largest = float(exact["cap"] or max(orders))
        return f"{exact['name'].lower()} {round(min(max(missing, 0.0), largest), 9):g}"
    match = CHOICE.fullmatch(choice)
    return choice if match is None else _choose_order(match, state, orders)


def _choose_order(match: re.Match, state: State, orders: list[float]) -> str:
    """The largest order that keeps a level below a limit, or the smallest that reaches it."""
    limit = _evaluate(match["limit"] or match["there"], state)
    level = _evaluate(match["level"].removesuffix(f" + {match['name']}"), state)
    orders = _select_admissible(match, orders)
    if match["end"] == "largest":
        chosen = [order for order in orders if level + order <= limit + TOLERANCE][-1:]
    else:
        chosen = [order for order in orders if level + order >= limit - TOLERANCE][:1]
    return f"{match['name']} {chosen[0]:g}" if chosen else match["none"]


def _select_admissible(match: re.Match, orders: list[float]) -> list[float]:
    """Orders up to a cap, in lots."""
    cap = float(match["cap"] or match["other_cap"] or 9e9)
    orders = [order for order in orders if order <= cap]
    if not match["lot"]:
        return orders
    lot, least = float(match["lot"]), float(match["least"] or "nan")

    def is_admissible(order: float) -> bool:
        return order == least or abs(order / lot - round(order / lot)) < TOLERANCE

    return sorted(set(filter(is_admissible, orders)))


def _decide_run(text: str, state: State) -> str:
    """The last line of a table of runs that begins at a state or before it."""
    head, names, *lines = text.splitlines()
    axes = re.fullmatch(
        r"Sort the states by (.+?)(, each in the order of its values)?\. .+:", head
    )[1]
    assert names.split() == axes.split(", then ")
    position, choice = [float(state[name]) for name in names.split()], ""
    for line in lines:
        *place, action = line.split()
        if [float(part) for part in place] <= position:
            choice = action
    return choice.replace("=", " ")


def _decide_first_line(text: str, state: State) -> str:
    for line in text.splitlines():
        action, _, where = line.rstrip(".").partition(" where ")
        if line.startswith("Take the first line"):
            continue
        if not where:
            return re.sub(" (elsewhere|everywhere)$", "", action).replace("=", " ")
        ways = [way.split(" and ") for way in where.split("; or ")]
        if any(all(_holds(part, state) for part in way) for way in ways):
            return action.replace("=", " ")
    raise AssertionError(f"{text!r} says nothing of {dict(state)}")


def _holds(condition: str, state: State) -> bool:
    level, range_text = condition.split(" is ")
    value = _evaluate(level, state)
    ends = re.split(r" to ", range_text)
    if re.fullmatch(NUMBER, ends[0]):
        return float(ends[0]) - TOLERANCE <= value <= float(ends[-1]) + TOLERANCE
    word, limit = re.fullmatch(r"(at most|at least|below|above) (.+)", range_text).groups()
    if word in ("at most", "below"):
        return value <= _evaluate(limit, state) + TOLERANCE
    return value >= _evaluate(limit, state) - TOLERANCE


def _evaluate(text: str, state: State) -> float:
    """``6.5 - 0.38 x life1``, ``first + 0.9 second`` or ``stock`` in a state."""
    total = 0.0
    for sign, part in re.findall(r"(^-?|[+-] )([^+-]+?(?:e[+-]\d+[^+-]*?)?)(?= [+-] |$)", text):
        words = part.replace(" x ", " ").split()
        factor = -1.0 if sign.startswith("-") else 1.0
        for word in words:
            factor *= float(state[word]) if word in state else float(word)
        total += factor
    return total
