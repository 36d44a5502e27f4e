"""What is to be written: a rule in comparisons, with the names and facts that its file states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted, format_value
from tessella.mdp.actions import components, describe_action
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import Node
from tessella.rounding import round_up
from tessella.rules.export.comparisons import axis_ends, is_text_axis, to_comparisons, to_rule_tree
from tessella.rules.loss_target import describe_loss_reference

OffGrid = Literal["clamp", "refuse"]
InputRows = Mapping[str, Sequence]  # axis name to (n,) values, as a user would give them

REFUSED_INDEX = -1  # the answer to input that is refused
UNKNOWN_ACTION_INDEX = -2  # an answer that is none of the actions

OFF_GRID_TEXTS = {
    "clamp": "a number beyond the ends of its axis counts as the end",
    "refuse": "a number that is not one of its axis' values is refused",
}
INVALID_INPUT_TEXT = "what is no number, NaN included, and an unknown label are refused"


@dataclass(frozen=True, eq=False)
class ExportContext:
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
        """What to do, as Leaf, Split, LabelSplit and Exceptions."""
        return to_comparisons(self.grid, to_rule_tree(self.policy).root)

    @cached_property
    def action_columns(self) -> dict[str, tuple]:
        """What an action consists of: a name, and the value for each action index."""
        names = components(self.policy.actions)
        actions = self.policy.actions
        if not names:
            return {self.policy.action_name: tuple(actions)}
        return {name: tuple(action[name] for action in actions) for name in names}

    def describe_action(self, action: int) -> str:
        """``order=8``."""
        return describe_action(self.policy.action_name, self.policy.actions[action])

    def axis_labels(self, axis: str) -> tuple[str, ...]:
        """The labels of a text axis."""
        return tuple(map(str, self.grid.values[self.grid.axis(axis)]))

    def axis_values(self, axis: str) -> list[float]:
        """The values of an axis of numbers, ascending."""
        return np.sort(self.grid.numbers[self.grid.axis(axis)]).tolist()

    def indices(self, answers: Sequence[Sequence]) -> NDArray[np.int64]:
        """(n,) action indices of answers that give the value of each column."""
        known = {key: i for i, key in enumerate(zip(*self.action_columns.values(), strict=True))}
        keys = [tuple(answer) for answer in answers]
        return np.array(
            [
                REFUSED_INDEX if None in key else known.get(key, UNKNOWN_ACTION_INDEX)
                for key in keys
            ],
            dtype=np.int64,
        )

    @cached_property
    def header_lines(self) -> tuple[str, ...]:
        """What the head of a file says, line by line."""
        return (
            *self._fact_lines(),
            *self._axis_lines(),
            *self._action_lines(),
            *self._off_grid_lines(),
        )

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of a rule; of another policy, its model at most."""
        known = getattr(self.policy, "facts", {})
        if known or self.model is None:
            return known
        return {"model": self.model.name, "fingerprint": self.model.fingerprint}

    def _fact_lines(self) -> list[str]:
        facts = self.facts
        policy = self.policy
        lines = [
            f"{policy.name or 'policy'}: {counted(policy.size, 'number')}, written by tessella"
        ]
        if facts:
            lines += [f"model: {facts.get('model') or 'not named'}"]
            lines += [f"fingerprint: {facts.get('fingerprint')}"]
        if "mean_loss" in facts:
            in_costs = facts.get("told_in") == "costs"
            share = facts.get("relative_loss")
            relative = (
                ""
                if share is None
                else f" ({round_up(share, 6)} of {describe_loss_reference(in_costs)})"
            )
            lines += [f"promise: {getattr(policy, 'promise', '')}"]
            status = "certified" if facts.get("certified", True) else "proven"
            noun = "extra cost" if in_costs else "loss"
            lines += [f"{status} mean {noun}: at most {facts.get('mean_loss')!r}{relative}"]
            lines += [f"{status} {noun} from the worst state: at most {facts.get('worst_loss')!r}"]
        return lines

    def _axis_lines(self) -> list[str]:
        lines = []
        for name, values in zip(self.grid.axes, self.grid.values, strict=True):
            if is_text_axis(self.grid, name):
                lines.append(f"axis {name}: one of {', '.join(map(repr, map(str, values)))}")
            else:
                low, high = map(format_value, axis_ends(self.grid, name))
                lines.append(f"axis {name}: {len(values):,} values from {low} to {high}")
        return lines

    def _action_lines(self) -> list[str]:
        return [f"action {i}: {self.describe_action(i)}" for i in range(len(self.policy.actions))]

    def _off_grid_lines(self) -> list[str]:
        return [f"off the grid: {OFF_GRID_TEXTS[self.off_grid]}; {INVALID_INPUT_TEXT}"]
