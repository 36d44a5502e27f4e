"""The models that the page lists, and a slider for each of their parameters.

The range of a parameter ends far beyond use; a slider covers the part of it around the default:

    from max(low, min(0, 4 x default)) to min(high, 4 x default),

or from end to end where that is not much more, in steps of a power of ten. The number next to it
may be any in the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tessella.errors import ArgumentError
from tessella.grid import limit_states
from tessella.mdp.model import MDP
from tessella.problems.problem import (
    DISCOUNT,
    Choice,
    Integer,
    Integers,
    Number,
    Numbers,
    Parameter,
    Problem,
)
from tessella.problems.registry import BENCHMARKS, PUBLISHED_PROBLEMS, all_problems, find_registered

if TYPE_CHECKING:
    from tessella.solvers.solution import Solution

USER_MODEL = "own"  # the model that the explorer was started with
SLIDER_END_DEFAULTS = 4.0  # a slider's far end, in defaults
FULL_RANGE_MAX_DEFAULTS = 20.0  # a range up to that many defaults wide is covered from end to end
SLIDER_MIN_STEPS = 100  # steps of a slider

ModelOpener = Callable[[Mapping[str, Any]], "MDP | Solution"]


class ModelCatalogue:
    """Problems by name, and the model that the explorer was started with.

    Args:
        open_user_model: opens that model with other settings; None where there is none.
        max_states: a larger model is rejected before it is built.
    """

    def __init__(self, open_user_model: ModelOpener | None, max_states: int) -> None:
        self.open_user_model = open_user_model
        self.max_states = max_states

    def open(self, name: str, settings: Mapping[str, Any]) -> MDP | Solution:
        """The model called ``name`` with these settings; a name never imports anything."""
        with limit_states(self.max_states):
            if name == USER_MODEL and self.open_user_model is not None:
                opened = self.open_user_model(settings)
            else:
                offered = find_registered(name)
                if offered is None:
                    requirement = "no problem on offer has this name"
                    raise ArgumentError(requirement, value=f"got {name[:60]!r}")
                opened = offered.build(**offered.settings(**settings))  # 'name' is no setting
        states = _model_of(opened).n_states
        if states > self.max_states:  # a file that held it already
            requirement = f"a model has at most {self.max_states:,} states here"
            raise ArgumentError(requirement, value=f"this one has {states:,}")
        return opened

    @cached_property
    def offers(self) -> list[dict[str, Any]]:
        """What the page lists: the model of the user first."""
        user_offers = (
            []
            if self.open_user_model is None
            else [self._describe_user_model(self.open_user_model)]
        )
        return [*user_offers, *(_describe_problem(known) for known in all_problems())]

    def _describe_user_model(self, open_user_model: ModelOpener) -> dict[str, Any]:
        with limit_states(self.max_states):
            opened = open_user_model({})
        mdp = _model_of(opened)
        return {
            "name": USER_MODEL,
            "label": mdp.name or "your model",
            "title": "The model that the explorer was started with",
            "group": "Yours",
            "parameters": _model_sliders(mdp) if opened is mdp else [],
            "theory": [],
        }


def _model_of(opened: MDP | Solution) -> MDP:
    return opened if isinstance(opened, MDP) else opened.mdp


def _describe_problem(offered: Problem) -> dict[str, Any]:
    group = "Published problems" if offered in PUBLISHED_PROBLEMS else "Families"
    if offered.name in BENCHMARKS:
        group = "The paper's eleven"
    return {
        "name": offered.name,
        "label": offered.name,
        "title": offered.title,
        "group": group,
        "parameters": [describe_slider(p) for p in offered.settable],
        "theory": [asdict(statement) for statement in offered.theory],
    }


def _model_sliders(mdp: MDP) -> list[dict[str, Any]]:
    """Sliders of a model from a file: those of its problem, or ones around its numbers."""
    for known in all_problems():
        if mdp.parameters and {p.name for p in known.parameters} == set(mdp.parameters):
            return [
                describe_slider(known.parameter(n), value) for n, value in mdp.parameters.items()
            ]
    return [_describe_guessed_slider(mdp, name, value) for name, value in mdp.parameters.items()]


def _describe_guessed_slider(mdp: MDP, name: str, value: Any) -> dict[str, Any]:
    """A slider around a number of which no range is known; one below 1 may be a probability."""
    description = describe_slider(_guess_parameter(mdp, name, value), value)
    if isinstance(value, float) and 0 < value < 1:
        description["high"] = min(description["high"], 1.0)
    return description


def _guess_parameter(mdp: MDP, name: str, value: Any) -> Parameter:
    about = "a parameter of the model file"
    if isinstance(value, float) and value == mdp.discount < 1:
        return Number(name, value, about, **DISCOUNT)
    if isinstance(value, str):
        return Choice(name, value, about, options=(value,))
    if isinstance(value, list | tuple):
        return Numbers(name, value, about)
    return (Integer if isinstance(value, int) else Number)(name, value, about)


def describe_slider(parameter: Parameter, default: Any = None) -> dict[str, Any]:
    """A parameter for the page: what it is, and how far its slider goes."""
    default = parameter.default if default is None else default
    description = {"name": parameter.name, "kind": parameter.kind, "about": parameter.about}
    description |= {"range": parameter.range, "default": default}
    if isinstance(parameter, Choice):
        return description | {"options": list(parameter.options)}
    if isinstance(parameter, Integers | Numbers):
        return description | {"default": list(default)}
    assert isinstance(parameter, Integer | Number)
    return description | _slider_range(
        parameter, float(default), is_integer=isinstance(parameter, Integer)
    )


def _slider_range(
    parameter: Integer | Number, default: float, *, is_integer: bool
) -> dict[str, Any]:
    low = _slider_low(parameter, default)
    high = _slider_high(parameter, default, 10.0 if is_integer else 0.0)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / SLIDER_MIN_STEPS))
    if high == parameter.below:
        step /= 10  # a discount of 0.999 is not one of 0.99
    if is_integer:
        step = max(step, 1.0)
    if low == parameter.above:
        low += step
    if high == parameter.below:
        high -= step
    kind = int if is_integer else _round_digits
    return {"low": kind(low), "high": kind(high), "step": kind(step)}


def _slider_low(parameter: Integer | Number, default: float) -> float:
    low = min(0.0, SLIDER_END_DEFAULTS * default)
    minimum = parameter.low if parameter.low is not None else parameter.above
    if minimum is None:
        return low
    is_near = 0 <= default - minimum <= FULL_RANGE_MAX_DEFAULTS * max(abs(default), 1.0)
    return minimum if is_near else max(low, minimum)


def _slider_high(parameter: Integer | Number, default: float, at_least: float) -> float:
    high = max(SLIDER_END_DEFAULTS * default, at_least)
    if high <= 0:
        high = 1.0
    maximum = parameter.high if parameter.high is not None else parameter.below
    if maximum is None:
        return high
    is_near = maximum - default <= FULL_RANGE_MAX_DEFAULTS * max(abs(default), 1.0)
    return maximum if is_near and maximum <= FULL_RANGE_MAX_DEFAULTS else min(high, maximum)


def _round_digits(number: float) -> float:
    return float(f"{number:.10g}")
