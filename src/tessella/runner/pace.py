"""How fast a stage of a study goes, and how long it has to go.

The time left is what remains, in expected seconds of work, at the pace so far.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Pace:
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


def clock(seconds: float) -> str:
    """``4:07``, or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
