"""Progress of long work: nothing, plain lines in a pipe, or a status line and bars in a terminal.

One object shows the progress of every verb, in Python as on the command line:

    with open_progress() as progress:
        solution = solve(mdp, callback=progress.sweep)
        rule = compress(solution, 0.01, progress=progress.status)
        results = run_study(study, progress=progress)

The time left of a task is the expected work that remains, in seconds, at the rate so far. The first
runs also pay for compiling: no estimate is given before a tenth of the work is done or a minute has
passed.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from tessella.errors import require_extra
from tessella.support.text import format_duration

TASK_LINE_INTERVAL_SECONDS = 10.0  # between plain lines about a task
STATUS_LINE_INTERVAL_SECONDS = 5.0  # between plain lines of status
# The time left is estimated after this share of the work, or after these seconds and batches.
ESTIMATE_MIN_WORK_SHARE = 0.1
ESTIMATE_MIN_SECONDS = 60.0  # since the first batch ended
ESTIMATE_MIN_BATCHES = 5  # batches of runs that ended in that time


class ProgressDisplay:
    """Shows tasks with counts, permanent notes and a replaceable status; the base shows none."""

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        pass

    def advance(self, name: str, count: int, work: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def status(self, text: str) -> None:
        pass

    def sweep(self, report: Any) -> None:
        """Show the progress of a solve; a callback of ``solve`` that never stops it."""
        from tessella.rounding import round_up

        time_left = "" if report.left is None else f", about {report.left:.0f} s left"
        bound = round_up(report.bound, 2)
        self.status(f"sweep {report.sweep}: bound {bound}, {report.seconds:.0f} s{time_left}")


@contextmanager
def open_progress(stream: IO[str] | None = None) -> Iterator[ProgressDisplay]:
    """A status line and bars where ``stream`` (standard error) is a terminal, else plain lines.

    Args:
        stream: where to write; standard error by default.

    Returns:
        A context whose value shows progress: ``sweep`` is a callback of ``solve``, ``status`` is
        one of ``compress``, and ``run_study`` takes it whole.

    Example:
        >>> import io
        >>> with ts.open_progress(io.StringIO()) as progress:
        ...     solution = ts.solve(ts.benchmark("QUE-Lin"), callback=progress.sweep)
        ...
    """
    target = sys.stderr if stream is None else stream
    display = TerminalProgress(target) if target.isatty() else PlainProgress(target)
    try:
        yield display
    finally:
        display.close()


@contextmanager
def show_status(
    progress: Callable[[str], None] | bool | None,
) -> Iterator[Callable[[str], None] | None]:
    """A function that shows a status: as ``open_progress`` does for True, else as it is given."""
    if progress is True:
        with open_progress() as display:
            yield display.status
    else:
        yield progress or None


@dataclass
class Throughput:
    """One line of progress: ``done`` of ``total`` runs, and the ``work`` in them."""

    total: int
    work: float
    done: int = 0
    finished_work: float = 0.0
    timed_runs: int = 0  # since the first batch ended, and the work in them
    timed_work: float = 0.0
    n_batches: int = 0
    start_time: float | None = None
    end_time: float | None = None

    def add(self, count: int, work: float, now: float) -> None:
        if self.start_time is None:
            # The start of the first runs is unknown; the end of their batch starts the clock.
            self.start_time = now
        else:
            self.timed_runs += count
            self.timed_work += work
            self.n_batches += 1
        self.done += count
        self.finished_work += work
        if self.done >= self.total:
            self.end_time = now

    def elapsed(self, now: float) -> float:
        return 0.0 if self.start_time is None else (self.end_time or now) - self.start_time

    def rate(self, now: float) -> float | None:
        """Runs per second since the first batch ended."""
        elapsed = self.elapsed(now)
        return self.timed_runs / elapsed if elapsed > 0 and self.timed_runs else None

    def seconds_left(self, now: float) -> float | None:
        """Seconds to go at this rate; None as long as too little is done for an estimate."""
        elapsed = self.elapsed(now)
        if self.done >= self.total:
            return 0.0
        is_reliable = self.timed_work >= ESTIMATE_MIN_WORK_SHARE * self.work or (
            elapsed >= ESTIMATE_MIN_SECONDS and self.n_batches >= ESTIMATE_MIN_BATCHES
        )
        if not is_reliable or not self.timed_work or not elapsed:
            return None
        return (self.work - self.finished_work) * elapsed / self.timed_work

    def format_time_left(self, now: float) -> str:
        """``0:21 left`` or ``estimating``; empty before the first batch and at the end."""
        seconds_left = self.seconds_left(now)
        if seconds_left is None:
            return "" if self.start_time is None else "estimating"
        return f"{format_duration(seconds_left)} left" if seconds_left else ""


@dataclass
class PlainProgress(ProgressDisplay):
    """A line when a task ends, and at intervals one for the first task or for the status."""

    stream: IO[str]
    _tasks: dict[str, Throughput] = field(default_factory=dict)
    _task_line_time: float = field(default_factory=time.monotonic)
    _status_line_time: float = field(default_factory=time.monotonic)

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        start_time = None if self._tasks else time.monotonic()
        self._tasks[name] = Throughput(total, work, done, start_time=start_time)

    def advance(self, name: str, count: int, work: float) -> None:
        now = time.monotonic()
        throughput = self._tasks[name]
        throughput.add(count, work, now)
        is_first = name == next(iter(self._tasks))
        is_due = is_first and now - self._task_line_time >= TASK_LINE_INTERVAL_SECONDS
        if is_due:
            self._task_line_time = now
        if is_due or throughput.done >= throughput.total:
            self.note(format_task(name, throughput, now))

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def status(self, text: str) -> None:
        now = time.monotonic()
        if now - self._status_line_time >= STATUS_LINE_INTERVAL_SECONDS:
            self._status_line_time = now
            self.note(text)

    def close(self) -> None:
        pass


def format_task(name: str, throughput: Throughput, now: float) -> str:
    """``Linear Boundary: 300 of 1,155, 41.2 a second, 0:21 left``."""
    parts = [f"{name}: {throughput.done:,} of {throughput.total:,}"]
    rate = throughput.rate(now)
    if rate is not None:
        parts.append(f"{rate:.1f} a second")
    time_left = throughput.format_time_left(now).replace("estimating", "estimating the time left")
    return ", ".join(filter(None, [*parts, time_left]))


@dataclass
class TerminalProgress(ProgressDisplay):
    """One status line, erased at the end, and a bar for each task."""

    stream: IO[str]
    _tasks: dict[str, tuple[Any, Throughput]] = field(default_factory=dict)
    _bars: Any = None  # of rich, which is loaded with the first task
    _has_status: bool = False

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        if self._bars is None:
            with require_extra("a study", "study"):
                self._bars = _start_bars(self.stream)
        start_time = None if self._tasks else time.monotonic()
        throughput = Throughput(total, work, done, start_time=start_time)
        task_id = self._bars.add_task(name, total=total, completed=done, throughput=throughput)
        self._tasks[name] = task_id, throughput

    def advance(self, name: str, count: int, work: float) -> None:
        task_id, throughput = self._tasks[name]
        throughput.add(count, work, time.monotonic())
        self._bars.update(task_id, completed=throughput.done)

    def note(self, text: str) -> None:
        if self._bars is None:
            print(text, file=self.stream, flush=True)
        else:
            self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def status(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{text[:width]}", end="", file=self.stream, flush=True)
        self._has_status = True

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        if self._has_status:
            print("\r\x1b[K", end="", file=self.stream, flush=True)


def _start_bars(stream: IO[str]) -> Any:
    """A running display; its tasks carry their ``Throughput`` as the field ``throughput``."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            rate = task.fields["throughput"].rate(time.monotonic())
            return Text("" if rate is None else f"{rate:,.1f}/s", style="cyan")

    class TimeLeftColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            throughput: Throughput = task.fields["throughput"]
            now = time.monotonic()
            if task.finished:
                return Text(format_duration(throughput.elapsed(now)), style="green")
            return Text(throughput.format_time_left(now), style="magenta")

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=18),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}", justify="right"),
        RateColumn(),
        TimeLeftColumn(),
        console=Console(file=stream),
        refresh_per_second=4,
    )
    progress.start()
    return progress
