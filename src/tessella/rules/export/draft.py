"""What is to be written: a rule in comparisons, with the names and facts that its file states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted, shown
from tessella.mdp.actions import components, described
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.program import Node
from tessella.rounding import round_up
from tessella.rules.export.lowered import is_text, lowered, program_of, span
from tessella.rules.promise import optimum

OffGrid = Literal["clamp", "refuse"]
Rows = Mapping[str, Sequence]  # axis name to (n,) values, as a user would give them

REFUSED = -1  # the answer to input that is refused
OTHER = -2  # an answer that is none of the actions

TREATED = {
    "clamp": "a number beyond the ends of its axis counts as the end",
    "refuse": "a number that is not one of its axis' values is refused",
}
ALWAYS = "what is no number, NaN included, and an unknown label are refused"


@dataclass(frozen=True, eq=False)
class Draft:
    """A policy on its way into a file.

    Attributes:
        stem: the name of the file without its suffix: what a function in it is called.
        off_grid: what becomes of input off the grid.
        model: that it decides for, where it is known; a rule knows its own.
    """

    policy: Policy
    stem: str = "rule"
    off_grid: OffGrid = "clamp"
    model: MDP | None = None

    @property
    def grid(self):
        return self.policy.grid

    @cached_property
    def root(self) -> Node:
        """What to do, as Choose, Split, Among and Except."""
        return lowered(self.grid, program_of(self.policy).root)

    @cached_property
    def columns(self) -> dict[str, tuple]:
        """What an action consists of: a name, and the value for each action index."""
        names, actions = components(self.policy.actions), self.policy.actions
        if not names:
            return {self.policy.action_name: tuple(actions)}
        return {name: tuple(action[name] for action in actions) for name in names}

    def described(self, action: int) -> str:
        """``order=8``."""
        return described(self.policy.action_name, self.policy.actions[action])

    def labels(self, axis: str) -> tuple[str, ...]:
        """The labels of a text axis."""
        return tuple(map(str, self.grid.values[self.grid.axis(axis)]))

    def values(self, axis: str) -> list[float]:
        """The values of an axis of numbers, ascending."""
        return np.sort(self.grid.numbers[self.grid.axis(axis)]).tolist()

    def indices(self, answers: Sequence[Sequence]) -> NDArray[np.int64]:
        """(n,) action indices of answers that give the value of each column."""
        known = {key: i for i, key in enumerate(zip(*self.columns.values(), strict=True))}
        said = [tuple(answer) for answer in answers]
        return np.array(
            [REFUSED if None in key else known.get(key, OTHER) for key in said], dtype=np.int64
        )

    @cached_property
    def about(self) -> tuple[str, ...]:
        """What the head of a file says, line by line."""
        return (*self._facts(), *self._axes(), *self._actions(), *self._off_grid())

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of a rule; of another policy, its model at most."""
        known = getattr(self.policy, "facts", {})
        if known or self.model is None:
            return known
        return {"model": self.model.name, "fingerprint": self.model.fingerprint}

    def _facts(self) -> list[str]:
        facts, policy = self.facts, self.policy
        lines = [
            f"{policy.name or 'policy'}: {counted(policy.size, 'number')}, written by tessella"
        ]
        if facts:
            lines += [f"model: {facts.get('model') or 'not named'}"]
            lines += [f"fingerprint: {facts.get('fingerprint')}"]
        if "mean_loss" in facts:
            costs, share = facts.get("told_in") == "costs", facts.get("relative_loss")
            relative = "" if share is None else f" ({round_up(share, 6)} of {optimum(costs)})"
            lines += [f"promise: {getattr(policy, 'promise', '')}"]
            how = "certified" if facts.get("certified", True) else "proven"
            lost = "extra cost" if costs else "loss"
            lines += [f"{how} mean {lost}: at most {facts.get('mean_loss')!r}{relative}"]
            lines += [f"{how} {lost} from the worst state: at most {facts.get('worst_loss')!r}"]
        return lines

    def _axes(self) -> list[str]:
        lines = []
        for name, values in zip(self.grid.axes, self.grid.values, strict=True):
            if is_text(self.grid, name):
                lines.append(f"axis {name}: one of {', '.join(map(repr, map(str, values)))}")
            else:
                low, high = map(shown, span(self.grid, name))
                lines.append(f"axis {name}: {len(values):,} values from {low} to {high}")
        return lines

    def _actions(self) -> list[str]:
        return [f"action {i}: {self.described(i)}" for i in range(len(self.policy.actions))]

    def _off_grid(self) -> list[str]:
        return [f"off the grid: {TREATED[self.off_grid]}; {ALWAYS}"]
