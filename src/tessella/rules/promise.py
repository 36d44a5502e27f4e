"""What is promised: a loss of at most ``most``, on average from a start or from the worst state.

A relative promise is a share of |J(pi*)|, the size of the optimal value from the start, as
``relative_loss`` of a certificate is; or of J(pi*) - J(random), what the optimum gains over taking
every feasible action as often. A promise of 0 is kept by rules that nobody can tell from optimal:
``resolution`` is what ties and the error of the solution may hide. Any other promise is kept as it
stands, and refused where the solution is not known well enough to keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, is_number, shown
from tessella.rounding import round_up
from tessella.rules.judge import Judge, Judged
from tessella.rules.proof import Proof
from tessella.solvers.operators import SMALLEST
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
        tolerance: how exact a solution must be for losses of ``most`` to be told from 0.
        start: (S,) distribution of the first state.
        lasting: whether it is about an average, which is the same from every state.
        minimise: whether the model was told in costs; then it speaks of them.
    """

    loss: float
    most: float
    worst: bool
    unit: float
    relative_to: str
    resolution: float
    tolerance: float
    start: NDArray[np.float64]
    lasting: bool = False
    minimise: bool = False

    def of(self, judged: Judged) -> float:
        """The loss that the promise is about."""
        return judged.worst if self.worst else judged.mean

    def kept_by(self, judged: Judged) -> bool:
        """Whether a rule seems to keep it; a proof has the last word."""
        return self.of(judged) <= (self.most * (1 - 1e-9) if self.loss else self.resolution / 2)

    def proven(self, proof: Proof) -> bool:
        """Whether it is proven to be kept."""
        figure = proof.worst if self.worst else proof.mean
        return figure <= (self.most if self.loss else self.resolution)

    @property
    def nothing(self) -> bool:
        """Whether it allows no loss that can be told from 0."""
        return self.most <= self.resolution

    @property
    def hint(self) -> str:
        """What to do where the solution is too rough to tell such a loss from 0; or empty."""
        if not self.loss or not self.nothing:
            return ""
        return f"the solution is too rough for it: solve to a tolerance of {self.tolerance:.0e}"

    def __str__(self) -> str:
        where = "from the worst state" if self.worst else "on average from the start"
        where = "per period" if self.lasting else where
        lost = "an extra cost" if self.minimise else "a loss"
        if not self.relative_to:
            return f"{lost} of at most {shown(self.loss)} {where}"
        share = f"{shown(100 * self.loss)}% of {optimum(self.minimise, self.relative_to)}"
        return f"{lost} of at most {share} {where}"


def optimum(minimise: bool, relative_to: str = "optimal") -> str:
    """What a relative loss is a share of, in words."""
    if relative_to == "random":
        return f"what the optimum {'saves' if minimise else 'gains'} over random actions"
    return "the optimal cost" if minimise else "the optimal value"


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
    refuse_no_flag("worst", worst)
    refuse_no_flag("relative", relative)
    if relative_to not in ("optimal", "random"):
        rule = "a loss is relative to 'optimal' or to 'random'"
        raise ArgumentError(rule, value=f"got {relative_to!r}")
    unit = _unit(solution, judge, relative_to) if relative else 1.0
    ties, error = judge.longest() * 2 * judge.tie, solution.error_bound
    most, resolution = float(loss) * unit, max(float(ties + 4 * error), SMALLEST)
    made = Promise(
        loss=float(loss),
        most=most,
        worst=bool(worst),
        unit=unit,
        relative_to=relative_to if relative else "",
        resolution=resolution,
        tolerance=error * most / resolution / 2,
        start=judge.start,
        lasting=judge.lasting,
        minimise=solution.mdp.minimise,
    )
    if loss and error > most:
        rule = f"a promise must be larger than the error of the solution; {made.hint}"
        raise ArgumentError(rule, value=f"promised are {most:.3g}, the error is {round_up(error)}")
    return made


def refuse_no_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} is True or False", value=f"got {value!r}")


def _unit(solution: Solution, judge: Judge, relative_to: Scale) -> float:
    optimal = judge.best()
    unit = abs(optimal) if relative_to == "optimal" else optimal - judge.random()
    # An optimum that is not known exactly makes the unit no larger than it surely is.
    unit -= solution.error_bound * (1 + 1e-9)
    if not unit > 0:
        rule = "a relative loss needs an optimal value other than 0; say relative=False"
        off = f", within {round_up(solution.error_bound)}" if solution.error_bound else ""
        raise ArgumentError(rule, value=f"it is {optimal:.3g}{off}")
    return unit
