"""Size against loss over all classes of rules, with what was proven about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted
from tessella.grid import StateGrid
from tessella.mdp.rule_tree import RuleTree
from tessella.rules.rule_class import Fitted


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """A rule that was found.

    Attributes:
        kind: the name of its class.
        size: numbers stored.
        loss: in the units of the loss target; not certified.
        candidate: the rule.
        table: (S,) its actions.
    """

    kind: str
    size: int
    loss: float
    candidate: Fitted = field(repr=False)
    table: NDArray[np.int32] = field(repr=False)

    def program(self, grid: StateGrid) -> RuleTree:
        return self.candidate.program(grid)


@dataclass(frozen=True)
class ClassOutcome:
    """What became of one class in a search.

    Attributes:
        kind: its name.
        size: of its smallest rule that meets the loss target; None if none was found.
        size_needed: no rule of the class with fewer numbers meets the loss target; 0 if nothing is
            proven.
        explanation: why the class is out or not proven, how far the search went, and what may help.
    """

    kind: str
    size: int | None
    size_needed: int
    explanation: str

    def __str__(self) -> str:
        size_text = counted(self.size, "number") if self.size is not None else "none found"
        bound_text = (
            f", at least {self.size_needed} needed" if self.size_needed and self.size else ""
        )
        return f"{self.kind}: {size_text}{bound_text}" + (
            f" ({self.explanation})" if self.explanation else ""
        )


@dataclass(frozen=True, eq=False)
class Frontier:
    """The rules that no smaller one undercuts, over all classes.

    Attributes:
        points: by size, each with a smaller loss than all before.
        all_points: all rules that were evaluated, the best of each class and size.
        outcomes: what became of each class.
    """

    points: tuple[FrontierPoint, ...]
    all_points: tuple[FrontierPoint, ...] = field(repr=False)
    outcomes: tuple[ClassOutcome, ...] = ()

    def within(self, loss: float) -> FrontierPoint | None:
        """The smallest rule found whose loss is at most this."""
        return next((point for point in self.points if point.loss <= loss), None)

    def of_class(self, kind: str) -> tuple[FrontierPoint, ...]:
        """The frontier of one class."""
        return pareto_points([point for point in self.all_points if point.kind == kind])

    def __str__(self) -> str:
        lines = [f"{'numbers':>8} {'loss':>12}  class"]
        lines += [f"{p.size:>8,} {p.loss:>12.6g}  {p.kind}" for p in self.points]
        return "\n".join(lines)


def pareto_points(points: Sequence[FrontierPoint]) -> tuple[FrontierPoint, ...]:
    """Points by size, each with a smaller loss than all before."""
    front: list[FrontierPoint] = []
    for point in sorted(points, key=lambda p: (p.size, p.loss)):
        if not front or point.loss < front[-1].loss:
            front.append(point)
    return tuple(front)
