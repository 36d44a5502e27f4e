"""How fast a stage of a study goes, and how long it has to go.

The time left is what remains, in expected seconds of work, at the pace so far. The first runs also
pay for compiling, so nothing is said before a tenth of the work is done, or a minute has passed.
"""

from __future__ import annotations

from dataclasses import dataclass

ENOUGH = 0.1  # of the work, from which on the pace is taken to last
LONG, SOME = 60.0, 5  # or so many seconds, in which so many batches of runs ended


@dataclass
class Pace:
    """One line of progress: ``done`` of ``total``, with ``left`` expected seconds to go."""

    total: int
    work: float
    done: int = 0
    spent: float = 0.0
    new: int = 0  # since the clock began, and the work in them
    paced: float = 0.0
    arrivals: int = 0
    began: float | None = None
    ended: float | None = None

    def add(self, count: int, work: float, now: float) -> None:
        if self.began is None:
            # When the first ones were begun is not known; they start the clock.
            self.began = now
        else:
            self.new += count
            self.paced += work
            self.arrivals += 1
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
        """Seconds to go at this pace; None as long as too little is done to tell."""
        elapsed = self.elapsed(now)
        if self.done >= self.total:
            return 0.0
        settled = self.paced >= ENOUGH * self.work or (elapsed >= LONG and self.arrivals >= SOME)
        if not settled or not self.paced or not elapsed:
            return None
        return (self.work - self.spent) * elapsed / self.paced

    def remaining(self, now: float) -> str:
        """``0:21 left`` or ``estimating``, as short as a bar needs it; empty if nothing goes on."""
        left = self.left(now)
        if left is None:
            return "" if self.began is None else "estimating"
        return f"{clock(left)} left" if left else ""


def clock(seconds: float) -> str:
    """``4:07``, or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
