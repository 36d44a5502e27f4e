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
from tessella.runner.names import UnknownNameError
from tessella.runner.record import Record, format_exception
from tessella.runner.run import BatchResult, run_batch, run_batch_safely
from tessella.runner.run_context import collect_context
from tessella.runner.study import Batch

BATCHES_IN_FLIGHT_PER_THREAD = 2  # batches in flight for each thread of the workers
POLL_INTERVAL_SECONDS = 1.0  # seconds between checks of the cluster while nothing arrives


@dataclass
class Dispatcher:
    """One pass over batches on a cluster.

    Args:
        accept: called with each outcome, in the order of arrival.
        on_idle: called when nothing arrived for a second, with the number of workers.
        packed_objects: what the study brings along for the workers; see ``shipping``.
    """

    client: Any  # a distributed.Client
    accept: Callable[[BatchResult], None]
    on_idle: Callable[[int], None] = lambda workers: None
    packed_objects: bytes = b""
    # A future that nobody holds is forgotten by the scheduler.
    _running: dict[str, tuple[Any, Batch]] = field(default_factory=dict)
    _completed: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    # A scheduler may still know the tasks of an earlier study: names are never used again.
    _attempt_ids: Iterator[str] = field(
        default_factory=lambda: map(f"{uuid4().hex[:8]}-{{}}".format, count())
    )

    def run(self, batches: Iterable[Batch]) -> None:
        """Run all batches to the end: each spec is accepted once, done or failed."""
        suspects = self._run_all(deque(batches), one_at_a_time=False)
        self._run_all(deque(suspects), one_at_a_time=True)

    def _run_all(self, waiting: deque[Batch], one_at_a_time: bool) -> list[Batch]:
        """Work off ``waiting``; the specs of batches that killed workers come back, each alone."""
        suspects: list[Batch] = []
        while waiting or self._running:
            self._submit_batches(waiting, 1 if one_at_a_time else self._max_in_flight())
            completed = self._wait_for_result()
            if completed is None:
                continue
            result, batch = completed
            if isinstance(result, BatchResult):
                self.accept(result)
            elif _is_killed_worker(result) and not (one_at_a_time and len(batch.specs) == 1):
                suspects += batch.split()
            elif _lacks_study_code(result):
                raise StudyError(f"a worker cannot run this study: {result}") from result
            elif len(batch.specs) > 1:
                waiting.extendleft(batch.split())
            else:
                self.accept(_failed_result(batch, result))
        return suspects

    def _submit_batches(self, waiting: deque[Batch], max_in_flight: int) -> None:
        while waiting and len(self._running) < max_in_flight:
            batch = waiting.popleft()
            key = f"{batch.name}-{next(self._attempt_ids)}"
            future = self.client.submit(
                run_batch_safely, batch.specs, self.packed_objects, key=key, pure=False
            )
            self._running[key] = future, batch
            future.add_done_callback(self._completed.put)

    def _wait_for_result(self) -> tuple[BatchResult | Exception, Batch] | None:
        """What came of a batch, or None when nothing arrived for a while."""
        try:
            future = self._completed.get(timeout=POLL_INTERVAL_SECONDS)
        except queue.Empty:
            self.on_idle(len(self._count_threads()))
            return None
        if future.cancelled():
            raise StudyError("the scheduler went away")
        if not future.done():
            # Its worker died with the outcome still on it; the scheduler has it computed again.
            future.add_done_callback(self._completed.put)
            return None
        _, batch = self._running.pop(future.key)
        try:
            return future.result(), batch
        except Exception as error:  # whatever a method may raise
            return error, batch

    def _max_in_flight(self) -> int:
        return max(1, BATCHES_IN_FLIGHT_PER_THREAD * sum(self._count_threads().values()))

    def _count_threads(self) -> dict[str, int]:
        try:
            return dict(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise StudyError(f"the scheduler went away: {error}") from error


def run_in_process(batches: Iterable[Batch], accept: Callable[[BatchResult], None]) -> None:
    """The same in this process, one batch after another: for small studies, and for debugging."""
    waiting = deque(batches)
    while waiting:
        batch = waiting.popleft()
        try:
            accept(run_batch(batch.specs))
        except UnknownNameError:
            raise
        except Exception as error:  # whatever a method may raise
            if len(batch.specs) > 1:
                waiting.extendleft(reversed(batch.split()))
            else:
                accept(_failed_result(batch, error))


def _is_killed_worker(error: BaseException) -> bool:
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def _lacks_study_code(error: BaseException) -> bool:
    """Whether a worker lacks this package, or the method as the study means it."""
    lacks_package = (
        isinstance(error, ImportError) and (error.name or "").split(".")[0] == "tessella"
    )
    return lacks_package or isinstance(error, UnknownNameError)


def _failed_result(batch: Batch, error: BaseException) -> BatchResult:
    reason = (
        "its worker died each time it was tried"
        if _is_killed_worker(error)
        else format_exception(error)
    )
    return BatchResult(
        tuple(Record(spec, reason=reason) for spec in batch.specs), collect_context()
    )
