"""Results: the finished runs of a study, with the exact solutions they are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tessella.paper.published import REPRESENTATIVE_PROBLEM
from tessella.problems.registry import problem
from tessella.runner.methods import find_method
from tessella.runner.record import Record
from tessella.runner.run_study import StudyResults
from tessella.tessellation import Geometry, Tessellation, measure, tessellate

LOW_MARGIN_SHARE = 0.25  # share of the states, those with the smallest margins


@dataclass(frozen=True)
class PlannedRuns:
    """The runs of a method at its largest n, in every problem."""

    n: int
    seeds: int


@dataclass(frozen=True, eq=False)
class PaperResults(StudyResults):
    """The results of the paper's study, as tables, figures and report need them."""

    @cached_property
    def model_measures(self) -> list[dict[str, float]]:
        """None: the paper has no such figures, and thousands of policies take minutes."""
        return [{} for _ in self.done]

    @cached_property
    def planned_runs(self) -> dict[str, PlannedRuns]:
        """By method. The largest n is that of the study, whether its runs failed or not."""
        pairs: dict[str, set[tuple[int, int]]] = {name: set() for name in self.study.methods}
        for spec in self.study.specs:
            pairs[spec.method].add((spec.n, spec.seed))
        largest = {name: max((n for n, _ in runs), default=0) for name, runs in pairs.items()}
        return {
            name: PlannedRuns(largest[name], sum(n == largest[name] for n, _ in runs))
            for name, runs in pairs.items()
        }

    @cached_property
    def final_frame(self) -> Any:
        """Of ``frame``, the runs at each method's largest n."""
        largest = self.frame["method"].map(
            {name: planned.n for name, planned in self.planned_runs.items()}
        )
        return self.frame[self.frame["n"] == largest]

    def planned_methods(self, *names: str) -> list[str]:
        """Methods of these groups, group by group, each in the study's order."""
        return [m for name in names for m in self.study.methods if find_method(m).group == name]

    def finished_methods(self, *names: str) -> list[str]:
        """Those of ``planned_methods`` that have finished runs."""
        methods_with_runs = set(self.frame["method"].unique())
        return [m for m in self.planned_methods(*names) if m in methods_with_runs]

    @property
    def has_comparison(self) -> bool:
        """Whether there are finished runs of boundary methods or of baselines."""
        return bool(self.finished_methods("boundary", "value"))

    def family(self, label: str) -> str:
        return problem(label).family

    def families(self) -> list[str]:
        return list(dict.fromkeys(self.family(label) for label in self.study.problems))

    def problems_of(self, family: str) -> list[str]:
        """The study's problems of this family."""
        return [
            label for label in dict.fromkeys(self.study.problems) if self.family(label) == family
        ]

    @cached_property
    def representative(self) -> str:
        """The problem of the figures that show one: the paper's, where the study has it."""
        known = self.study.problems
        return REPRESENTATIVE_PROBLEM if REPRESENTATIVE_PROBLEM in known else known[0]

    @cached_property
    def tessellations(self) -> dict[str, Tessellation]:
        return {label: tessellate(solution) for label, solution in self.solutions.items()}

    @cached_property
    def geometry(self) -> dict[str, Geometry]:
        """The paper's diagnostics of every optimal policy."""
        return {label: measure(t) for label, t in self.tessellations.items()}

    @cached_property
    def error_counts(self) -> Any:
        """Frame with a row for each run at its method's largest n: its decisions and errors.

        Low-margin errors are those in the quarter of a problem's states with the smallest margins.
        """
        is_low_margin = {
            label: (s.margin <= np.quantile(s.margin, LOW_MARGIN_SHARE)).ravel()
            for label, s in self.solutions.items()
        }
        rows = []
        for spec, actions in ((record.spec, record.actions) for record in self.done):
            if spec.n == self.planned_runs[spec.method].n:
                wrong = actions != self.solutions[spec.problem].policy.table.ravel()
                low = int(wrong[is_low_margin[spec.problem]].sum())
                counts = (wrong.size, int(wrong.sum()), low)
                rows.append((spec.family, spec.method, spec.seed, *counts))
        columns = ["family", "method", "seed", "decisions", "errors", "low_margin_errors"]
        return pd.DataFrame(rows, columns=pd.Index(columns))

    def final_records(self, label: str, method: str) -> list[Record]:
        """The finished runs at the method's largest n."""
        run = label, method, self.planned_runs[method].n
        return [r for r in self.done if (r.spec.problem, r.spec.method, r.spec.n) == run]

    def wrong_actions(self, label: str, method: str) -> NDArray[np.bool_]:
        """(runs, S) whether a state's action is wrong, at the method's largest n."""
        actions = [record.actions for record in self.final_records(label, method)]
        best = self.solutions[label].policy.table.ravel()
        return np.stack(actions) != best if actions else np.zeros((0, best.size), bool)
