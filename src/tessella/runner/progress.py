"""Showing how far a study is: bars in a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Protocol

from tessella.runner.throughput import Throughput

PLAIN_LINE_INTERVAL_SECONDS = 10.0  # seconds between plain lines


class ProgressDisplay(Protocol):
    """Stages with counts; ``note`` is for what is worth saying once."""

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None: ...

    def advance(self, name: str, count: int, work: float) -> None: ...

    def note(self, text: str) -> None: ...


class NoProgress:
    """Shows nothing."""

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        pass

    def advance(self, name: str, count: int, work: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@contextmanager
def open_display(stream: IO[str]) -> Iterator[ProgressDisplay]:
    """Bars when ``stream`` is a terminal, lines otherwise."""
    if stream.isatty():
        from tessella.runner.rich_progress import show_bars

        with show_bars(stream) as progress:
            yield progress
    else:
        yield PlainProgress(stream)


@dataclass
class PlainProgress:
    """One line for each stage that ends, and one now and then for the first, the whole."""

    stream: IO[str]
    _tasks: dict[str, Throughput] = field(default_factory=dict)
    _last_line_time: float = field(default_factory=time.monotonic)

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        began = None if self._tasks else time.monotonic()
        self._tasks[name] = Throughput(total, work, done, began=began)

    def advance(self, name: str, count: int, work: float) -> None:
        now = time.monotonic()
        throughput = self._tasks[name]
        throughput.add(count, work, now)
        is_due = now - self._last_line_time >= PLAIN_LINE_INTERVAL_SECONDS and name == next(
            iter(self._tasks)
        )
        if throughput.done >= throughput.total or is_due:
            self._last_line_time = now if is_due else self._last_line_time
            self.note(format_task(name, throughput, now))

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


def format_task(name: str, throughput: Throughput, now: float) -> str:
    """``Linear Boundary: 300 of 1,155, 41.2 a second, 0:21 left``."""
    parts = [f"{name}: {throughput.done:,} of {throughput.total:,}"]
    rate = throughput.rate(now)
    if rate is not None:
        parts.append(f"{rate:.1f} a second")
    time_left = throughput.format_time_left(now).replace("estimating", "estimating the time left")
    return ", ".join(filter(None, [*parts, time_left]))
