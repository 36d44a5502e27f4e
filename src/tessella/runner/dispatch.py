"""Batches out to workers, outcomes in as they arrive, and nobody lost on the way.

A batch whose worker dies is tried again by the scheduler; when that happens once too often, its
specs are tried one at a time, with nothing else at work, so that there is no doubt which of them
kills its worker. A batch that fails as a whole is taken apart as well. A spec that fails alone is
recorded as failed, with its reason.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

from tessella.errors import StudyError
from tessella.runner.context import context
from tessella.runner.names import UnknownNameError
from tessella.runner.record import Record, said
from tessella.runner.run import Outcome, attempt, run_batch
from tessella.runner.study import Batch

AHEAD = 2  # batches in flight for each thread of the workers
TICK = 1.0  # seconds between looks at the cluster while nothing arrives


@dataclass
class Dispatcher:
    """One pass over batches on a cluster.

    Args:
        accept: called with each outcome, in the order of arrival.
        idle: called when nothing arrived for a second, with the number of workers.
        packed: what the study brings along for the workers; see ``carry``.
    """

    client: Any  # a distributed.Client
    accept: Callable[[Outcome], None]
    idle: Callable[[int], None] = lambda workers: None
    packed: bytes = b""
    # A future that nobody holds is forgotten by the scheduler.
    _running: dict[str, tuple[Any, Batch]] = field(default_factory=dict)
    _arrived: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    # A scheduler may still know the tasks of an earlier study: names are never used again.
    _attempts: Iterator[str] = field(
        default_factory=lambda: map(f"{uuid4().hex[:8]}-{{}}".format, count())
    )

    def run(self, batches: Iterable[Batch]) -> None:
        """Run all batches to the end: each spec is accepted once, done or failed."""
        suspects = self._round(deque(batches), alone=False)
        self._round(deque(suspects), alone=True)

    def _round(self, waiting: deque[Batch], alone: bool) -> list[Batch]:
        """Work off ``waiting``; the specs of batches that killed workers come back, each alone."""
        suspects: list[Batch] = []
        while waiting or self._running:
            self._feed(waiting, 1 if alone else max(1, AHEAD * sum(self._threads().values())))
            arrived = self._next()
            if arrived is None:
                continue
            outcome, batch = arrived
            if isinstance(outcome, Outcome):
                self.accept(outcome)
            elif _killed(outcome) and not (alone and len(batch.specs) == 1):
                suspects += batch.apart()
            elif _unfit(outcome):
                raise StudyError(f"a worker cannot run this study: {outcome}") from outcome
            elif len(batch.specs) > 1:
                waiting.extendleft(batch.apart())
            else:
                self.accept(_failure(batch, outcome))
        return suspects

    def _feed(self, waiting: deque[Batch], width: int) -> None:
        while waiting and len(self._running) < width:
            batch = waiting.popleft()
            key = f"{batch.name}-{next(self._attempts)}"
            future = self.client.submit(attempt, batch.specs, self.packed, key=key, pure=False)
            self._running[key] = future, batch
            future.add_done_callback(self._arrived.put)

    def _next(self) -> tuple[Outcome | Exception, Batch] | None:
        """What came of a batch, or None when nothing arrived for a while."""
        try:
            done = self._arrived.get(timeout=TICK)
        except queue.Empty:
            self.idle(len(self._threads()))
            return None
        if done.cancelled():
            raise StudyError("the scheduler went away")
        if not done.done():
            # Its worker died with the outcome still on it; the scheduler has it computed again.
            done.add_done_callback(self._arrived.put)
            return None
        _, batch = self._running.pop(done.key)
        try:
            return done.result(), batch
        except Exception as error:  # whatever a method may raise
            return error, batch

    def _threads(self) -> dict[str, int]:
        try:
            return dict(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise StudyError(f"the scheduler went away: {error}") from error


def dispatch_here(batches: Iterable[Batch], accept: Callable[[Outcome], None]) -> None:
    """The same in this process, one batch after another: for small studies, and for looking."""
    waiting = deque(batches)
    while waiting:
        batch = waiting.popleft()
        try:
            accept(run_batch(batch.specs))
        except UnknownNameError:
            raise
        except Exception as error:  # whatever a method may raise
            if len(batch.specs) > 1:
                waiting.extendleft(reversed(batch.apart()))
            else:
                accept(_failure(batch, error))


def _killed(error: BaseException) -> bool:
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def _unfit(error: BaseException) -> bool:
    """Whether a worker lacks this package, or the method as the study means it."""
    lacks_us = isinstance(error, ImportError) and (error.name or "").split(".")[0] == "tessella"
    return lacks_us or isinstance(error, UnknownNameError)


def _failure(batch: Batch, error: BaseException) -> Outcome:
    reason = "its worker died each time it was tried" if _killed(error) else said(error)
    return Outcome(tuple(Record(spec, reason=reason) for spec in batch.specs), context())
