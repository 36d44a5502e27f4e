"""``read_model``: a model that a TOML file describes.

The file names a problem and its parameters, or describes a model of its own. All its mistakes are
reported at once, in a ``ModelFileError``. Nothing in it is ever run as a program.

How large a model would be is computed before any part of it is built. An expression is evaluated
for all combinations of the coordinates that it names, a distribution for as many times its values,
a jump or an event for all states and outcomes. Their sum is bounded, and what one expression holds
at once, and so are states, actions and pairs of both.

The stages of a model are checked by the model itself, which raises for the first that is wrong.
Then each is tried alone, so that every mistake gets its line: a stage sees the state that it is
given, whatever came before, and the mask of feasible actions up to the first that moves. Events are
tried likewise, each beside another that moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from tessella.criteria import Average, FiniteHorizon
from tessella.errors import TessellaError
from tessella.mdp.context import TIME
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Event, Pay
from tessella.mdp.stages.stage import Stage
from tessella.modelfiles.check_schema import check_schema
from tessella.modelfiles.formula import (
    FORMULA_MAX_HELD_NUMBERS,
    HELD_REQUIREMENT,
    entry_width,
)
from tessella.modelfiles.model_document import ModelDocument
from tessella.modelfiles.named_problem import build_named_problem
from tessella.modelfiles.schema import (
    EVENT_MODEL_SCHEMA,
    NAMED_PROBLEM_SCHEMA,
    STAGED_MODEL_SCHEMA,
    STAGES_AND_EVENTS_SCHEMA,
    Schema,
)
from tessella.modelfiles.stages_section import PeriodReader
from tessella.modelfiles.symbols import NEXT_NAME
from tessella.modelfiles.toml_document import KeyPath, ReadLimits, TomlDocument, read_document


def read_model(path: str | Path, settings: Mapping[str, Any] | None = None) -> MDP:
    """The model that the file at ``path`` describes; see docs/model-files.md.

    ``settings`` take the place of parameters in the file, by name: values, or text as it is typed
    on a command line.
    """
    return read_limited(path, settings or {}, ReadLimits())


def read_limited(path: str | Path, settings: Mapping[str, Any], limits: ReadLimits) -> MDP:
    """The model that a file describes, which stays within ``limits``."""
    document = read_document(path, limits)
    settings = dict(settings)
    if "problem" in document.data:
        check_schema(document, NAMED_PROBLEM_SCHEMA)
        return build_named_problem(document, settings)
    check_schema(document, _choose_schema(document))
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
    build = _prepare_event_model(period) if has_events else _prepare_staged_model(period)
    _check_size(model)
    document.raise_mistakes()
    with np.errstate(all="ignore"):  # what is not finite is refused
        mdp = _build_or_refuse(document, build)
    return _with_start(document, mdp)


def _prepare_staged_model(period: PeriodReader) -> Callable[[], MDP]:
    model = period.model
    period.read_stages()

    def build_staged(stages: list[Stage], feasible: Any) -> MDP:
        return MDP.staged(
            model.axes,  # type: ignore[arg-type] (each was read, or there are mistakes)
            model.actions,  # type: ignore[arg-type]
            model.criterion,  # type: ignore[arg-type]
            stages,
            feasible=feasible,
            scratch=model.scratch or None,  # type: ignore[arg-type]
            **_descriptive_arguments(model),
        )

    def build() -> MDP:
        try:
            return build_staged([stage for _, stage in period.stages], model.feasible)
        except TessellaError:
            _find_faulty_stages(period, build_staged)
            raise

    return build


def _find_faulty_stages(
    period: PeriodReader, build_staged: Callable[[list[Stage], Any], MDP]
) -> None:
    """Note which parts are refused, each tried by itself."""
    model = period.model
    no_payment = Pay(lambda: 0.0)
    parts: list[tuple[KeyPath, list[Stage], Any]] = [(("axes",), [no_payment], None)]
    if model.feasible is not None:
        parts.append((("feasible",), [no_payment], model.feasible))
    preceding: list[Stage] = []
    for key_path, stage in period.stages:
        parts.append((key_path, [*preceding, stage], model.feasible))
        if not isinstance(stage, Pay) and not preceding:
            preceding = [_identity_stage(next(iter(model.axes)))]
    _try_parts(
        model.document, [(key_path, partial(build_staged, s, f)) for key_path, s, f in parts]
    )


def _try_parts(document: TomlDocument, parts: list[tuple[KeyPath, Callable[[], MDP]]]) -> None:
    """Note which of these models are refused, each at its place."""
    for key_path, build in parts:
        if not _try_build(document, key_path, build) and key_path in (("axes",), ("feasible",)):
            return  # nothing else can be tried


def _identity_stage(axis: str) -> Stage:
    """A stage that moves nothing, after which no action is infeasible any more."""
    return Decide(axis, to=lambda **names: names[axis])


def _prepare_event_model(period: PeriodReader) -> Callable[[], MDP]:
    model = period.model
    period.read_events()
    pays = period.read_rate("pays_rate")
    costs = period.read_rate("costs_rate")
    clock = model.data.get("clock")
    clock_rate = None if clock is None else model.quantities.read_number(("clock",), clock)

    def build_timed(events: list[Event], criterion: Any, feasible: Any, **rates: Any) -> MDP:
        return MDP.from_rates(
            model.axes,  # type: ignore[arg-type]
            model.actions,  # type: ignore[arg-type]
            events,
            criterion,
            feasible=feasible,
            **rates,
            **_descriptive_arguments(model),
        )

    rates = {"pays_rate": pays, "costs_rate": costs, "clock": clock_rate}

    def build() -> MDP:
        try:
            events = [event for _, event in period.events]
            return build_timed(events, model.criterion, model.feasible, **rates)
        except TessellaError:
            _find_faulty_events(period, build_timed, rates)
            raise

    return build


def _find_faulty_events(
    period: PeriodReader, build_timed: Callable[..., MDP], rates: Mapping[str, Any]
) -> None:
    """Note which parts are refused, each tried by itself; the clock, where none is."""
    model = period.model
    average = Average()
    feasible = period.model.feasible
    names = {event.name for _, event in period.events}
    idle_event = Event(next(f"event {i}" for i in count() if f"event {i}" not in names), 1.0)
    parts: list[tuple[KeyPath, Callable[[], MDP]]] = [
        (("axes",), partial(build_timed, [idle_event], average, None)),
        (("feasible",), partial(build_timed, [idle_event], average, feasible)),
        (("criterion",), partial(build_timed, [idle_event], model.criterion, None)),
    ]
    for key in ("pays_rate", "costs_rate"):
        parts.append(
            ((key,), partial(build_timed, [idle_event], average, feasible, **{key: rates[key]}))
        )
    for key_path, event in period.events:
        parts.append((key_path, partial(build_timed, [event, idle_event], average, feasible)))
    _try_parts(model.document, parts)
    if not model.document.mistakes:
        events = [event for _, event in period.events]
        clock = {"clock": rates["clock"]}
        _try_parts(
            model.document, [(("clock",), partial(build_timed, events, average, feasible, **clock))]
        )


def _descriptive_arguments(model: ModelDocument) -> dict[str, Any]:
    name = model.data.get("name", "")
    return {"action_name": model.action_name, "name": name, "parameters": model.symbols.parameters}


def _try_build(document: TomlDocument, key_path: KeyPath, build: Callable[[], MDP]) -> bool:
    try:
        build()
        return True
    except TessellaError as error:
        document.note_mistake(key_path, str(error))
    except MemoryError:
        document.note_mistake(key_path, "this needs more memory than there is")
    return False


def _build_or_refuse(document: TomlDocument, build: Callable[[], MDP]) -> MDP:
    try:
        return build()
    except TessellaError as error:
        message = str(error)
    except MemoryError:
        message = "the model needs more memory than there is"
    if not document.mistakes:
        key = "events" if "events" in document.data else "stages"
        document.note_mistake((key,), message)
    document.raise_mistakes()
    raise AssertionError(message)


def _with_start(document: TomlDocument, mdp: MDP) -> MDP:
    if "start" not in document.data:
        return mdp
    try:
        return mdp.with_start(document.data["start"])
    except TessellaError as error:
        document.note_mistake(("start",), str(error))
    document.raise_mistakes()
    raise AssertionError("a start was neither taken nor refused")


def _check_size(model: ModelDocument) -> None:
    """Note what of a model would be too large."""
    limits = model.document.limits
    lengths = {
        name: len(values) for name, values in model.values_by_name.items() if values is not None
    }
    periods = model.criterion.periods if isinstance(model.criterion, FiniteHorizon) else 1
    lengths[TIME] = periods
    states = periods * _multiply_lengths(lengths, (*model.axes, *model.scratch))
    actions = _multiply_lengths(lengths, model.symbols.action)
    entries = [*_formula_entries(model, lengths), *_jump_entries(model, lengths, states, actions)]
    largest_path = max(entries, key=lambda entry: entry[1], default=(("stages",), 0))[0]
    total = sum(size for _, size in entries)

    def check(key_path: KeyPath, subject: str, count: int, limit: int) -> None:
        if count > limit:
            message = f"a model file tells at most {limit:,} {subject}; got {count:,}"
            model.document.note_mistake(key_path, message)

    check(("axes",), "states, scratch axes and time included", states, limits.max_states)
    check(("actions",), "actions", actions, limits.max_actions)
    if "feasible" in model.data:
        subject = "pairs of state and action with 'feasible'"
        check(("feasible",), subject, states * actions, limits.max_pairs)
    subject = "entries, of all that its expressions are worked out for"
    check(largest_path, subject, total, limits.max_entries)


def _formula_entries(
    model: ModelDocument, lengths: Mapping[str, int]
) -> Iterator[tuple[KeyPath, int]]:
    """The place of each formula, and how many numbers it is.

    One that would hold too many at once is noted at its own place.
    """
    widths = {
        name: max(map(entry_width, values))
        for name, values in model.values_by_name.items()
        if values
    }
    for key_path, formula in model.quantities.formulas:
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
        n_values = lengths.get(str(key_path[1]), 1) if _gives_all_probabilities(key_path) else 1
        yield key_path, size * n_values * (1 + len(formula.terms))


def _gives_all_probabilities(key_path: KeyPath) -> bool:
    """Whether a formula decides the chances of all values, rather than that of one."""
    return key_path[0] == "distributions" and "probabilities" not in key_path


def _jump_entries(
    model: ModelDocument, lengths: Mapping[str, int], states: int, actions: int
) -> Iterator[tuple[KeyPath, int]]:
    """The place of each jump or event, and how many states and outcomes it has."""
    for key in ("stages", "events"):
        for key_path, entry in model.entries(key):
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
        for path, formula in model.quantities.formulas
        for prefix in deciding_paths
    )


def _multiply_lengths(lengths: Mapping[str, int], names: Iterable[str]) -> int:
    return math.prod(lengths.get(name, 1) for name in names)
