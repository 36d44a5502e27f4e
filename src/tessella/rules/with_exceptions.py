"""A rule plus exceptions: a small rule, and some states by name that do otherwise.

An exception stores the state's coordinates and its action. Those that save most come first, which
is the best for a given rule; which rule to begin with is searched for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tessella.errors import shown
from tessella.mdp.actions import described
from tessella.mdp.program import Except
from tessella.rules.linear_cuts import LinearCuts
from tessella.rules.one_action import OneAction
from tessella.rules.order_up_to import OrderUpTo
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

MOST = 40  # exceptions
LARGEST = 20_000  # states, beyond which none is worth naming


@dataclass(frozen=True)
class WithExceptions(RuleClass):
    """Rules of other classes, with states that do otherwise.

    Attributes:
        bases: the classes of the rules that exceptions are made to.
    """

    bases: tuple[RuleClass, ...] = field(default=(OneAction(), OrderUpTo(), LinearCuts()))
    name: ClassVar[str] = "rule with exceptions"

    def refusal(self, costs: Costs) -> str:
        if costs.grid.size > LARGEST:
            return f"a few of {costs.grid.size:,} states, named one by one, make no difference"
        return ""

    def heuristic(self, costs: Costs) -> str:
        return "which rule to make exceptions to is searched for"

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        each = costs.grid.ndim + 1
        found: list[Fitted] = []
        for base in self.bases:
            if not base.refusal(costs):
                for rule in base.fit(costs, most - each, target):
                    found += _excepted(costs, rule, min((most - rule.size) // each, MOST), target)
        return falling(found)


def _excepted(costs: Costs, rule: Fitted, most: int, target: float) -> list[Fitted]:
    """The rule with 1, 2, ... exceptions, until it costs no more than the target."""
    if most < 1:
        return []
    taken = rule.program(costs.grid)(costs.grid.points)
    everyone, each = np.arange(len(taken)), costs.grid.ndim + 1
    saved = costs.by_state[everyone, taken] - costs.by_state.min(axis=1)
    worst = np.argsort(-saved, kind="stable")[:most]
    worst = worst[saved[worst] > 0]
    left = rule.cost - np.cumsum(saved[worst])
    enough = int(np.argmax(left <= target)) + 1 if (left <= target).any() else len(worst)
    better = costs.by_state.argmin(axis=1)
    where = costs.grid.coordinates(worst)
    places = list(zip(*(values.tolist() for values in where.values()), strict=True))
    made = []
    for n in range(1, enough + 1):
        actions = tuple(int(a) for a in better[worst[:n]])
        root = Except(tuple(places[:n]), actions, rule.root)
        words = _words(costs, rule, places[:n], actions)
        made.append(Fitted(root, rule.size + each * n, max(float(left[n - 1]), 0.0), words))
    return made


def _words(costs: Costs, rule: Fitted, places: list[tuple], actions: tuple[int, ...]) -> str:
    """The sentence of the rule, and a line for each exception; empty where it has no sentence."""
    if not rule.words:
        return ""
    lines = [rule.words, "Except:"]
    for place, action in zip(places, actions, strict=True):
        state = zip(costs.grid.axes, place, strict=True)
        where = ", ".join(f"{name}={shown(value)}" for name, value in state)
        lines.append(f"{described(costs.action_name, costs.actions[action])} where {where}")
    return "\n".join(lines)
