"""Bars in a terminal, one for each task of a `TerminalProgress`."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from tessella.support.text import format_duration

if TYPE_CHECKING:
    from tessella.support.progress import Throughput


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate = task.fields["throughput"].rate(time.monotonic())
        return Text("" if rate is None else f"{rate:,.1f}/s", style="cyan")


class _TimeLeftColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        throughput: Throughput = task.fields["throughput"]
        now = time.monotonic()
        if task.finished:
            return Text(format_duration(throughput.elapsed(now)), style="green")
        return Text(throughput.format_time_left(now), style="magenta")


def start_bars(stream: IO[str]) -> Progress:
    """A running display; its tasks carry their ``Throughput`` as the field ``throughput``."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=18),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}", justify="right"),
        _RateColumn(),
        _TimeLeftColumn(),
        console=Console(file=stream),
        refresh_per_second=4,
    )
    progress.start()
    return progress
