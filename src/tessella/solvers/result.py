"""What the loop finds, for an optimum and for a policy alike: a value, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.model import MDP
from tessella.mdp.stages.events import average_unit
from tessella.numerics import host_fields, with_host_arrays
from tessella.rounding import EPS, round_down, round_up, write_enclosed


@dataclass(frozen=True, eq=False)
class History:
    """How it went; one entry for each sweep."""

    bound: NDArray[np.float64]  # (n,) bound on the error of the value
    changed: NDArray[np.int64]  # (n,) states whose greedy action changed
    seconds: NDArray[np.float64]  # (n,) since the start; evenly spaced within a compiled batch

    def __len__(self) -> int:
        return len(self.bound)

    def followed_by(self, other: History) -> History:
        """This, and another run that went on from there."""
        seconds_before = self.seconds[-1] if len(self) else 0.0
        return History(
            np.concatenate([self.bound, other.bound]),
            np.concatenate([self.changed, other.changed]),
            np.concatenate([self.seconds, seconds_before + other.seconds]),
        )


class Status(Enum):
    """How a run ended; the value of a member is the sentence that says so."""

    CONVERGED = "bound {bound} is within the tolerance {target}"
    TOO_WIDE = "float64 leaves a bound of {bound}, too wide to be of use"
    ROUNDING_LIMIT = (
        "float64 cannot certify tol={target} for this model: rounding leaves a bound of {bound}; "
        "ask for more than that, or for tol=None"
    )
    STOPPED = "stopped by the callback after {sweeps} sweeps at bound {bound}"
    NO_PROGRESS = "more sweeps bring no more after {sweeps}, at bound {bound}, short of {target}"
    LIMIT = "{limit} at bound {bound}, short of {target}"
    BROKE_DOWN = "the run broke down after {sweeps} sweeps: its numbers are not finite"

    def describe(self, bound: float, target: float, sweeps: int, limit: str) -> str:
        """The sentence; ``limit`` says what it means that no sweep is left."""
        figures = {"bound": round_up(bound), "target": f"{target:.3g}"}
        return self.value.format(**figures, sweeps=sweeps, limit=limit)


class Precision(NamedTuple):
    """How well values and their comparisons are known."""

    error: float  # on |V - V*|, or on |h - h*|, both 0 in the first state; inf: nothing is known
    tie: float  # action values nearer than this are not told apart


@with_host_arrays("value")
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

    def get_raw(self, name: str) -> Any:
        """An array as it is held: NumPy's, or one on the device."""
        return vars(self)[name]

    def part(self, name: str, index: Any) -> NDArray:
        """Part of an array, without copying the rest from the device.

        ``part("value", np.s_[:9])`` is ``value[:9]``.
        """
        return np.asarray(self.get_raw(name)[index])

    def __getstate__(self) -> dict[str, Any]:
        return host_fields(self)

    @property
    def cost(self) -> NDArray[np.float64] | float:
        """(grid) the value as a cost; of an average the cost per period."""
        return -self.value if self.gain is None else -self.gain

    @property
    def sweeps(self) -> int:
        return len(self.history)

    @property
    def status_text(self) -> str:
        """``converged``, or why not."""
        return "converged" if self.converged else f"not converged ({self.reason})"


def write_average(mdp: MDP, result: Result) -> str:
    """``32.77 per unit of time, off by at most 4e-12``: a gain per period, in its model's terms.

    A gain that is not known well is written as the interval that contains it.
    """
    assert result.gain is not None
    times, unit = average_unit(mdp.clock)
    average = (-times if mdp.minimise else times) * result.gain
    error = times * result.error_bound * (1 + EPS) + EPS * abs(average)
    if not result.converged:
        return f"between {round_down(average - error, 8)} and {round_up(average + error, 8)} {unit}"
    text, off = write_enclosed(average, error)
    return f"{text} {unit}, off by at most {off}"
