"""What a policy loses until the end: the certificate of a total.

Let U be 0 where the process has ended and strictly above its backup elsewhere, U > T U. Then no
policy earns more than U: in n periods it earns at most U(s) - E[U(s_n)] - delta N, with N the
expected periods before the end and delta the smallest distance. If N stays finite, E[U(s_n)] goes
to 0; if not, what is earned falls below every bound. Likewise L < T L is surely earned by the
policy that is greedy at L, and with T_pi in the place of T both bound what the policy pi earns. So
two vectors for each of the two enclose

    V*(s) - V_pi(s),    from every state, whatever other policies do.
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
class TotalCertificate(CertificateBase):
    """What a policy loses against the best total reward. Made by ``certify``.

    Attributes:
        start: (grid) distribution of the first state.
        optimal_lower, optimal_upper: (grid) V* lies between them.
        policy_lower, policy_upper: (grid) V_pi lies between them.
        optimal_mean, policy_mean: both values, expected over the start.
        mean_loss: V* - V_pi, expected over the start.
        worst_loss: from the worst state.
        relative_loss: ``mean_loss / |optimal_mean|``; None where that may be 0.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate of a total", 1

    start: NDArray[np.float64] = field(repr=False)
    optimal_lower: NDArray[np.float64] = field(repr=False)
    optimal_upper: NDArray[np.float64] = field(repr=False)
    policy_lower: NDArray[np.float64] = field(repr=False)
    policy_upper: NDArray[np.float64] = field(repr=False)
    optimal_mean: Interval
    policy_mean: Interval
    mean_loss: Interval
    worst_loss: Interval
    relative_loss: Interval | None

    def paragraphs(self) -> list[str]:
        from tessella.certificates.total_summary import paragraphs

        return paragraphs(self)

    @staticmethod
    def load(path: str | Path) -> TotalCertificate:
        """Read a saved certificate back. This does not check it; the checker does."""
        from tessella.certificates.certificate_file import load

        return load(TotalCertificate, path)
