"""Progress of a study: bars in a terminal, plain lines in a pipe.

The time left is the expected work that remains, in seconds, at the rate so far. The first runs also
pay for compiling: no estimate is given before a tenth of the work is done or a minute has passed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from tessella.errors import require_extra

if TYPE_CHECKING:
    from rich.progress import Progress as Rich
    from rich.progress import TaskID

PLAIN_LINE_INTERVAL_SECONDS = 10.0  # seconds between plain lines
# The time left is estimated after this share of the work, or after these seconds and batches.
ESTIMATE_MIN_WORK_SHARE = 0.1  # share of the work
ESTIMATE_MIN_SECONDS = 60.0  # seconds since the clock began
ESTIMATE_MIN_ARRIVALS = 5  # batches of runs that ended in that time


class ProgressDisplay:
    """Tasks with counts, and notes; this one shows nothing."""

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        pass

    def advance(self, name: str, count: int, work: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@dataclass
class Throughput:
    """One line of progress: ``done`` of ``total`` runs, and the ``work`` in them."""

    total: int
    work: float
    done: int = 0
    finished_work: float = 0.0
    timed_runs: int = 0  # since the clock began, and the work in them
    timed_work: float = 0.0
    arrivals: int = 0
    began: float | None = None
    ended: float | None = None

    def add(self, count: int, work: float, now: float) -> None:
        if self.began is None:
            # The start of the first runs is not known; their arrival starts the clock.
            self.began = now
        else:
            self.timed_runs += count
            self.timed_work += work
            self.arrivals += 1
        self.done += count
        self.finished_work += work
        if self.done >= self.total:
            self.ended = now

    def elapsed(self, now: float) -> float:
        return 0.0 if self.began is None else (self.ended or now) - self.began

    def rate(self, now: float) -> float | None:
        """Runs per second since the first arrived."""
        elapsed = self.elapsed(now)
        return self.timed_runs / elapsed if elapsed > 0 and self.timed_runs else None

    def seconds_left(self, now: float) -> float | None:
        """Seconds to go at this rate; None as long as too little is done for an estimate."""
        elapsed = self.elapsed(now)
        if self.done >= self.total:
            return 0.0
        is_reliable = self.timed_work >= ESTIMATE_MIN_WORK_SHARE * self.work or (
            elapsed >= ESTIMATE_MIN_SECONDS and self.arrivals >= ESTIMATE_MIN_ARRIVALS
        )
        if not is_reliable or not self.timed_work or not elapsed:
            return None
        return (self.work - self.finished_work) * elapsed / self.timed_work

    def format_time_left(self, now: float) -> str:
        """``0:21 left`` or ``estimating``; empty before the clock began and at the end."""
        seconds_left = self.seconds_left(now)
        if seconds_left is None:
            return "" if self.began is None else "estimating"
        return f"{format_duration(seconds_left)} left" if seconds_left else ""

    @property
    def rate_text(self) -> str:
        """The rate now, for a bar."""
        rate = self.rate(time.monotonic())
        return "" if rate is None else f"{rate:,.1f}/s"

    @property
    def time_text(self) -> str:
        """The time left now, for a bar; at the end the time that it took."""
        now = time.monotonic()
        if self.done >= self.total:
            return f"[green]{format_duration(self.elapsed(now))}"
        return f"[magenta]{self.format_time_left(now)}"


def format_duration(seconds: float) -> str:
    """``4:07``, or ``1:02:03``."""
    minutes, seconds_part = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_part:02}" if hours else f"{minutes}:{seconds_part:02}"


@contextmanager
def open_display(stream: IO[str]) -> Iterator[ProgressDisplay]:
    """Bars when ``stream`` is a terminal, lines otherwise."""
    if stream.isatty():
        with show_bars(stream) as progress:
            yield progress
    else:
        yield PlainProgress(stream)


@dataclass
class PlainProgress(ProgressDisplay):
    """One line for each task that ends, and one now and then for the first, the whole."""

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
        is_first = name == next(iter(self._tasks))
        is_due = is_first and now - self._last_line_time >= PLAIN_LINE_INTERVAL_SECONDS
        if is_due:
            self._last_line_time = now
        if is_due or throughput.done >= throughput.total:
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


@contextmanager
def show_bars(stream: IO[str]) -> Iterator[RichProgress]:
    """One bar in the terminal for each task."""
    with require_extra("a study", "study"):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Rich

    progress = Rich(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=18),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}", justify="right"),
        TextColumn("[cyan]{task.fields[throughput].rate_text}"),
        TextColumn("{task.fields[throughput].time_text}"),
        console=Console(file=stream),
        refresh_per_second=4,
    )
    with progress:
        yield RichProgress(progress)


@dataclass
class RichProgress(ProgressDisplay):
    """The tasks of a study as bars."""

    progress: Rich
    _tasks: dict[str, tuple[TaskID, Throughput]] = field(default_factory=dict)

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        began = None if self._tasks else time.monotonic()
        throughput = Throughput(total, work, done, began=began)
        task_id = self.progress.add_task(name, total=total, completed=done, throughput=throughput)
        self._tasks[name] = task_id, throughput

    def advance(self, name: str, count: int, work: float) -> None:
        task_id, throughput = self._tasks[name]
        throughput.add(count, work, time.monotonic())
        self.progress.update(task_id, completed=throughput.done)

    def note(self, text: str) -> None:
        self.progress.console.print(text, highlight=False, markup=False, soft_wrap=True)
