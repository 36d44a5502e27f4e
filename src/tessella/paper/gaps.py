"""What failed runs leave out of a family's average, so that it can be said beside the number."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.paper.results import Results
from tessella.paper.statistics import by_seed


@dataclass(frozen=True)
class Gaps:
    """Of one method in one family, at its largest n.

    Attributes:
        n, asked: the largest n, and how many seeds the study asks for.
        seeds: those that finished in every problem with finished runs.
        problems: how many the study has in this family; ``without`` have no finished runs.
        note: all of it in words; empty when nothing is missing.
    """

    n: int
    asked: int
    seeds: int
    problems: int
    without: tuple[str, ...]

    @property
    def note(self) -> str:
        if len(self.without) == self.problems:
            return f"no finished runs at n = {self.n:,}" if self.n else "no finished runs"
        if not self.seeds:
            return "no seed finished in every problem"
        parts = [f"{self.seeds} of {self.asked} seeds"] if self.seeds < self.asked else []
        if self.without:
            parts.append(f"without {', '.join(self.without)}")
        return ", ".join(parts)


def gaps(results: Results, family: str, method: str) -> Gaps:
    final, asked, members = results.final, results.asked[method], results.members(family)
    there = set(final[final["method"] == method]["environment"])
    without = tuple(label for label in members if label not in there)
    seeds = by_seed(final, family, method, "policy_error").shape[1]
    return Gaps(asked.n, asked.seeds, seeds, len(members), without)
