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

from tessella.runner.pace import Pace, clock


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate = task.fields["stage"].rate(time.monotonic())
        return Text("" if rate is None else f"{rate:,.1f}/s", style="cyan")


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        stage, now = task.fields["stage"], time.monotonic()
        if task.finished:
            return Text(clock(stage.elapsed(now)), style="green")
        return Text(stage.remaining(now), style="magenta")


@contextmanager
def bars(stream: IO[str]) -> Iterator[Bars]:
    shown = Rich(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=18),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}", justify="right"),
        _Rate(),
        _Left(),
        console=Console(file=stream),
        refresh_per_second=4,
    )
    with shown:
        yield Bars(shown)


@dataclass
class Bars:
    """The stages of a study as bars."""

    shown: Rich
    _tasks: dict[str, tuple] = field(default_factory=dict)

    def stage(self, name: str, total: int, work: float, done: int = 0) -> None:
        began = None if self._tasks else time.monotonic()
        stage = Pace(total, work, done, began=began)
        self._tasks[name] = (
            self.shown.add_task(name, total=total, completed=done, stage=stage),
            stage,
        )

    def advance(self, name: str, count: int, work: float) -> None:
        task, stage = self._tasks[name]
        stage.add(count, work, time.monotonic())
        self.shown.update(task, completed=stage.done)

    def note(self, text: str) -> None:
        self.shown.console.print(text, highlight=False, markup=False, soft_wrap=True)
