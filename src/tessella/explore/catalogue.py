"""The models on offer, and a slider for each of their parameters.

The range of a parameter ends far beyond use; a slider runs over the part of it around the default:

    from max(low, min(0, 4 x default)) to min(high, 4 x default),

or from end to end where that is not much more, in steps of a power of ten. The number beside it may
be any of the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tessella.errors import ArgumentError
from tessella.grid import at_most
from tessella.mdp.model import MDP
from tessella.problems.benchmarks import BENCHMARKS
from tessella.problems.parameter import Choice, Integer, Integers, Number, Numbers, Parameter
from tessella.problems.problem import Problem
from tessella.problems.ranges import DISCOUNT
from tessella.problems.registry import ZOO, all_problems

if TYPE_CHECKING:
    from tessella.solvers.solution import Solution

OWN = "own"  # the model that the explorer was started with
WIDE = 4.0  # a slider's far end, in defaults
WHOLE = 20.0  # a range up to so many defaults wide is a slider from end to end
STEPS = 100  # of a slider, at least

Opener = Callable[[Mapping[str, Any]], "MDP | Solution"]


class Catalogue:
    """Problems by name, and the model that the explorer was started with.

    Args:
        own: opens that model with other settings; None where there is none.
        most_states: a larger model is refused before it is built.
    """

    def __init__(self, own: Opener | None, most_states: int) -> None:
        self.own, self.most_states = own, most_states

    def open(self, name: str, settings: Mapping[str, Any]) -> MDP | Solution:
        """The model called ``name`` with these settings; a name never imports anything."""
        with at_most(self.most_states):
            if name == OWN and self.own is not None:
                found = self.own(settings)
            else:
                known = self._problem(name)
                found = known.build(**known.settings(**settings))  # 'name' is no setting
        states = _model_of(found).n_states
        if states > self.most_states:  # a file that held it already
            rule = f"a model has at most {self.most_states:,} states here"
            raise ArgumentError(rule, value=f"this one has {states:,}")
        return found

    def _problem(self, name: str) -> Problem:
        for known in all_problems():
            if name in (known.name, *known.aliases):
                return known
        raise ArgumentError("no problem on offer has this name", value=f"got {name[:60]!r}")

    @cached_property
    def offers(self) -> list[dict[str, Any]]:
        """What the page lists: the own model first."""
        own = [] if self.own is None else [self._own_offer(self.own)]
        return [*own, *(_offer(known) for known in all_problems())]

    def _own_offer(self, own: Opener) -> dict[str, Any]:
        with at_most(self.most_states):
            found = own({})
        mdp = _model_of(found)
        return {
            "name": OWN,
            "label": mdp.name or "your model",
            "title": "The model that the explorer was started with",
            "group": "Yours",
            "parameters": _parameters_of(mdp) if found is mdp else [],
            "theory": [],
        }


def _model_of(found: MDP | Solution) -> MDP:
    return found if isinstance(found, MDP) else found.mdp


def _offer(known: Problem) -> dict[str, Any]:
    return {
        "name": known.name,
        "label": known.name,
        "title": known.title,
        "group": _group(known),
        "parameters": [slider(p) for p in known.settable],
        "theory": [{"structure": t.structure, "says": t.says} for t in known.theory],
    }


def _group(known: Problem) -> str:
    if known.name in BENCHMARKS:
        return "The paper's eleven"
    return "Zoo" if known in ZOO else "Families"


def _parameters_of(mdp: MDP) -> list[dict[str, Any]]:
    """Sliders of a model from a file: those of its problem, or ones around its numbers."""
    for known in all_problems():
        if mdp.parameters and {p.name for p in known.parameters} == set(mdp.parameters):
            return [slider(known.parameter(n), value) for n, value in mdp.parameters.items()]
    return [_guessed_slider(mdp, name, value) for name, value in mdp.parameters.items()]


def _guessed_slider(mdp: MDP, name: str, value: Any) -> dict[str, Any]:
    """A slider around a number of which no range is known; one below 1 may be a probability."""
    said = slider(_guessed(mdp, name, value), value)
    if isinstance(value, float) and 0 < value < 1:
        said["high"] = min(said["high"], 1.0)
    return said


def _guessed(mdp: MDP, name: str, value: Any) -> Parameter:
    about = "a parameter of the model file"
    if isinstance(value, float) and value == mdp.discount < 1:
        return Number(name, value, about, **DISCOUNT)
    if isinstance(value, str):
        return Choice(name, value, about, options=(value,))
    if isinstance(value, list | tuple):
        return Numbers(name, value, about)
    return (Integer if isinstance(value, int) else Number)(name, value, about)


def slider(parameter: Parameter, default: Any = None) -> dict[str, Any]:
    """A parameter for the page: what it is, and how far its slider goes."""
    default = parameter.default if default is None else default
    said = {"name": parameter.name, "kind": parameter.kind, "about": parameter.about}
    said |= {"range": parameter.range, "default": default}
    if isinstance(parameter, Choice):
        return said | {"options": list(parameter.options)}
    if isinstance(parameter, Integers | Numbers):
        return said | {"default": list(default)}
    assert isinstance(parameter, Integer | Number)
    return said | _span(parameter, float(default), whole=isinstance(parameter, Integer))


def _span(parameter: Integer | Number, default: float, *, whole: bool) -> dict[str, Any]:
    room = max(abs(default), 1.0)
    least = parameter.low if parameter.low is not None else parameter.above
    most = parameter.high if parameter.high is not None else parameter.below
    low, high = min(0.0, WIDE * default), WIDE * default
    high = max(high, 10.0) if whole else (high if high > 0 else 1.0)
    if least is not None:
        low = least if 0 <= default - least <= WHOLE * room else max(low, least)
    if most is not None:
        high = most if most - default <= WHOLE * room and most <= WHOLE else min(high, most)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / STEPS))
    step /= 10 if parameter.below == high else 1  # a discount of 0.999 is not one of 0.99
    step = max(step, 1.0) if whole else step
    low += step if low == parameter.above else 0.0
    high -= step if high == parameter.below else 0.0
    kind = int if whole else _rounded
    return {"low": kind(low), "high": kind(high), "step": kind(step)}


def _rounded(number: float) -> float:
    return float(f"{number:.10g}")
