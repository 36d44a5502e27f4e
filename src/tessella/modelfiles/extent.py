"""How large a model would be, reckoned before anything of it is worked out.

An expression is worked out for all combinations of the coordinates that it names, a distribution
for as many times its values, a jump or an event for all states and outcomes. Their sum is bounded,
and what one expression holds at once, and so are states, actions and pairs of both; a file of a few
lines cannot ask for more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from tessella.criteria import FiniteHorizon
from tessella.mdp.scope import MOST_ENTRIES, TIME
from tessella.modelfiles.expressions.formula import HOLDS, MOST_HELD
from tessella.modelfiles.expressions.work import width
from tessella.modelfiles.lines import Path
from tessella.modelfiles.own_model import OwnModel
from tessella.modelfiles.vocabulary import NEXT

MOST_STATES = 20_000_000  # scratch axes and time included
MOST_ACTIONS = 100_000
MOST_PAIRS = 200_000_000  # of states and actions, where some are infeasible


def check_extent(told: OwnModel) -> None:
    """Note what of a model would be too large."""
    lengths = {name: len(values) for name, values in told.known.items() if values is not None}
    periods = told.criterion.periods if isinstance(told.criterion, FiniteHorizon) else 1
    lengths[TIME] = periods
    axes = (*told.axes, *told.scratch)
    states = periods * _product(lengths, axes)
    actions = _product(lengths, told.vocabulary.action)
    entries = [*_entries(told, lengths, states, actions)]
    largest = max(entries, key=lambda entry: entry[1], default=(("stages",), 0))[0]
    for place, what, found, most in (
        (("axes",), "states, scratch axes and time included", states, MOST_STATES),
        (("actions",), "actions", actions, MOST_ACTIONS),
        (("feasible",), "pairs of state and action with 'feasible'", states * actions, MOST_PAIRS),
        (
            largest,
            "entries, of all that its expressions are worked out for",
            sum(size for _, size in entries),
            MOST_ENTRIES,
        ),
    ):
        if found > most and (place != ("feasible",) or "feasible" in told.data):
            said = f"a model file tells at most {most:,} {what}; got {found:,}"
            told.document.mistake(place, said)


def _entries(
    told: OwnModel, lengths: dict[str, int], states: int, actions: int
) -> Iterator[tuple[Path, int]]:
    """The place of each formula, jump or event, and how many numbers it is.

    A formula that would hold too many at once is noted at its own place.
    """
    widths = {name: max(map(width, values)) for name, values in told.known.items() if values}
    for place, formula in told.quantities.formulas:
        values = lengths.get(str(place[1]), 1) if _spreads(place) else 1
        reached = _axis(told, place) if NEXT in formula.asks else []
        size = _product(lengths, [name for name in (*formula.asks, *reached) if name != NEXT])
        wide = {NEXT: widths.get(reached[0], 1.0)} | widths if reached else widths
        if size * formula.held(wide) > MOST_HELD:
            told.document.mistake(place, f"{HOLDS}; it would be {size * formula.held(wide):,.0f}")
        yield place, size * values * (1 + len(formula.terms))
    for key in ("stages", "events"):
        listed = told.data.get(key)
        for i, said in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(said, dict) and isinstance(said.get("to"), dict):
                outcomes = lengths.get(str(said.get("noise")), 1)
                acting = actions if _acts(told, (key, i), said) else 1
                yield (key, i), states * outcomes * acting


def _spreads(place: Path) -> bool:
    """Whether a formula decides the chances of all values, rather than that of one."""
    return place[0] == "distributions" and "probabilities" not in place


def _acts(told: OwnModel, place: Path, said: dict) -> bool:
    """Whether the action decides where a jump or an event leads, or how likely that is."""
    deciding = ((*place, "to"), (*place, "rate"), ("distributions", said.get("noise")))
    return any(
        path[: len(start)] == start and not told.vocabulary.action.keys().isdisjoint(formula.asks)
        for path, formula in told.quantities.formulas
        for start in deciding
    )


def _axis(told: OwnModel, place: Path) -> list[str]:
    """The axis of the stage at ``place``, which counts once more for where a chain goes."""
    return [str(told.data["stages"][place[1]].get("axis"))]


def _product(lengths: dict[str, int], names: Iterable[str]) -> int:
    return math.prod(lengths.get(name, 1) for name in names)
