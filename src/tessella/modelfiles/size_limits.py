"""How large a model would be, computed before any part of it is built.

An expression is worked out for all combinations of the coordinates that it names, a distribution
for as many times its values, a jump or an event for all states and outcomes. Their sum is bounded,
and what one expression holds at once, and so are states, actions and pairs of both; a file of a few
lines cannot ask for more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from tessella.criteria import FiniteHorizon
from tessella.mdp.context import FUNCTION_MAX_ENTRIES, TIME
from tessella.modelfiles.formula import FORMULA_MAX_HELD_NUMBERS, HELD_REQUIREMENT, entry_width
from tessella.modelfiles.model_document import ModelDocument
from tessella.modelfiles.symbols import NEXT_NAME
from tessella.modelfiles.toml_lines import KeyPath

MODEL_MAX_STATES = 20_000_000  # scratch axes and time included
MODEL_MAX_ACTIONS = 100_000
MODEL_MAX_PAIRS = 200_000_000  # of states and actions, where some are infeasible


def check_size_limits(model: ModelDocument) -> None:
    """Note what of a model would be too large."""
    lengths = {
        name: len(values) for name, values in model.values_by_name.items() if values is not None
    }
    periods = model.criterion.periods if isinstance(model.criterion, FiniteHorizon) else 1
    lengths[TIME] = periods
    axes = (*model.axes, *model.scratch)
    states = periods * _multiply_lengths(lengths, axes)
    actions = _multiply_lengths(lengths, model.symbols.action)
    entries = [*_count_entries(model, lengths, states, actions)]
    largest_path = max(entries, key=lambda entry: entry[1], default=(("stages",), 0))[0]
    for key_path, subject, count, limit in (
        (("axes",), "states, scratch axes and time included", states, MODEL_MAX_STATES),
        (("actions",), "actions", actions, MODEL_MAX_ACTIONS),
        (
            ("feasible",),
            "pairs of state and action with 'feasible'",
            states * actions,
            MODEL_MAX_PAIRS,
        ),
        (
            largest_path,
            "entries, of all that its expressions are worked out for",
            sum(size for _, size in entries),
            FUNCTION_MAX_ENTRIES,
        ),
    ):
        if count > limit and (key_path != ("feasible",) or "feasible" in model.data):
            message = f"a model file tells at most {limit:,} {subject}; got {count:,}"
            model.document.note_mistake(key_path, message)


def _count_entries(
    model: ModelDocument, lengths: dict[str, int], states: int, actions: int
) -> Iterator[tuple[KeyPath, int]]:
    """The place of each formula, jump or event, and how many numbers it is.

    A formula that would hold too many at once is noted at its own place.
    """
    widths = {
        name: max(map(entry_width, n_values))
        for name, n_values in model.values_by_name.items()
        if n_values
    }
    for key_path, formula in model.quantities.formulas:
        n_values = lengths.get(str(key_path[1]), 1) if _gives_all_probabilities(key_path) else 1
        next_axis = _stage_axis(model, key_path) if NEXT_NAME in formula.free_names else []
        size = _multiply_lengths(
            lengths, [name for name in (*formula.free_names, *next_axis) if name != NEXT_NAME]
        )
        formula_widths = (
            {NEXT_NAME: widths.get(next_axis[0], 1.0)} | widths if next_axis else widths
        )
        held = size * formula.peak_memory(formula_widths)
        if held > FORMULA_MAX_HELD_NUMBERS:
            model.document.note_mistake(key_path, f"{HELD_REQUIREMENT}; it would be {held:,.0f}")
        yield key_path, size * n_values * (1 + len(formula.terms))
    for key in ("stages", "events"):
        entries = model.data.get(key)
        for i, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, dict) and isinstance(entry.get("to"), dict):
                outcomes = lengths.get(str(entry.get("noise")), 1)
                n_actions = actions if _depends_on_action(model, (key, i), entry) else 1
                yield (key, i), states * outcomes * n_actions


def _gives_all_probabilities(key_path: KeyPath) -> bool:
    """Whether a formula decides the chances of all values, rather than that of one."""
    return key_path[0] == "distributions" and "probabilities" not in key_path


def _depends_on_action(model: ModelDocument, key_path: KeyPath, entry: dict) -> bool:
    """Whether the action decides where a jump or an event leads, or how likely that is."""
    deciding_paths = ((*key_path, "to"), (*key_path, "rate"), ("distributions", entry.get("noise")))
    return any(
        path[: len(prefix)] == prefix
        and not model.symbols.action.keys().isdisjoint(formula.free_names)
        for path, formula in model.quantities.formulas
        for prefix in deciding_paths
    )


def _stage_axis(model: ModelDocument, key_path: KeyPath) -> list[str]:
    """The axis of the stage at ``key_path``, which counts once more for where a chain goes."""
    return [str(model.data["stages"][key_path[1]].get("axis"))]


def _multiply_lengths(lengths: dict[str, int], names: Iterable[str]) -> int:
    return math.prod(lengths.get(name, 1) for name in names)
