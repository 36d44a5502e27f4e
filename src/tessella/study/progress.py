"""Showing how far a study is: bars in a terminal, plain lines in a pipe.

The time left is what remains, in expected seconds of work, at the pace so far.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Protocol

EVERY = 10.0  # seconds between plain lines


class Progress(Protocol):
    """Stages with counts; ``note`` is for what is worth saying once."""

    def stage(self, name: str, total: int, work: float, done: int = 0) -> None: ...

    def advance(self, name: str, count: int, work: float) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class Stage:
    """One line of progress: ``done`` of ``total``, with ``left`` expected seconds to go."""

    total: int
    work: float
    done: int = 0
    spent: float = 0.0
    new: int = 0  # since the clock began, and the work in them
    paced: float = 0.0
    began: float | None = None
    ended: float | None = None

    def add(self, count: int, work: float, now: float) -> None:
        if self.began is None:
            # When the first ones were begun is not known; they start the clock.
            self.began = now
        else:
            self.new += count
            self.paced += work
        self.done += count
        self.spent += work
        if self.done >= self.total:
            self.ended = now

    def elapsed(self, now: float) -> float:
        return 0.0 if self.began is None else (self.ended or now) - self.began

    def rate(self, now: float) -> float | None:
        """Runs per second since the first arrived."""
        elapsed = self.elapsed(now)
        return self.new / elapsed if elapsed > 0 and self.new else None

    def left(self, now: float) -> float | None:
        """Seconds to go at this pace."""
        if self.done >= self.total:
            return 0.0
        if not self.paced or not self.elapsed(now):
            return None
        return (self.work - self.spent) * self.elapsed(now) / self.paced


@contextmanager
def progress(stream: IO[str]) -> Iterator[Progress]:
    """Bars when ``stream`` is a terminal, lines otherwise."""
    if stream.isatty():
        from tessella.study.bars import bars

        with bars(stream) as shown:
            yield shown
    else:
        yield Lines(stream)


@dataclass
class Lines:
    """One line for each stage that ends, and one now and then for the first, the whole."""

    stream: IO[str]
    _stages: dict[str, Stage] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def stage(self, name: str, total: int, work: float, done: int = 0) -> None:
        began = None if self._stages else time.monotonic()
        self._stages[name] = Stage(total, work, done, began=began)

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


def line(name: str, stage: Stage, now: float) -> str:
    """``Linear Boundary: 300 of 1,155, 41.2 a second, 0:21 left``."""
    parts = [f"{name}: {stage.done:,} of {stage.total:,}"]
    rate, left = stage.rate(now), stage.left(now)
    if rate is not None:
        parts.append(f"{rate:.1f} a second")
    if left:
        parts.append(f"{clock(left)} left")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """``4:07``, or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
