"""What was solved and made for the page, kept while there is room.

Every request says all that it is about, so whatever was dropped is made again: an answer never
depends on what was asked before.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from tessella.certificates.loss import loss
from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.catalogue import Catalogue
from tessella.mdp.policy import Policy
from tessella.mdp.start import start_distribution
from tessella.plot.colours import action_colours
from tessella.rules.compress import compress
from tessella.rules.proof import Proof, prove
from tessella.rules.rule import Rule
from tessella.solvers.occupancy import occupancy
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve
from tessella.tessellation import tessellate

MOST_NUMBERS = 30_000_000  # of all solutions that are kept
MOST_POLICIES = 32
KINDS = ("optimal", "rule", "learned")


@dataclass(frozen=True, eq=False)
class Solved:
    """A model with its solution, and what is worked out of it when first asked for."""

    key: str
    solution: Solution

    @cached_property
    def second(self) -> NDArray[np.int32]:
        """(grid) the second-best action; -1 where only one is feasible."""
        q = self.solution.q
        if q.shape[-1] == 1:
            return np.full(q.shape[:-1], -1, dtype=np.int32)
        others = q.copy()
        np.put_along_axis(others, self.solution.policy.table[..., None], -np.inf, axis=-1)
        best = others.argmax(axis=-1).astype(np.int32)
        return np.where(np.isfinite(others.max(axis=-1)), best, -1).astype(np.int32)

    @cached_property
    def visits(self) -> NDArray[np.float64]:
        """(grid) share of time in each state under the optimal policy."""
        return occupancy(self.solution.mdp, self.solution.policy).share

    def loss(self, policy: Policy) -> NDArray[np.float64]:
        """(grid) V* - V_policy, by evaluation."""
        return loss(self.solution, policy).by_state

    def local_loss(self, policy: Policy) -> NDArray[np.float64]:
        """(grid) V* - Q*(s, policy(s)), 0 where the action ties with the best one."""
        q = self.solution.q
        taken = np.take_along_axis(q, policy.table[..., None], axis=-1)[..., 0]
        return np.where(self.solution.ties(policy.table), 0.0, q.max(axis=-1) - taken)

    def worse(self, policy: Policy) -> NDArray[np.bool_]:
        """(grid) whether a policy's action is surely worse than the best one."""
        return ~self.solution.ties(policy.table)

    @property
    def numbers(self) -> int:
        mdp = self.solution.mdp
        return mdp.n_states * (mdp.n_actions + 6)


@dataclass(frozen=True, eq=False)
class Made:
    """A policy that was made from a solution, and what it surely loses."""

    policy: Policy
    proof: Proof | None


class Session:
    """Solutions and policies by what was asked."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._solved: OrderedDict[str, Solved] = OrderedDict()
        self._made: OrderedDict[str, Made] = OrderedDict()
        self._colours: OrderedDict[str, list[str]] = OrderedDict()

    def solved(self, asked: Asked) -> Solved:
        """The solution of the model that a request names."""
        name, settings = asked.text("model"), asked.mapping("settings")
        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._solved:
            found = self.catalogue.open(name, settings)
            solution = found if isinstance(found, Solution) else solve(found)
            self._solved[key] = Solved(key, solution)
            self._make_room(self._solved, lambda kept: kept.numbers, MOST_NUMBERS)
        self._solved.move_to_end(key)
        return self._solved[key]

    def made(self, known: Solved, asked: Asked | None) -> Made:
        """The policy that a request names; the optimal one where it names none."""
        kind = "optimal" if asked is None else asked.choice("kind", KINDS)
        if asked is None or kind == "optimal":
            return Made(known.solution.policy, None)
        key = json.dumps([known.key, dict(asked.fields)], sort_keys=True)
        if key not in self._made:
            make = _rule if kind == "rule" else _learned
            self._made[key] = make(known.solution, asked)
            self._make_room(self._made, lambda made: 1, MOST_POLICIES)
        self._made.move_to_end(key)
        return self._made[key]

    def colours(self, known: Solved) -> list[str]:
        """A colour for each action; models of the same actions share theirs."""
        actions = str(known.solution.mdp.actions)
        if actions not in self._colours:
            palette = action_colours(tessellate(known.solution))
            self._colours[actions] = [to_hex(palette(k)) for k in range(palette.N)]
            self._make_room(self._colours, lambda made: 1, MOST_POLICIES)
        return self._colours[actions]

    def rule(self, known: Solved, asked: Asked | None) -> Rule:
        policy = self.made(known, asked).policy
        if not isinstance(policy, Rule):
            raise ArgumentError("this needs a policy of the kind 'rule'")
        return policy

    @staticmethod
    def _make_room(kept: OrderedDict[str, Any], size: Callable[[Any], int], most: int) -> None:
        total = sum(map(size, kept.values()))
        while total > most and len(kept) > 1:
            total -= size(kept.popitem(last=False)[1])


def _rule(solution: Solution, asked: Asked) -> Made:
    rule = compress(
        solution,
        asked.number("loss", 0.01, 0.0, 1.0),
        worst=asked.flag("worst"),
        time_limit=asked.number("seconds", 10.0, 0.1, 60.0),
    )
    return Made(rule, None)


def _learned(solution: Solution, asked: Asked) -> Made:
    from tessella.explore.learning import learned  # scikit-learn takes a second to load

    policy = learned(solution, asked)
    return Made(policy, proven(solution, policy))


def proven(solution: Solution, policy: Policy) -> Proof:
    """What a policy surely loses at most, from the model's own start."""
    return prove(solution, policy, start_distribution(solution.mdp, None, solution.policy))
