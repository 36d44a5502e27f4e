"""Record: what one run gave, how long it took, and what the method was told.

A method is told one or more of four things, and a comparison is fair only with all in view:

    labels           optimal actions of states, each exact;
    margins          best minus second-best action value of states, each exact;
    backups          full Bellman backups (a state's best action, by exact expectation) behind them;
    simulator_calls  sampled transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.study.spec import Spec


@dataclass(frozen=True)
class Told:
    """What a method was told."""

    labels: int = 0
    margins: int = 0
    backups: int = 0
    simulator_calls: int = 0


@dataclass(frozen=True, eq=False)
class Record:
    """One finished, or failed, run.

    Attributes:
        policy_error: share of states whose action differs from the optimal one.
        value_gap: the paper's: mean local loss / (1 - discount).
        mean_loss, worst_loss: of V* - V_pi over states, by evaluating the policy.
        size: effective number of parameters, counted as the paper counts them.
        told: what the method was told.
        seconds: training time; for a batch that trained together, its share.
        actions: (S,) the policy's action indices; empty for a failed run.
        reason: why the run failed; empty when it did not.
    """

    spec: Spec
    policy_error: float = float("nan")
    value_gap: float = float("nan")
    mean_loss: float = float("nan")
    worst_loss: float = float("nan")
    size: int = 0
    told: Told = field(default_factory=Told)
    seconds: float = float("nan")
    actions: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    reason: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.reason)

    def row(self) -> dict[str, Any]:
        """The record as one row of a table; ``actions`` is one byte for each state in C order."""
        return {
            "key": self.spec.key,
            "environment": self.spec.environment,
            "family": self.spec.family,
            "method": self.spec.method,
            "n": self.spec.n,
            "seed": self.spec.seed,
            "policy_error": self.policy_error,
            "value_gap": self.value_gap,
            "mean_loss": self.mean_loss,
            "worst_loss": self.worst_loss,
            "size": self.size,
            **asdict(self.told),
            "seconds": self.seconds,
            "actions": np.asarray(self.actions, np.uint8).tobytes(),
            "reason": self.reason,
            "spec": self.spec.json,
        }

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> Record:
        def number(name: str) -> float:
            # SQLite keeps a missing number as NULL.
            return float("nan") if row[name] is None else float(row[name])

        return Record(
            spec=Spec.from_json(row["spec"]),
            policy_error=number("policy_error"),
            value_gap=number("value_gap"),
            mean_loss=number("mean_loss"),
            worst_loss=number("worst_loss"),
            size=int(row["size"]),
            told=Told(*(row[part.name] for part in fields(Told))),
            seconds=number("seconds"),
            actions=np.frombuffer(row["actions"], np.uint8),
            reason=row["reason"],
        )
