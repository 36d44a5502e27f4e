"""certify_in_slabs(solution, policy) -> CertificateSummary: a certificate of a very large model.

The figures of ``certify`` that are one number each, by the same arithmetic, out of two rounds over
slabs of the grid (``solvers.slabs``): the first finds what the residuals of V and V_pi prove, the
second adds up. Beside the two values and the policy, no array is larger than a slab. What has a
number for every state, and the second way to the mean loss by the occupancy, are left out; so its
interval may be a little wider.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.enclosure import EPS, Band, Enclosed, down, up
from tessella.certificates.summary import certain, percent, wrap
from tessella.criteria.criterion import serve
from tessella.criteria.discounted import Discounted
from tessella.errors import PolicyError, expect
from tessella.files import writing
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rounding import round_up
from tessella.solvers.evaluate import evaluate
from tessella.solvers.slabs import STATES, Ends, Slab, Slabs, cut_into_slabs
from tessella.solvers.solution import Solution

FORMAT, VERSION = "tessella certificate summary", 1


@dataclass(frozen=True)
class CertificateSummary:
    """What a policy loses, in figures that hold for all states. Made by ``certify_in_slabs``.

    Attributes:
        model, states, fingerprint: of the model.
        policy: its name.
        optimal_value_error, policy_value_error: how far either value may be off, in any state.
        tolerance: an action within this of the best is no costly error.
        mean_loss, relative_loss, worst_loss, policy_error, costly_error, value_gap, optimal_mean,
            policy_mean: as in ``Certificate``.
        worst_state: flat index of the state with the largest loss.
        slabs: how many the grid was looked at in.
    """

    model: str
    states: int
    fingerprint: str
    policy: str
    optimal_value_error: float
    policy_value_error: float
    tolerance: float
    mean_loss: Enclosed
    relative_loss: Enclosed | None
    worst_loss: Enclosed
    worst_state: int
    policy_error: Enclosed
    costly_error: Enclosed
    value_gap: Enclosed
    optimal_mean: Enclosed
    policy_mean: Enclosed
    slabs: int
    minimise: bool = False

    def __str__(self) -> str:
        name = f'"{self.policy}"' if self.policy else "the policy"
        share = "" if self.relative_loss is None else f" ({percent(self.relative_loss)})"
        word = "extra cost" if self.minimise else "loss"
        return wrap(
            f"{self.model or 'MDP'}, {self.states:,} states: the mean {word} of {name} is "
            f"{certain(self.mean_loss)} off{share}, and at most "
            f"{round_up(self.worst_loss.upper, 4)} from any state. It does not take the optimal "
            f"action in {percent(self.policy_error)} of the states. All rounding is included."
        )

    def save(self, path: str | Path) -> None:
        """Write the figures as JSON, each with its interval."""

        def told(value: Any) -> Any:
            if isinstance(value, Enclosed):
                return {"value": float(value), "lower": value.lower, "upper": value.upper}
            return value

        figures = {name: told(getattr(self, name)) for name in asdict(self)}
        text = json.dumps({"format": FORMAT, "version": VERSION, **figures}, indent=1)
        with writing(path) as part:
            part.write_text(text + "\n", encoding="utf-8")


def certify_in_slabs(
    solution: Solution,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    labels: Labels | None = None,
    states: int = STATES,
) -> CertificateSummary:
    """What ``policy`` loses against the optimum of a very large model of stages.

    Args:
        policy: whatever decides: see ``as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        tol: an action within this of the best is no costly error; None for the tie tolerance.
        labels: whether the policy answers in action indices or values, where that is not clear.
        states: of a slab, about.
    """
    expect("certify_in_slabs", solution, Solution)
    mdp = solution.mdp
    serve("certify_in_slabs", mdp.criterion, Discounted)
    cut = cut_into_slabs(mdp, states)
    taken = as_policy(mdp, policy, labels)
    guess = solution.stored("value")
    worth = evaluate(mdp, taken, tol=solution.error_bound or None, guess=guess, partial=True)
    if not np.isfinite(worth.error_bound):
        raise PolicyError("the policy's value must be finite", value=worth.reason)
    weights = None if start is None and mdp.start is None else start_distribution(mdp, start, taken)
    slabs = Slabs(solution, worth, taken, mdp, cut)
    return summarised(slabs, solution, weights, tol)


def summarised(
    slabs: Slabs, solution: Solution, weights: NDArray | None, tol: float | None
) -> CertificateSummary:
    """The figures of a policy, slab by slab; ``weights`` (S,) are those of the start."""
    mdp, proven = slabs.mdp, _proven(slabs)
    total = _Total(mdp, proven, solution, weights, proven.tie if tol is None else float(tol))
    for slab in slabs:
        total.add(slab)
    return CertificateSummary(
        model=mdp.name,
        states=mdp.n_states,
        fingerprint=mdp.fingerprint,
        policy=slabs.policy.name,
        optimal_value_error=proven.error,
        policy_value_error=proven.policy_error,
        tolerance=total.tolerance,
        slabs=slabs.count,
        minimise=mdp.minimise,
        **total.figures(),
    )


@dataclass(frozen=True)
class _Proven:
    """What a first round over the slabs finds."""

    error: float  # of V
    policy_error: float  # of U, the policy's
    tie: float  # what these and rounding could overturn
    most: float  # no loss is larger
    sizes: float  # |V| + |U| at most


def _proven(slabs: Slabs) -> _Proven:
    engine = slabs.engine
    numbers = engine.data_with(None, None)
    residuals, lost, widest, least = np.zeros(2), 0.0, 0.0, np.inf
    for slab in slabs:
        found = slab.judged
        both = found.residual, found.policy_residual
        residuals = np.maximum(residuals, [np.abs(part).max() for part in both])
        lost, least = max(lost, found.lost.max()), min(least, found.margin.min())
        widest = max(widest, np.max(found.margin, initial=0, where=np.isfinite(found.margin)))

    def error(residual: float, ends: Ends) -> float:
        extra, v = engine.written(ends.both), float(np.abs(ends.both - ends.shift).max())
        eta = slabs.rounding(ends) + extra + EPS * v
        found = float(numbers.criterion.error((1 + EPS) * residual + eta))
        return found * engine.rest / engine.written_rest

    best, worth = slabs.ends
    off = error(float(residuals[0]), best)
    eta = slabs.rounding(best) + engine.written(best.both)
    tie = 2 * (float(numbers.criterion.largest) * off + eta)
    # The row sums of a file may differ by rounding, and differences round once more.
    tie = tie * (1 + 2 * float(numbers.numbers.unit)) + 16 * EPS * max(widest, lost)
    tie, none = float(tie), lost == 0 and least > tie
    most = 0.0 if none else float(lost + tie) / engine.written_rest
    sizes = float(np.abs(best.both).max() + np.abs(worth.both).max())
    return _Proven(off, error(float(residuals[1]), worth), tie, most, sizes)


class _Sum:
    """``sum_s w_s x_s`` in the making, for weights that are not negative and x in a band."""

    def __init__(self) -> None:
        self.parts, self.size, self.longest, self.slabs = np.zeros(3), 0.0, 0, 0

    def add(self, weights: NDArray | float, band: Band) -> None:
        three = band.value, band.lower, band.upper
        self.parts = self.parts + [float(np.sum(weights * part)) for part in three]
        self.size += sum(float(np.sum(weights * np.abs(part))) for part in three[1:])
        self.longest, self.slabs = max(self.longest, band.value.size), self.slabs + 1

    @property
    def enclosed(self) -> Enclosed:
        # Products and sums within a slab, then one sum over slabs: whatever their order.
        slack = (self.longest + self.slabs + 8) * EPS * self.size
        value, lower, upper = self.parts
        return Enclosed(value, lower - slack, upper + slack)


class _Total:
    """All figures in the making."""

    def __init__(
        self,
        mdp: MDP,
        proven: _Proven,
        solution: Solution,
        weights: NDArray | None,
        tolerance: float,
    ) -> None:
        self.mdp, self.proven, self.solution = mdp, proven, solution
        self.optimal: Policy = solution.policy
        self.weights = None if weights is None else weights.reshape(mdp.grid.shape)
        self.tolerance = tolerance
        self.off = (proven.error + proven.policy_error) * (1 + 4 * EPS) + 2 * EPS * proven.sizes
        self.loss, self.local, self.best, self.worth = _Sum(), _Sum(), _Sum(), _Sum()
        self.differs, self.costly = np.zeros(3, dtype=int), np.zeros(3, dtype=int)
        self.worst, self.worst_state = np.array([-np.inf] * 3), 0

    def add(self, slab: Slab) -> None:
        x, margin, tie = slab.judged.lost, slab.judged.margin, self.proven.tie
        right, wrong = (margin > tie) & (x == 0), x > tie
        # One action is surely the best there, and x is 0 where the policy takes it.
        differs = np.where(margin > tie, x > 0, slab.actions != self.optimal.table[slab.index])
        local = Band(x, np.maximum(x - tie, 0.0), np.where(right, 0.0, x + tie))
        self.differs += [int(part.sum()) for part in (differs, wrong, ~right)]
        for i, part in enumerate((local.value, local.lower, local.upper)):
            self.costly[i] += int((part > self.tolerance).sum())
        self._add_losses(slab, local)
        self.local.add(1 / self.mdp.n_states, local)

    def _add_losses(self, slab: Slab, local: Band) -> None:
        x, proven = slab.value - slab.policy_value, self.proven
        lower = np.maximum(x - self.off, local.lower)
        upper = np.minimum(x + self.off, proven.most)
        if (lower > upper).any():
            raise ArithmeticError("two ways to the loss exclude one another")
        losses = Band(np.clip(x, lower, upper), lower, upper)
        three = [float(part.max()) for part in (losses.value, lower, upper)]
        if three[0] > self.worst[0]:
            where = np.unravel_index(int(losses.value.argmax()), losses.value.shape)
            begun = [one.start or 0 for one in slab.index]
            begun += [0] * (len(where) - len(begun))
            place = tuple(int(i) + first for i, first in zip(where, begun, strict=True))
            self.worst_state = int(np.ravel_multi_index(place, self.mdp.grid.shape))
        self.worst = np.maximum(self.worst, three)
        weights = 1 / self.mdp.n_states if self.weights is None else self.weights[slab.index]
        self.loss.add(weights, losses)
        values = (
            (slab.value, self.best, proven.error),
            (
                slab.policy_value,
                self.worth,
                proven.policy_error,
            ),
        )
        for value, total, off in values:
            total.add(weights, Band(value.copy(), value - off, value + off))

    def figures(self) -> dict[str, Any]:
        mean, optimal = self.loss.enclosed, self.best.enclosed
        return {
            "mean_loss": mean,
            "relative_loss": mean.over(optimal),
            "worst_loss": Enclosed(*self.worst),
            "worst_state": self.worst_state,
            "policy_error": self._share(self.differs),
            "costly_error": self._share(self.costly),
            "value_gap": self.local.enclosed.times(self.mdp.criterion.forever(1)),
            "optimal_mean": optimal,
            "policy_mean": self.worth.enclosed,
        }

    def _share(self, counts: NDArray) -> Enclosed:
        value, lower, upper = (int(count) / self.mdp.n_states for count in counts)
        return Enclosed(value, down(lower), up(upper))
