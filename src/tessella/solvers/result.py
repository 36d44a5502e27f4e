"""What the loop finds, for an optimum and for a policy alike: a value, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.pulled import in_numpy, pulls


@dataclass(frozen=True, eq=False)
class History:
    """How it went; one entry for each sweep."""

    bound: NDArray[np.float64]  # (n,) bound on the error of the value
    changed: NDArray[np.int64]  # (n,) states whose greedy action changed
    seconds: NDArray[np.float64]  # (n,) since the start; even within one compiled stretch

    def __len__(self) -> int:
        return len(self.bound)

    def then(self, other: History) -> History:
        """This, and another run that went on from there."""
        spent = self.seconds[-1] if len(self) else 0.0
        return History(
            np.concatenate([self.bound, other.bound]),
            np.concatenate([self.changed, other.changed]),
            np.concatenate([self.seconds, spent + other.seconds]),
        )


class Precision(NamedTuple):
    """How well values and their comparisons are known."""

    error: float  # on |V - V*|, or on |h - h*|, both 0 in the first state; inf: nothing is known
    tie: float  # action values nearer than this are not told apart


@pulls("value")
@dataclass(frozen=True, eq=False)
class Result:
    """A value, enclosed.

    Attributes:
        value: (grid) the value that is sought lies within ``error_bound`` of it, in every state.
        error_bound: rounding included.
        gain: reward per period, where that is the criterion. Then ``error_bound`` is that of the
            gain, and the values are relative: 0 in the first state.
        converged: whether the tolerance was met; ``reason`` says why the iteration ended.
        table: (grid) the policy, where elimination found it: rounded values do not tell it.
    """

    value: NDArray[np.float64]
    error_bound: float
    converged: bool
    reason: str
    history: History
    gain: float | None = field(default=None, kw_only=True)
    table: NDArray[np.int32] | None = field(default=None, kw_only=True)

    def stored(self, name: str) -> Any:
        """An array as it is held: NumPy's, or one on the device."""
        return vars(self)[name]

    def part(self, name: str, index: Any) -> NDArray:
        """Part of an array, without pulling the rest from the device.

        ``part("value", np.s_[:9])`` is ``value[:9]``.
        """
        return np.asarray(self.stored(name)[index])

    def __getstate__(self) -> dict[str, Any]:
        return in_numpy(self)

    @property
    def cost(self) -> NDArray[np.float64] | float:
        """(grid) the value as a cost; of an average the cost per period."""
        return -self.value if self.gain is None else -self.gain

    def average(self, minimise: bool) -> str:
        """The gain, or the cost, in words; of one that is not known well, what encloses it."""
        assert self.gain is not None
        gain, off = -self.gain if minimise else self.gain, self.error_bound
        if self.converged:
            return f"{gain:.8g} per period, off by at most {off:.2g}"
        return f"between {gain - off:.8g} and {gain + off:.8g} per period"

    @property
    def sweeps(self) -> int:
        return len(self.history)

    @property
    def ending(self) -> str:
        """``converged``, or why not."""
        return "converged" if self.converged else f"not converged ({self.reason})"
