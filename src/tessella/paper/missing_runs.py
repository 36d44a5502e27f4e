"""What failed runs leave out of a family's average, so that a note can stand beside the number."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.paper.results import PaperResults
from tessella.paper.statistics import values_by_seed


@dataclass(frozen=True)
class MissingRuns:
    """Of one method in one family, at its largest n.

    Attributes:
        n, planned_seeds: the largest n, and how many seeds the study asks for.
        seeds: those that finished in every problem with finished runs.
        problems: how many the study has in this family.
        missing_problems: those of them without finished runs.
        note: all of it in words; empty when nothing is missing.
    """

    n: int
    planned_seeds: int
    seeds: int
    problems: int
    missing_problems: tuple[str, ...]

    @property
    def note(self) -> str:
        if len(self.missing_problems) == self.problems:
            return f"no finished runs at n = {self.n:,}" if self.n else "no finished runs"
        if not self.seeds:
            return "no seed finished in every problem"
        parts = (
            [f"{self.seeds} of {self.planned_seeds} seeds"]
            if self.seeds < self.planned_seeds
            else []
        )
        if self.missing_problems:
            parts.append(f"without {', '.join(self.missing_problems)}")
        return ", ".join(parts)


def find_missing_runs(results: PaperResults, family: str, method: str) -> MissingRuns:
    final = results.final_frame
    planned = results.planned_runs[method]
    members = results.problems_of(family)
    problems_with_runs = set(final[final["method"] == method]["problem"])
    missing_problems = tuple(label for label in members if label not in problems_with_runs)
    seeds = values_by_seed(final, family, method, "policy_error").shape[1]
    return MissingRuns(planned.n, planned.seeds, seeds, len(members), missing_problems)
