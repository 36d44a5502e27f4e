"""What a policy loses per period in the long run: the certificate of an average.

For any relative values h, with d = T h - h, no policy earns more than max d per period in the long
run, from whatever state, and the policy that is greedy at h earns at least min d. With T_pi in the
place of T, both bound what the policy pi earns. So a vector for each of the two encloses

    gain(pi*) - gain(pi),    from every state, whatever the chains of the model are.

It says nothing of single decisions: how far h is from the exact relative values depends on how long
it takes to come back to a state, and the document does not bound that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate_base import CertificateBase
from tessella.certificates.interval import Interval


@dataclass(frozen=True, eq=False)
class GainCertificate(CertificateBase):
    """What a policy loses per period against the best average. Made by ``certify``.

    Attributes:
        optimal_value, policy_value: (grid) relative values, of the optimum and of the policy, from
            which the gains are proven; their own error is not stated.
        optimal_value_rest, policy_value_rest: (grid) what is added to them: the digits that a float
            does not hold, where chains hardly leave a set of states; else 0.
        optimal_gain, policy_gain: reward per period, from every state.
        loss: gain(pi*) - gain(pi), from every state.
        relative_loss: ``loss / |gain(pi*)|``; None where that may be 0.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate of an average", 2

    optimal_value: NDArray[np.float64] = field(repr=False)
    optimal_value_rest: NDArray[np.float64] = field(repr=False)
    policy_value: NDArray[np.float64] = field(repr=False)
    policy_value_rest: NDArray[np.float64] = field(repr=False)
    optimal_gain: Interval
    policy_gain: Interval
    loss: Interval
    relative_loss: Interval | None

    @property
    def mean_loss(self) -> Interval:
        """The loss from any start: an average forgets where it began."""
        return self.loss

    @property
    def worst_loss(self) -> Interval:
        """The loss from the worst state: the same."""
        return self.loss

    def paragraphs(self) -> list[str]:
        from tessella.certificates.gain_summary import write_average_paragraphs

        return write_average_paragraphs(self)

    @staticmethod
    def load(path: str | Path) -> GainCertificate:
        """Read a saved certificate back. This does not check it; the checker does."""
        from tessella.certificates.certificate_file import load

        return load(GainCertificate, path)
