"""Size against loss over all classes of rules, with what was proven about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted
from tessella.grid import StateGrid
from tessella.mdp.program import Program
from tessella.rules.rule_class import Fitted


@dataclass(frozen=True, eq=False)
class Point:
    """A rule that was found.

    Attributes:
        kind: the name of its class.
        size: numbers stored.
        loss: as the promise counts it, in its units; not certified.
        fitted: the rule.
        table: (S,) its actions.
    """

    kind: str
    size: int
    loss: float
    fitted: Fitted = field(repr=False)
    table: NDArray[np.int32] = field(repr=False)

    def program(self, grid: StateGrid) -> Program:
        return self.fitted.program(grid)


@dataclass(frozen=True)
class Outcome:
    """What became of one class in a search.

    Attributes:
        kind: its name.
        size: of its smallest rule that keeps the promise; None if none was found.
        needed: no rule of the class with fewer numbers keeps the promise; 0 if nothing is proven.
        said: why the class is out or not proven, how far the search went, and what may help.
    """

    kind: str
    size: int | None
    needed: int
    said: str

    def __str__(self) -> str:
        found = counted(self.size, "number") if self.size is not None else "none found"
        proof = f", at least {self.needed} needed" if self.needed and self.size else ""
        return f"{self.kind}: {found}{proof}" + (f" ({self.said})" if self.said else "")


@dataclass(frozen=True, eq=False)
class Frontier:
    """The rules that no smaller one undercuts, over all classes.

    Attributes:
        points: by size, each with a smaller loss than all before.
        everything: all rules that were judged, the best of each class and size.
        outcomes: what became of each class.
    """

    points: tuple[Point, ...]
    everything: tuple[Point, ...] = field(repr=False)
    outcomes: tuple[Outcome, ...] = ()

    def within(self, loss: float) -> Point | None:
        """The smallest rule found whose loss is at most this."""
        return next((point for point in self.points if point.loss <= loss), None)

    def of(self, kind: str) -> tuple[Point, ...]:
        """The frontier of one class."""
        return undercut([point for point in self.everything if point.kind == kind])

    def __str__(self) -> str:
        lines = [f"{'numbers':>8} {'loss':>12}  class"]
        lines += [f"{p.size:>8,} {p.loss:>12.6g}  {p.kind}" for p in self.points]
        return "\n".join(lines)


def undercut(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points by size, each with a smaller loss than all before."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.size, p.loss)):
        if not kept or point.loss < kept[-1].loss:
            kept.append(point)
    return tuple(kept)
