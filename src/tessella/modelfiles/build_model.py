"""From a document to its model, and from what a model refuses to the lines that ask for it.

The stages of a model are checked by the model itself, which raises for the first that is wrong.
Then each is tried alone, so that every mistake gets its line: a stage sees the state that it is
given, whatever came before, and the mask of feasible actions up to the first that moves. Events are
tried likewise, each beside another that moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from tessella.criteria import Average
from tessella.errors import TessellaError
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Event, Pay
from tessella.mdp.stages.stage import Stage
from tessella.modelfiles.model_document import ModelDocument
from tessella.modelfiles.size_limits import check_size_limits
from tessella.modelfiles.stages_section import PeriodReader
from tessella.modelfiles.toml_document import TomlDocument
from tessella.modelfiles.toml_lines import KeyPath


def build_model(document: TomlDocument, settings: Mapping[str, Any]) -> MDP:
    """The model that the document describes; ``settings`` take the place of its parameters."""
    model = ModelDocument(document, settings)
    model.read()
    period = PeriodReader(model)
    has_events = "events" in document.data and "stages" not in document.data
    build = _prepare_event_model(period) if has_events else _prepare_staged_model(period)
    check_size_limits(model)
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
