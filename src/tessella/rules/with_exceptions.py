"""A rule plus exceptions: a small rule, and some states by name that do otherwise.

An exception stores the state's coordinates and its action. Those that save most come first, which
is the best for a given rule; which rule to begin with is searched for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tessella.errors import format_value
from tessella.mdp.actions import describe_action
from tessella.mdp.rule_tree import Exceptions
from tessella.rules.linear_cuts import LinearCuts
from tessella.rules.one_action import OneAction
from tessella.rules.order_up_to import OrderUpTo
from tessella.rules.rule_class import Costs, Fitted, RuleClass, pareto_front

MAX_EXCEPTIONS = 40  # exceptions
EXCEPTIONS_MAX_STATES = 20_000  # states, beyond which none is worth naming


@dataclass(frozen=True)
class WithExceptions(RuleClass):
    """Rules of other classes, with states that do otherwise.

    Attributes:
        bases: the classes of the rules that exceptions are made to.
    """

    bases: tuple[RuleClass, ...] = field(default=(OneAction(), OrderUpTo(), LinearCuts()))
    name: ClassVar[str] = "rule with exceptions"

    def why_not_applicable(self, costs: Costs) -> str:
        if costs.grid.size > EXCEPTIONS_MAX_STATES:
            return f"a few of {costs.grid.size:,} states, named one by one, make no difference"
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        return "which rule to make exceptions to is searched for"

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        exception_size = costs.grid.ndim + 1
        results: list[Fitted] = []
        for base in self.bases:
            if not base.why_not_applicable(costs):
                for candidate in base.fit(costs, most - exception_size, target):
                    results += _add_exceptions(
                        costs,
                        candidate,
                        min((most - candidate.size) // exception_size, MAX_EXCEPTIONS),
                        target,
                    )
        return pareto_front(results)


def _add_exceptions(costs: Costs, base: Fitted, max_exceptions: int, target: float) -> list[Fitted]:
    """The rule with 1, 2, ... exceptions, until it costs no more than the target."""
    if max_exceptions < 1:
        return []
    chosen = base.program(costs.grid)(costs.grid.points)
    all_states = np.arange(len(chosen))
    exception_size = costs.grid.ndim + 1
    savings = costs.by_state[all_states, chosen] - costs.by_state.min(axis=1)
    costliest = np.argsort(-savings, kind="stable")[:max_exceptions]
    costliest = costliest[savings[costliest] > 0]
    remaining_cost = base.cost - np.cumsum(savings[costliest])
    n_needed = (
        int(np.argmax(remaining_cost <= target)) + 1
        if (remaining_cost <= target).any()
        else len(costliest)
    )
    best_actions = costs.by_state.argmin(axis=1)
    coordinates = costs.grid.coordinates(costliest)
    states = list(zip(*(values.tolist() for values in coordinates.values()), strict=True))
    candidates = []
    for n in range(1, n_needed + 1):
        actions = tuple(int(a) for a in best_actions[costliest[:n]])
        root = Exceptions(tuple(states[:n]), actions, base.root)
        sentence = _words(costs, base, states[:n], actions)
        candidates.append(
            Fitted(
                root,
                base.size + exception_size * n,
                max(float(remaining_cost[n - 1]), 0.0),
                sentence,
            )
        )
    return candidates


def _words(costs: Costs, rule: Fitted, places: list[tuple], actions: tuple[int, ...]) -> str:
    """The sentence of the rule, and a line for each exception; empty where it has no sentence."""
    if not rule.sentence:
        return ""
    lines = [rule.sentence, "Except:"]
    for place, action in zip(places, actions, strict=True):
        state = zip(costs.grid.axes, place, strict=True)
        where = ", ".join(f"{name}={format_value(value)}" for name, value in state)
        lines.append(f"{describe_action(costs.action_name, costs.actions[action])} where {where}")
    return "\n".join(lines)
