"""What a structure test returns: not only whether the structure is there, but what shows it.

``if monotone(t, "stock"):`` works, since evidence is true when the structure holds; when it does
not, each row of ``violations`` lists states that contradict it together, and ``describe`` names
the first row, in one line however many states and axes there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.tessellation.tessellate import Tessellation

LINE_MAX_CHARACTERS = 130  # characters; what does not fit is in ``violations``
NO_VIOLATIONS = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Evidence(ABC):
    """The outcome of one structure test.

    Attributes:
        tessellation: what was tested.
        violations: (m, k) flat indices; the k states of a row cannot stand together if the
            structure holds. Pairs, k = 2, unless the test says otherwise.
    """

    tessellation: Tessellation = field(repr=False)
    violations: NDArray[np.int64] = field(repr=False)

    @property
    def holds(self) -> bool:
        return len(self.violations) == 0

    @property
    @abstractmethod
    def claim(self) -> str:
        """The structure in words: ``order falls in stock``."""

    def describe(self) -> str:
        """One line: the claim and, if it fails, how often and the first contradiction."""
        if self.holds:
            return _fit_to_line(f"{self.claim}: holds{self._describe_finding()}")
        violation = self._describe_violation(self.violations[0])
        return _fit_to_line(f"{self.claim}: fails{self._describe_count()}; {violation}")

    def _describe_finding(self) -> str:
        """What there is to say of a structure that holds."""
        return ""

    def _describe_count(self) -> str:
        n_violations, n_states = self.violations.shape
        if n_states > 2:  # one contradiction among many states, not a count of pairs
            return ""
        return f" in {n_violations:,} place" + "s" * (n_violations > 1)

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        """One contradiction in words."""
        t = self.tessellation
        return " but ".join(f"{t.action_of(s)} at {t.grid.describe(s)}" for s in states)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return self.describe()


def require_numeric_actions(tessellation: Tessellation, subject: str) -> None:
    """Refuse to read an order into actions that are names."""
    if tessellation.quantities is None:
        requirement = f"{subject} needs actions that are numbers: names have no order"
        raise ArgumentError(
            requirement, location=tessellation.action_name, value=f"has {tessellation.actions[0]!r}"
        )


def _fit_to_line(text: str) -> str:
    text = " ".join(text.split())
    return (
        text
        if len(text) <= LINE_MAX_CHARACTERS
        else text[: LINE_MAX_CHARACTERS - 3].rsplit(" ", 1)[0] + " ..."
    )
