"""What a policy loses against the optimum, with every figure enclosed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.bounds import Bounds
from tessella.certificates.certificate_base import CertificateBase
from tessella.certificates.decomposition import Decomposition
from tessella.certificates.error_by_margin import MarginError, count_errors_by_margin
from tessella.certificates.interval import Interval, IntervalArray
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon


@dataclass(frozen=True, eq=False)
class Certificate(CertificateBase):
    """What a policy loses, where, and how sure that is. Made by ``certify``.

    Attributes:
        discount: of the model; ``CertificateBase`` has what else it is about.
        periods: of its horizon; None where it has none.
        optimal: (grid) action indices of the optimal policy.
        start: (grid) distribution of the first state.
        tolerance: an action within this of the best is no costly error.
        optimal_value: (grid) V*, within ``optimal_value_error`` everywhere.
        policy_value: (grid) V of the policy, within ``policy_value_error`` everywhere.
        margin: (grid) best minus second-best action value, within ``margin_slack``.
        local_losses: (grid) what the action of each state loses if all else is optimal.
        losses: (grid) V* - V of the policy: what is lost by starting in each state.
        occupancy: (grid) discounted share of time, off by at most ``occupancy_error`` in all.
        policy_error: share of states whose action differs from the optimal policy's.
        costly_error: share of states whose action is worse than the best by more than the
            tolerance (the set-valued policy error).
        value_gap: the paper's: mean local loss over all states / (1 - discount).
        optimal_mean, policy_mean: J, the value of the optimum and of the policy from the start.
        mean_loss: J(pi*) - J(pi).
        relative_loss: ``mean_loss / |J(pi*)|``; None where that may be 0.
        worst_loss: the largest of ``losses``.
        decomposition: where the mean loss comes from.
        bounds: what the paper's bounds say about the mean loss.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate", 4

    discount: float
    periods: int | None
    optimal: NDArray[np.int32] = field(repr=False)
    start: NDArray[np.float64] = field(repr=False)
    tolerance: float
    optimal_value: NDArray[np.float64] = field(repr=False)
    optimal_value_error: float
    policy_value: NDArray[np.float64] = field(repr=False)
    policy_value_error: float
    margin: NDArray[np.float64] = field(repr=False)
    margin_slack: float
    local_losses: IntervalArray = field(repr=False)
    losses: IntervalArray = field(repr=False)
    occupancy: NDArray[np.float64] = field(repr=False)
    occupancy_error: float
    policy_error: Interval
    costly_error: Interval
    value_gap: Interval
    optimal_mean: Interval
    policy_mean: Interval
    mean_loss: Interval
    relative_loss: Interval | None
    worst_loss: Interval
    decomposition: Decomposition = field(repr=False)
    bounds: Bounds = field(repr=False)

    @property
    def criterion(self) -> Criterion:
        """What a value means."""
        if self.periods is None:
            return Discounted(self.discount)
        return FiniteHorizon(self.periods, self.discount)

    @property
    def loss(self) -> NDArray[np.float64]:
        """(grid) what is lost by starting in each state; ``losses`` has the enclosures."""
        return self.losses.value

    @property
    def local_loss(self) -> NDArray[np.float64]:
        """(grid) what each state's action loses; ``local_losses`` has the enclosures."""
        return self.local_losses.value

    @cached_property
    def worst_state(self) -> int:
        """Flat index of the state with the largest loss."""
        return int(self.loss.argmax())

    @cached_property
    def worst_relative_loss(self) -> Interval | None:
        """The loss of the worst state over the size of its optimal value."""
        index = np.unravel_index(self.worst_state, self.grid.shape)
        value = Interval.from_error(float(self.optimal_value[index]), self.optimal_value_error)
        arrays = (self.losses.value, self.losses.lower, self.losses.upper)
        return Interval(*(float(array[index]) for array in arrays)).divide(value)

    def margin_error(self, bins: int | NDArray = 10) -> MarginError:
        """Policy error given the margin, in bins."""
        return count_errors_by_margin(
            self.margin, self.policy.table != self.optimal, bins, self.policy.name
        )

    def paragraphs(self) -> list[str]:
        from tessella.certificates.summary import write_paragraphs

        return write_paragraphs(self)

    @staticmethod
    def load(path: str | Path) -> Certificate:
        """Read a saved certificate back. This does not check it; the checker does."""
        from tessella.certificates.certificate_file import load

        return load(Certificate, path)
