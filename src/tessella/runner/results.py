"""StudyResults: the finished and failed runs of a study, as records and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from tessella.errors import counted
from tessella.runner.methods.method import get_instance
from tessella.runner.record import METRICS, RECORD_COLUMNS, Record
from tessella.runner.study import Study
from tessella.solvers.solution import Solution

LISTED_MAX_FAILURES = 5  # failures that are listed in full
FRAME_EXCLUDED_COLUMNS = {"actions", "dtype", "spec", "reason", "measures"}


@dataclass(frozen=True, eq=False)
class StudyResults:
    """The results of a study.

    Attributes:
        records: of the study's specs, failures included.
        sessions: the processes that worked on the store.
        contexts: where the records were computed.
    """

    study: Study
    records: tuple[Record, ...]
    sessions: Sequence[dict[str, Any]] = field(default_factory=list)
    contexts: Sequence[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def done(self) -> list[Record]:
        return [record for record in self.records if not record.failed]

    @cached_property
    def failed(self) -> list[Record]:
        return [record for record in self.records if record.failed]

    @cached_property
    def frame(self) -> Any:
        """pandas frame with one row for each finished run, measures included, policies not."""
        names = [name for name in RECORD_COLUMNS if name not in FRAME_EXCLUDED_COLUMNS]
        rows = [record.row() | dict(record.measures) for record in self.done]
        return pd.DataFrame(rows, columns=pd.Index([*names, *self.study.measures]))

    def table(self, *columns: str) -> Any:
        """Mean over seeds by problem, method and n, of policy error, losses and measures."""
        selected = [*columns] or [*METRICS, *self.study.measures]
        return self.frame.groupby(["problem", "method", "n"], sort=False)[selected].mean()

    @cached_property
    def solutions(self) -> dict[str, Solution]:
        """Exact solution of each problem, by its name."""
        first_spec = {spec.problem: spec for spec in reversed(self.study.specs)}
        return {name: get_instance(first_spec[name]).solution for name in self.study.problems}

    def __str__(self) -> str:
        study = self.study
        heading = (
            f"Study: {len(self.done):,} of {len(self.records):,} runs finished; "
            f"{counted(len(study.problems), 'problem')}, {counted(len(study.methods), 'method')}"
        )
        lines = [heading, str(self.table("policy_error", "mean_loss", *study.measures))]
        lines += [f"failed: {r.spec}: {r.reason}" for r in self.failed[:LISTED_MAX_FAILURES]]
        n_unlisted = len(self.failed) - LISTED_MAX_FAILURES
        if n_unlisted > 0:
            lines.append(f"and {n_unlisted:,} more failed")
        return "\n".join(lines)
