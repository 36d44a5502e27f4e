"""Showing how far a study is: bars in a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Protocol

from tessella.runner.pace import Pace

EVERY = 10.0  # seconds between plain lines


class Display(Protocol):
    """Stages with counts; ``note`` is for what is worth saying once."""

    def stage(self, name: str, total: int, work: float, done: int = 0) -> None: ...

    def advance(self, name: str, count: int, work: float) -> None: ...

    def note(self, text: str) -> None: ...


class Silence:
    """Shows nothing."""

    def stage(self, name: str, total: int, work: float, done: int = 0) -> None:
        pass

    def advance(self, name: str, count: int, work: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@contextmanager
def display(stream: IO[str]) -> Iterator[Display]:
    """Bars when ``stream`` is a terminal, lines otherwise."""
    if stream.isatty():
        from tessella.runner.bars import bars

        with bars(stream) as shown:
            yield shown
    else:
        yield Lines(stream)


@dataclass
class Lines:
    """One line for each stage that ends, and one now and then for the first, the whole."""

    stream: IO[str]
    _stages: dict[str, Pace] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def stage(self, name: str, total: int, work: float, done: int = 0) -> None:
        began = None if self._stages else time.monotonic()
        self._stages[name] = Pace(total, work, done, began=began)

    def advance(self, name: str, count: int, work: float) -> None:
        now = time.monotonic()
        stage = self._stages[name]
        stage.add(count, work, now)
        due = now - self._last >= EVERY and name == next(iter(self._stages))
        if stage.done >= stage.total or due:
            self._last = now if due else self._last
            self.note(line(name, stage, now))

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


def line(name: str, stage: Pace, now: float) -> str:
    """``Linear Boundary: 300 of 1,155, 41.2 a second, 0:21 left``."""
    parts = [f"{name}: {stage.done:,} of {stage.total:,}"]
    rate = stage.rate(now)
    if rate is not None:
        parts.append(f"{rate:.1f} a second")
    left = stage.remaining(now).replace("estimating", "estimating the time left")
    return ", ".join(filter(None, [*parts, left]))
