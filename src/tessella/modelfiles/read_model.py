"""``read_model``: a model that a TOML file describes.

The file names a problem and its parameters, or describes a model of its own. All its mistakes are
reported at once, in a ``ModelFileError``. Nothing in it is ever run as a program.

The size of a model is computed before any part of it is built. An expression is evaluated for all
combinations of the coordinates that it names, a distribution for these times its values, a jump or
an event for all states and outcomes. Their sum is bounded, as are the memory of one expression, and
the numbers of states, actions and pairs.

The model itself checks its stages, and raises for the first that is wrong. Then each is tried
alone, so that every mistake gets its line: a stage does not depend on those before it, except that
``feasible`` applies up to the first that moves. Events are tried in the same way, each with another
that moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from tessella.criteria import Average
from tessella.criteria.criterion import Criterion
from tessella.errors import TessellaError
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Event, Pay
from tessella.mdp.stages.stage import Stage
from tessella.mdp.state_action_space import TIME
from tessella.modelfiles.formula import FORMULA_MAX_HELD_NUMBERS, HELD_REQUIREMENT, entry_width
from tessella.modelfiles.model_document import ModelDocument, PeriodReader, read_measures
from tessella.modelfiles.named_problem import build_named_problem
from tessella.modelfiles.schema import (
    EVENT_MODEL_SCHEMA,
    NAMED_PROBLEM_SCHEMA,
    STAGED_MODEL_SCHEMA,
    STAGES_AND_EVENTS_SCHEMA,
    Schema,
    check_schema,
)
from tessella.modelfiles.symbols import NEXT_NAME, SymbolTable
from tessella.modelfiles.toml_document import KeyPath, ReadLimits, TomlDocument, read_document

Trial = tuple[KeyPath, Callable[[], MDP]]  # the place of a part, and a function that builds it


def read_model(path: str | Path, settings: Mapping[str, Any] | None = None) -> MDP:
    """The model that the file at ``path`` describes; see docs/model-files.md.

    ``settings`` take the place of parameters in the file, by name: values, or text as it is typed
    on a command line.

    Args:
        path: of the TOML file; CSV files that it names are in its folder or below.
        settings: parameters by name.

    Returns:
        The model.

    Raises:
        ModelFileError: the file has mistakes; ``mistakes`` lists all of them with their lines.

    Example:
        >>> text = ts.write_model("machine_replacement", "machine.toml")
        >>> ts.read_model("machine.toml", {"worst": 20})
        MDP(machine_replacement: wear 21; 2 replace actions, average reward, costs, staged)
    """
    return read_limited(path, settings or {}, ReadLimits())


def read_limited(path: str | Path, settings: Mapping[str, Any], limits: ReadLimits) -> MDP:
    """The model that a file describes, which stays within ``limits``."""
    document = read_document(path, limits)
    settings = dict(settings)
    if "problem" in document.data:
        check_schema(document, NAMED_PROBLEM_SCHEMA)
        mdp = build_named_problem(document, settings)
        measures = read_measures(SymbolTable(document), mdp.dynamics.counts, dict(mdp.measures))
        document.raise_mistakes()
        return replace(mdp, **measures)
    check_schema(document, _choose_schema(document))
    if document.is_full:  # later rounds could not see which parts have mistakes
        document.raise_mistakes()
    return _build_model(document, settings)


def _choose_schema(document: TomlDocument) -> Schema:
    if "events" not in document.data:
        return STAGED_MODEL_SCHEMA
    if "stages" not in document.data:
        return EVENT_MODEL_SCHEMA
    document.note_mistake(("events",), "a model file has stages or events, not both")
    return STAGES_AND_EVENTS_SCHEMA


def _build_model(document: TomlDocument, settings: Mapping[str, Any]) -> MDP:
    """The model that the document describes; ``settings`` take the place of its parameters."""
    model = ModelDocument(document, settings)
    model.read()
    period = PeriodReader(model)
    has_events = "events" in document.data and "stages" not in document.data
    trials = _event_trials(period) if has_events else _stage_trials(period)
    whole = next(trials)
    measures = read_measures(model.symbols, period.counted, {})
    _check_size(model)
    document.raise_mistakes()
    with np.errstate(all="ignore"):  # what is not finite is rejected
        mdp = _build_or_explain(document, whole, trials)
    if "start" in document.data:
        with document.noting_errors(("start",)):
            mdp = mdp.with_start(document.data["start"])
        document.raise_mistakes()
    return replace(mdp, **measures)


def _stage_trials(period: PeriodReader) -> Iterator[Trial]:
    """The whole model, and then each part of it alone."""
    period.read_stages()
    model = period.model
    feasible = model.feasible
    stages = [stage for _, stage in period.stages]

    def build(stages: list[Stage], feasible: Any = None) -> MDP:
        return MDP.staged(
            model.axes,  # type: ignore[arg-type] (each was read, or there are mistakes)
            model.actions,  # type: ignore[arg-type]
            model.criterion,  # type: ignore[arg-type]
            stages,
            feasible=feasible,
            scratch=model.scratch or None,  # type: ignore[arg-type]
            **_descriptive_arguments(model),
        )

    yield ("stages",), partial(build, stages, feasible)
    no_payment = Pay(lambda: 0.0)
    yield ("axes",), partial(build, [no_payment])
    yield ("feasible",), partial(build, [no_payment], feasible)
    axis = next(iter(model.axes))
    # A stage that moves nothing, after which no action is infeasible any more.
    identity = Decide(axis, to=lambda **names: names[axis])
    preceding: list[Stage] = []
    for key_path, stage in period.stages:
        yield key_path, partial(build, [*preceding, stage], feasible)
        if not isinstance(stage, Pay):
            preceding = [identity]


def _event_trials(period: PeriodReader) -> Iterator[Trial]:
    """The whole model, and then each part of it alone; the clock, if all others are accepted."""
    period.read_events()
    model = period.model
    feasible = model.feasible
    average = Average()
    events = [event for _, event in period.events]
    rates: dict[str, Any] = {key: period.read_rate(key) for key in ("pays_rate", "costs_rate")}
    counts = model.document.section("counts_rate")
    names = model.symbols.state_names
    rates["counts_rate"] = period.read_counts(("counts_rate",), counts, names)
    clock = model.data.get("clock")
    clock = None if clock is None else model.symbols.read_number(("clock",), clock)

    def build(events: list[Event], criterion: Any, feasible: Any, **rates: Any) -> MDP:
        return MDP.from_rates(
            model.axes,  # type: ignore[arg-type]
            model.actions,  # type: ignore[arg-type]
            events,
            criterion,
            feasible=feasible,
            **rates,
            **_descriptive_arguments(model),
        )

    yield ("events",), partial(build, events, model.criterion, feasible, clock=clock, **rates)
    taken = {event.name for event in events}
    idle = Event(next(f"event {i}" for i in count() if f"event {i}" not in taken), 1.0)
    yield ("axes",), partial(build, [idle], average, None)
    yield ("feasible",), partial(build, [idle], average, feasible)
    yield ("criterion",), partial(build, [idle], model.criterion, None)
    for key, rate in rates.items():
        yield (key,), partial(build, [idle], average, feasible, **{key: rate})
    for key_path, event in period.events:
        yield key_path, partial(build, [event, idle], average, feasible)
    if not model.document.mistakes:
        yield ("clock",), partial(build, events, average, feasible, clock=clock)


def _descriptive_arguments(model: ModelDocument) -> dict[str, Any]:
    name = model.data.get("name", "")
    return {"action_name": model.action_name, "name": name, "parameters": model.symbols.parameters}


def _build_or_explain(document: TomlDocument, whole: Trial, parts: Iterator[Trial]) -> MDP:
    """The whole model; if that fails, note each part that fails alone, at its place."""
    key_path, build = whole
    try:
        return build()
    except (TessellaError, MemoryError) as error:
        message = _describe_rejection(error)
    for part_path, build_part in parts:
        try:
            build_part()
        except (TessellaError, MemoryError) as error:
            document.note_mistake(part_path, _describe_rejection(error))
            if part_path in (("axes",), ("feasible",)):
                break  # nothing else can be tried
    if not document.mistakes:
        document.note_mistake(key_path, message)
    document.raise_mistakes()
    raise AssertionError(message)


def _describe_rejection(error: Exception) -> str:
    is_too_large = isinstance(error, MemoryError)
    return "this needs more memory than is available" if is_too_large else str(error)


def _check_size(model: ModelDocument) -> None:
    """Note each part of a model that would be too large."""
    limits = model.document.limits
    lengths = {
        name: len(values) for name, values in model.values_by_name.items() if values is not None
    }
    periods = (model.criterion.periods or 1) if isinstance(model.criterion, Criterion) else 1
    lengths[TIME] = periods
    states = periods * _multiply_lengths(lengths, (*model.axes, *model.scratch))
    actions = _multiply_lengths(lengths, model.symbols.action)
    entries = [*_formula_entries(model, lengths), *_jump_entries(model, lengths, states, actions)]
    largest_path = max(entries, key=lambda entry: entry[1], default=(("stages",), 0))[0]
    total = sum(size for _, size in entries)

    def check(key_path: KeyPath, subject: str, count: int, limit: int) -> None:
        if count > limit:
            message = f"a model file describes at most {limit:,} {subject}; got {count:,}"
            model.document.note_mistake(key_path, message)

    check(("axes",), "states, scratch axes and time included", states, limits.max_states)
    check(("actions",), "actions", actions, limits.max_actions)
    if "feasible" in model.data:
        subject = "pairs of state and action with 'feasible'"
        check(("feasible",), subject, states * actions, limits.max_pairs)
    subject = "entries of all its expressions together"
    check(largest_path, subject, total, limits.max_entries)


def _formula_entries(
    model: ModelDocument, lengths: Mapping[str, int]
) -> Iterator[tuple[KeyPath, int]]:
    """The place of each formula, and its number of entries; note one that needs too much memory."""
    widths = {
        name: max(map(entry_width, values))
        for name, values in model.values_by_name.items()
        if values
    }
    for key_path, formula in model.symbols.formulas:
        own_lengths = lengths
        own_widths = widths
        if NEXT_NAME in formula.free_names:  # which has the values of the axis of its stage
            axis = str(model.data["stages"][key_path[1]].get("axis"))
            own_lengths = {**lengths, NEXT_NAME: lengths.get(axis, 1)}
            own_widths = {**widths, NEXT_NAME: widths.get(axis, 1.0)}
        size = _multiply_lengths(own_lengths, formula.free_names)
        held = size * formula.peak_memory(own_widths)
        if held > FORMULA_MAX_HELD_NUMBERS:
            model.document.note_mistake(key_path, f"{HELD_REQUIREMENT}; it would be {held:,.0f}")
        n_values = 1
        if key_path[0] == "distributions" and "probabilities" not in key_path:
            n_values = lengths.get(str(key_path[1]), 1)  # it is evaluated for each of them
        yield key_path, size * n_values * (1 + len(formula.terms))


def _jump_entries(
    model: ModelDocument, lengths: Mapping[str, int], states: int, actions: int
) -> Iterator[tuple[KeyPath, int]]:
    """The place of each jump or event, and its number of entries."""
    for key in ("stages", "events"):
        for key_path, entry in model.document.entries(key):
            if isinstance(entry.get("to"), dict):
                outcomes = lengths.get(str(entry.get("noise")), 1)
                n_actions = actions if _depends_on_action(model, key_path, entry) else 1
                yield key_path, states * outcomes * n_actions


def _depends_on_action(model: ModelDocument, key_path: KeyPath, entry: dict) -> bool:
    """Whether the action decides where a jump or an event leads, or how likely that is."""
    deciding_paths = ((*key_path, "to"), (*key_path, "rate"), ("distributions", entry.get("noise")))
    return any(
        path[: len(prefix)] == prefix
        and not model.symbols.action.keys().isdisjoint(formula.free_names)
        for path, formula in model.symbols.formulas
        for prefix in deciding_paths
    )


def _multiply_lengths(lengths: Mapping[str, int], names: Iterable[str]) -> int:
    return math.prod(lengths.get(name, 1) for name in names)
