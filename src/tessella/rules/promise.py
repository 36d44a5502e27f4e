"""What is promised: a loss of at most ``most``, on average from a start or from the worst state.

A relative promise is a share of |J(pi*)|, the size of the optimal value from the start, as
``relative_loss`` of a certificate is; or of J(pi*) - J(random), what the optimum gains over taking
every feasible action as often. A promise of 0 is kept by rules that nobody can tell from optimal:
``resolution`` is what ties and the error of the solution may hide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.errors import ArgumentError, is_number
from tessella.rules.judge import Judge, Judged
from tessella.solvers.solution import Solution

Scale = Literal["optimal", "random"]


@dataclass(frozen=True, eq=False)
class Promise:
    """A loss that a rule must keep within.

    Attributes:
        loss: as it was asked for.
        most: in the model's own units.
        worst: whether it is about the worst state, and not the mean over the start.
        unit: what a loss is divided by to be told as it was asked for; 1 for an absolute loss.
        relative_to: "optimal" or "random", or "" for an absolute loss.
        resolution: losses up to this cannot be told from 0.
        start: (S,) distribution of the first state.
    """

    loss: float
    most: float
    worst: bool
    unit: float
    relative_to: str
    resolution: float
    start: NDArray[np.float64]

    def of(self, judged: Judged) -> float:
        """The loss that the promise is about."""
        return judged.worst if self.worst else judged.mean

    def kept_by(self, judged: Judged) -> bool:
        """Whether a rule seems to keep it; a certificate has the last word."""
        return self.of(judged) <= max(self.most * (1 - 1e-9), self.resolution / 2)

    def certified(self, certificate: Certificate) -> bool:
        """Whether a certificate proves that it is kept."""
        figure = certificate.worst_loss if self.worst else certificate.mean_loss
        return figure.upper <= max(self.most, self.resolution)

    @property
    def nothing(self) -> bool:
        """Whether it allows no loss at all."""
        return self.most <= self.resolution

    def __str__(self) -> str:
        where = "from the worst state" if self.worst else "on average from the start"
        if not self.relative_to:
            return f"a loss of at most {self.loss:.6g} {where}"
        over = "" if self.relative_to == "optimal" else " over random actions"
        return f"a loss of at most {self.loss:.4%} of the optimal value{over} {where}"


def promise(
    solution: Solution,
    judge: Judge,
    loss: float,
    worst: bool,
    relative: bool,
    relative_to: Scale,
) -> Promise:
    """A checked promise for the model of a solution."""
    if not (is_number(loss) and loss >= 0):
        raise ArgumentError("a promised loss is a number, at least 0", value=f"got {loss!r}")
    if relative_to not in ("optimal", "random"):
        rule = "a loss is relative to 'optimal' or to 'random'"
        raise ArgumentError(rule, value=f"got {relative_to!r}")
    unit = _unit(solution, judge, relative_to) if relative else 1.0
    ties = solution.mdp.criterion.forever(2 * solution.tie_tolerance)
    return Promise(
        loss=float(loss),
        most=float(loss) * unit,
        worst=worst,
        unit=unit,
        relative_to=relative_to if relative else "",
        resolution=float(ties + 4 * solution.error_bound),
        start=judge.start,
    )


def _unit(solution: Solution, judge: Judge, relative_to: Scale) -> float:
    optimal = float(judge.start @ solution.value.ravel())
    unit = abs(optimal) if relative_to == "optimal" else optimal - judge.random()
    # An optimum that is not known exactly makes the unit no larger than it surely is.
    unit -= solution.error_bound * (1 + 1e-9)
    if not unit > 0:
        rule = "a relative loss needs an optimal value other than 0; say relative=False"
        raise ArgumentError(rule, value=f"it is {optimal:.3g}")
    return unit
