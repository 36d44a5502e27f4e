"""Objective sense, rewards or costs: the only place where a sign is flipped.

A model stated in costs is computed as one of rewards, ``r = -c``: every value in it is a reward.
Code that displays a number or writes it to a file converts it with ``Sense.display`` and takes the
words for it from the same object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sense:
    """How a model is stated, and the words that go with it: those of rewards, or those of costs."""

    sign: int  # 1 for rewards, -1 for costs
    reward: str  # the payment of a period
    value: str  # the value of a policy
    gain: str  # its average per period
    loss: str  # the difference between a policy and the optimum
    goal: str  # the property of an optimal policy
    value_verb: str  # as in "a policy reaches a value of 5"
    worth_verb: str  # as in "a rule is worth 5"
    earn_verb: str  # as in "the policies earn 5 per period"
    gain_verb: str  # as in "the optimum gains 5"
    improvement_verb: str  # the past participle for the amount of an improvement
    loss_verb: str  # the past participle for the amount of a loss

    def display(self, reward: Any) -> Any:
        """A reward or value, a number or an array, in the terms in which the model is stated."""
        return self.sign * reward + 0.0  # a reward of 0 is a cost of 0, not of -0

    def display_interval(self, lower: float, upper: float) -> tuple[float, float]:
        """The two ends of an interval of rewards, the lower one first."""
        return (lower, upper) if self.sign > 0 else (-upper, -lower)

    @property
    def is_cost(self) -> bool:
        return self.sign < 0

    @property
    def rewards_noun(self) -> str:
        """``rewards`` or ``costs``, as files and replies state it."""
        return f"{self.reward}s"


REWARDS = Sense(
    sign=1,
    reward="reward",
    value="value",
    gain="gain",
    loss="loss",
    goal="most reward",
    value_verb="reaches",
    worth_verb="is worth",
    earn_verb="earn",
    gain_verb="gains",
    improvement_verb="gained",
    loss_verb="lost",
)
COSTS = Sense(
    sign=-1,
    reward="cost",
    value="cost",
    gain="cost",
    loss="extra cost",
    goal="least cost",
    value_verb="costs",
    worth_verb="costs",
    earn_verb="cost",
    gain_verb="saves",
    improvement_verb="saved",
    loss_verb="spent",
)


def sense_of(minimise: bool) -> Sense:
    """The sense of a model that is stated in costs, or not."""
    return COSTS if minimise else REWARDS
