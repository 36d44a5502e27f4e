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

    sign: int  # 1 of rewards, -1 of costs
    reward: str  # the payment of a period
    value: str  # the value of a policy
    gain: str  # its average per period
    loss: str  # the difference between a policy and the optimum
    goal: str  # what the optimum has
    value_verb: str  # between a policy and its value
    worth_verb: str  # between a policy and what it adds
    earn_verb: str  # between several policies and their averages
    gain_verb: str  # between the optimum and what it is better by
    improvement_verb: str  # the past participle for the amount of an improvement
    loss_verb: str  # the past participle for the amount of a loss

    def display(self, reward: Any) -> Any:
        """A reward or value, a number or an array, in the terms in which the model is stated."""
        return self.sign * reward

    def display_interval(self, lower: float, upper: float) -> tuple[float, float]:
        """The two ends of an interval of rewards, the lower one first."""
        return (lower, upper) if self.sign > 0 else (-upper, -lower)

    @property
    def is_cost(self) -> bool:
        return self.sign < 0

    @property
    def rewards(self) -> str:
        """``rewards`` or ``costs``, as files and replies state it."""
        return f"{self.reward}s"


REWARDS = Sense(
    *(1, "reward", "value", "gain", "loss", "most reward"),
    *("reaches", "is worth", "earn", "gains", "gained", "lost"),
)
COSTS = Sense(
    *(-1, "cost", "cost", "cost", "extra cost", "least cost"),
    *("costs", "costs", "cost", "saves", "saved", "spent"),
)


def sense_of(minimise: bool) -> Sense:
    """The sense of a model that is stated in costs, or not."""
    return COSTS if minimise else REWARDS
