"""How fast a stage of a study goes, and how long it has to go.

The time left is what remains, in expected seconds of work, at the pace so far. The first runs also
pay for compiling, so no estimate is given before a tenth of the work is done, or a minute has
passed.
"""

from __future__ import annotations

from dataclasses import dataclass

# The time left is estimated after this share of the work, or after these seconds and batches.
ESTIMATE_MIN_WORK_SHARE = 0.1  # share of the work
ESTIMATE_MIN_SECONDS = 60.0  # seconds since the clock began
ESTIMATE_MIN_ARRIVALS = 5  # batches of runs that ended in that time


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
            # When the first ones were begun is not known; they start the clock.
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
        """Seconds to go at this pace; None as long as too little is done to tell."""
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
        """``0:21 left`` or ``estimating``, as short as a bar needs it; empty if nothing goes on."""
        seconds_left = self.seconds_left(now)
        if seconds_left is None:
            return "" if self.began is None else "estimating"
        return f"{format_duration(seconds_left)} left" if seconds_left else ""


def format_duration(seconds: float) -> str:
    """``4:07``, or ``1:02:03``."""
    minutes, seconds_part = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_part:02}" if hours else f"{minutes}:{seconds_part:02}"
