"""From what a document tells to its model, and from what a model refuses to the lines that say it.

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
from tessella.modelfiles.document import Document
from tessella.modelfiles.extent import check_extent
from tessella.modelfiles.lines import Path
from tessella.modelfiles.own_model import OwnModel
from tessella.modelfiles.period import PeriodReader


def build_own(document: Document, settings: Mapping[str, Any]) -> MDP:
    """The model that the document tells; ``settings`` take the place of its parameters."""
    told = OwnModel(document, settings)
    told.read()
    period = PeriodReader(told)
    timed = "events" in document.data and "stages" not in document.data
    build = _with_events(period) if timed else _with_stages(period)
    check_extent(told)
    document.refuse()
    with np.errstate(all="ignore"):  # what is not finite is refused
        mdp = _built(document, build)
    return _started(document, mdp)


def _with_stages(period: PeriodReader) -> Callable[[], MDP]:
    told = period.told
    period.read_stages()

    def staged(stages: list[Stage], feasible: Any) -> MDP:
        return MDP.staged(
            told.axes,  # type: ignore[arg-type] (each was read, or there are mistakes)
            told.actions,  # type: ignore[arg-type]
            told.criterion,  # type: ignore[arg-type]
            stages,
            feasible=feasible,
            scratch=told.scratch or None,  # type: ignore[arg-type]
            **_about(told),
        )

    def build() -> MDP:
        try:
            return staged([stage for _, stage in period.stages], told.feasible)
        except TessellaError:
            _explain(period, staged)
            raise

    return build


def _explain(period: PeriodReader, staged: Callable[[list[Stage], Any], MDP]) -> None:
    """Note which parts are refused, each tried by itself."""
    told, nothing = period.told, Pay(lambda: 0.0)
    parts: list[tuple[Path, list[Stage], Any]] = [(("axes",), [nothing], None)]
    if told.feasible is not None:
        parts.append((("feasible",), [nothing], told.feasible))
    moved: list[Stage] = []
    for place, stage in period.stages:
        parts.append((place, [*moved, stage], told.feasible))
        if not isinstance(stage, Pay) and not moved:
            moved = [_standing_still(next(iter(told.axes)))]
    _try_all(told.document, [(at, partial(staged, s, f)) for at, s, f in parts])


def _try_all(document: Document, parts: list[tuple[Path, Callable[[], MDP]]]) -> None:
    """Note which of these models are refused, each at its place."""
    for place, build in parts:
        if not _tried(document, place, build) and place in (("axes",), ("feasible",)):
            return  # nothing else can be tried


def _standing_still(axis: str) -> Stage:
    """A stage that moves nothing, after which no action is infeasible any more."""
    return Decide(axis, to=lambda **names: names[axis])


def _with_events(period: PeriodReader) -> Callable[[], MDP]:
    told = period.told
    period.read_events()
    pays, costs = period.rate("pays_rate"), period.rate("costs_rate")
    clock = told.data.get("clock")
    ticks = None if clock is None else told.quantities.number(("clock",), clock)

    def timed(events: list[Event], criterion: Any, feasible: Any, **rates: Any) -> MDP:
        return MDP.from_rates(
            told.axes,  # type: ignore[arg-type]
            told.actions,  # type: ignore[arg-type]
            events,
            criterion,
            feasible=feasible,
            **rates,
            **_about(told),
        )

    rates = {"pays_rate": pays, "costs_rate": costs, "clock": ticks}

    def build() -> MDP:
        try:
            events = [event for _, event in period.events]
            return timed(events, told.criterion, told.feasible, **rates)
        except TessellaError:
            _explain_events(period, timed, rates)
            raise

    return build


def _explain_events(
    period: PeriodReader, timed: Callable[..., MDP], rates: Mapping[str, Any]
) -> None:
    """Note which parts are refused, each tried by itself; the clock, where none is."""
    told, average, mask = period.told, Average(), period.told.feasible
    names = {event.name for _, event in period.events}
    still = Event(next(f"event {i}" for i in count() if f"event {i}" not in names), 1.0)
    parts: list[tuple[Path, Callable[[], MDP]]] = [
        (("axes",), partial(timed, [still], average, None)),
        (("feasible",), partial(timed, [still], average, mask)),
        (("criterion",), partial(timed, [still], told.criterion, None)),
    ]
    for key in ("pays_rate", "costs_rate"):
        parts.append(((key,), partial(timed, [still], average, mask, **{key: rates[key]})))
    for place, event in period.events:
        parts.append((place, partial(timed, [event, still], average, mask)))
    _try_all(told.document, parts)
    if not told.document.mistakes:
        events = [event for _, event in period.events]
        clock = {"clock": rates["clock"]}
        _try_all(told.document, [(("clock",), partial(timed, events, average, mask, **clock))])


def _about(told: OwnModel) -> dict[str, Any]:
    name = told.data.get("name", "")
    return {"action_name": told.action_name, "name": name, "parameters": told.vocabulary.parameters}


def _tried(document: Document, place: Path, build: Callable[[], MDP]) -> bool:
    try:
        build()
        return True
    except TessellaError as error:
        document.mistake(place, str(error))
    except MemoryError:
        document.mistake(place, "this needs more memory than there is")
    return False


def _built(document: Document, build: Callable[[], MDP]) -> MDP:
    try:
        return build()
    except TessellaError as error:
        said = str(error)
    except MemoryError:
        said = "the model needs more memory than there is"
    if not document.mistakes:
        key = "events" if "events" in document.data else "stages"
        document.mistake((key,), said)
    document.refuse()
    raise AssertionError(said)


def _started(document: Document, mdp: MDP) -> MDP:
    if "start" not in document.data:
        return mdp
    try:
        return mdp.with_start(document.data["start"])
    except TessellaError as error:
        document.mistake(("start",), str(error))
    document.refuse()
    raise AssertionError("a start was neither taken nor refused")
