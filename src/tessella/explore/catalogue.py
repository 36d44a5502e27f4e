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
from typing import Any

import tessella as ts
from tessella.errors import ArgumentError
from tessella.grid import limit_states
from tessella.problems.problem import DISCOUNT, Parameter
from tessella.problems.registry import BENCHMARKS, PUBLISHED_PROBLEMS, all_problems, find_registered

USER_MODEL = "own"  # the model that the explorer was started with
SLIDER_END_DEFAULTS = 4.0  # a slider's far end, in defaults
FULL_RANGE_MAX_DEFAULTS = 20.0  # a range up to that many defaults wide is covered from end to end
SLIDER_MIN_STEPS = 100  # steps of a slider

ModelOpener = Callable[[Mapping[str, Any]], "ts.MDP | ts.Solution"]


class ModelCatalogue:
    """Problems by name, and the model that the explorer was started with.

    Args:
        open_user_model: opens that model with other settings; None where there is none.
        max_states: a larger model is rejected before it is built.
    """

    def __init__(self, open_user_model: ModelOpener | None, max_states: int) -> None:
        self.open_user_model = open_user_model
        self.max_states = max_states

    def open(self, name: str, settings: Mapping[str, Any]) -> ts.MDP | ts.Solution:
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


def _model_of(opened: ts.MDP | ts.Solution) -> ts.MDP:
    return opened if isinstance(opened, ts.MDP) else opened.mdp


def _describe_problem(offered: ts.Problem) -> dict[str, Any]:
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


def _model_sliders(mdp: ts.MDP) -> list[dict[str, Any]]:
    """Sliders of a model from a file: those of its problem, or ones around its numbers."""
    for known in all_problems():
        if mdp.parameters and {p.name for p in known.parameters} == set(mdp.parameters):
            return [
                describe_slider(known.parameter(n), value) for n, value in mdp.parameters.items()
            ]
    sliders = {n: describe_slider(_guess_parameter(mdp, n, v)) for n, v in mdp.parameters.items()}
    for name, value in mdp.parameters.items():
        if isinstance(value, float) and 0 < value < 1:  # which may be a probability
            sliders[name]["high"] = min(sliders[name]["high"], 1.0)
    return list(sliders.values())


def _guess_parameter(mdp: ts.MDP, name: str, value: Any) -> Parameter:
    about = "a parameter of the model file"
    if isinstance(value, float) and value == mdp.discount < 1:
        return ts.Number(name, value, about, **DISCOUNT)
    if isinstance(value, str):
        return ts.Choice(name, value, about, options=(value,))
    if isinstance(value, list | tuple):
        return ts.Numbers(name, value, about)
    return (ts.Integer if isinstance(value, int) else ts.Number)(name, value, about)


def describe_slider(parameter: Parameter, default: Any = None) -> dict[str, Any]:
    """A parameter for the page: what it is, and how far its slider goes."""
    default = parameter.default if default is None else default
    description = {"name": parameter.name, "kind": parameter.kind, "about": parameter.about}
    description |= {"range": parameter.range, "default": default}
    if isinstance(parameter, ts.Choice):
        return description | {"options": list(parameter.options)}
    if isinstance(parameter, ts.Integers | ts.Numbers):
        return description | {"default": list(default)}
    assert isinstance(parameter, ts.Integer | ts.Number)
    return description | _slider_range(parameter, float(default))


def _slider_range(parameter: ts.Integer | ts.Number, default: float) -> dict[str, float]:
    is_integer = isinstance(parameter, ts.Integer)
    low, high = _slider_ends(parameter, default)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / SLIDER_MIN_STEPS))
    if high == parameter.below:
        step /= 10  # a discount of 0.999 is not one of 0.99
    if is_integer:
        step = max(step, 1.0)
    if low == parameter.above:
        low += step
    if high == parameter.below:
        high -= step
    slider = {"low": low, "high": high, "step": step}
    return {k: int(end) if is_integer else float(f"{end:.10g}") for k, end in slider.items()}


def _slider_ends(parameter: ts.Integer | ts.Number, default: float) -> tuple[float, float]:
    least = next(end for end in (parameter.low, parameter.above, -math.inf) if end is not None)
    most = next(end for end in (parameter.high, parameter.below, math.inf) if end is not None)
    near = FULL_RANGE_MAX_DEFAULTS * max(abs(default), 1.0)
    low = max(min(0.0, SLIDER_END_DEFAULTS * default), least)
    if default - least <= near:
        low = least
    high = max(SLIDER_END_DEFAULTS * default, 10.0 if isinstance(parameter, ts.Integer) else 0.0)
    high = min(high or 1.0, most)
    if most - default <= near and most <= FULL_RANGE_MAX_DEFAULTS:
        high = most
    return low, high
