"""Rewards or costs: the one place where a sign is flipped.

A model stated in costs is computed as one of rewards, ``r = -c``: every value in it is a reward.
Whoever shows a number to a person or writes it for a program passes it through ``Sense.display``,
and takes the word for it from the same object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sense:
    """How a model is stated, and the words that go with it.

    Attributes:
        sign: 1 of rewards, -1 of costs.
        unit: what a period brings, ``reward`` or ``cost``.
        value: what a policy is judged by.
        loss: what a policy has less of, or pays more of, than the optimum.
        earns: the verb of a policy and its value.
        saved: what a change for the better did with the difference.
    """

    sign: int
    unit: str
    value: str
    loss: str
    earns: str
    saved: str

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
    def units(self) -> str:
        """``rewards`` or ``costs``, as files and replies state it."""
        return f"{self.unit}s"


REWARDS = Sense(1, "reward", "value", "loss", "reaches", "gained")
COSTS = Sense(-1, "cost", "cost", "extra cost", "costs", "saved")


def sense_of(minimise: bool) -> Sense:
    """The sense of a model that is stated in costs, or not."""
    return COSTS if minimise else REWARDS
