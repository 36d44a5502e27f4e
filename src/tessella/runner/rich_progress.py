"""Progress in a terminal: one bar for each stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Rich
from rich.text import Text

from tessella.runner.throughput import Throughput, format_duration


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        throughput: Throughput = task.fields["throughput"]
        rate = throughput.rate(time.monotonic())
        return Text("" if rate is None else f"{rate:,.1f}/s", style="cyan")


class _TimeLeftColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        throughput: Throughput = task.fields["throughput"]
        now = time.monotonic()
        if task.finished:
            return Text(format_duration(throughput.elapsed(now)), style="green")
        return Text(throughput.format_time_left(now), style="magenta")


@contextmanager
def show_bars(stream: IO[str]) -> Iterator[RichProgress]:
    progress = Rich(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=18),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}", justify="right"),
        _RateColumn(),
        _TimeLeftColumn(),
        console=Console(file=stream),
        refresh_per_second=4,
    )
    with progress:
        yield RichProgress(progress)


@dataclass
class RichProgress:
    """The stages of a study as bars."""

    progress: Rich
    _tasks: dict[str, tuple] = field(default_factory=dict)

    def add_task(self, name: str, total: int, work: float, done: int = 0) -> None:
        began = None if self._tasks else time.monotonic()
        throughput = Throughput(total, work, done, began=began)
        self._tasks[name] = (
            self.progress.add_task(name, total=total, completed=done, throughput=throughput),
            throughput,
        )

    def advance(self, name: str, count: int, work: float) -> None:
        task_id, throughput = self._tasks[name]
        throughput.add(count, work, time.monotonic())
        self.progress.update(task_id, completed=throughput.done)

    def note(self, text: str) -> None:
        self.progress.console.print(text, highlight=False, markup=False, soft_wrap=True)
