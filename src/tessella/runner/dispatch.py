"""Workers on this machine or of a scheduler; batches are sent to them, and no result is lost.

In both cases the study uses a dask.distributed client. Connections to a scheduler follow dask's
own settings: ``distributed.comm.timeouts.connect``, and ``distributed.comm.tls`` for one that
requires TLS (``tls://host:8786``). Each worker is one process with one thread and one XLA thread:
the batches are many and small, so cores are divided between batches, not within one.

The scheduler retries a batch whose worker dies; after too many deaths its specs run one at a time,
with nothing else in flight, which shows which of them kills its worker; that one is recorded as
failed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from tessella.errors import StudyError
from tessella.runner.methods.method import UnknownNameError
from tessella.runner.record import Record, format_exception
from tessella.runner.run import BatchResult, collect_context, run_batch_on_worker
from tessella.runner.study import Batch

# Deaths of a worker that a batch survives before its runs are tried one by one.
ALLOWED_WORKER_DEATHS = 1
RESTART_TIMEOUT_SECONDS = 600  # seconds in which a lost worker of this machine must be back
WORKER_ENVIRONMENT = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}
BATCHES_IN_FLIGHT_PER_THREAD = 2  # batches in flight for each thread of the workers
POLL_INTERVAL_SECONDS = 1.0  # seconds between checks of the cluster while nothing arrives


def connect(
    workers: int | None = None, scheduler: str | None = None, cache: Path | None = None
) -> AbstractContextManager[Any]:
    """A client of ``scheduler``, or of ``workers`` processes on this machine (one for each core).

    Args:
        cache: folder in which workers of this machine keep compiled code.
    """
    return _connect_to_scheduler(scheduler) if scheduler else _start_local_cluster(workers, cache)


@contextmanager
def _connect_to_scheduler(address: str) -> Iterator[Any]:
    from distributed import Client

    class ClosingClient(Client):
        """Closes at once when it cannot connect: at the end of a process its loop is gone."""

        def start(self, **settings: Any) -> None:
            try:
                super().start(**settings)
            except BaseException:
                self.close()
                raise

    try:
        client = ClosingClient(address, set_as_default=False)
    except Exception as error:  # each transport has errors of its own
        hint = _connection_hint(address)
        raise StudyError(f"no scheduler answers at {address}: {error}{hint}") from error
    with client:
        yield client


def _connection_hint(address: str) -> str:
    """What a user should check first, as the end of a message."""
    from dask.config import get

    if not address.startswith("tls://"):
        return "; if it requires TLS, its address begins with tls://"
    required = ("ca-file", "client.cert", "client.key")
    missing = [name for name in required if not get(f"distributed.comm.tls.{name}", None)]
    return f"; dask has no setting distributed.comm.tls.{missing[0]}" if missing else ""


@contextmanager
def _start_local_cluster(workers: int | None, cache: Path | None) -> Iterator[Any]:
    from dask.config import set as configured
    from distributed import Client, LocalCluster

    variables = {**WORKER_ENVIRONMENT, **(_jax_cache_variables(cache) if cache else {})}
    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_WORKER_DEATHS,
        "distributed.nanny.pre-spawn-environ": variables,
        "distributed.worker.daemon": True,
        # A crowded machine takes long to start a worker again; the cluster must not give it up.
        "distributed.deploy.lost-worker-timeout": f"{RESTART_TIMEOUT_SECONDS}s",
    }
    with (
        # Workers inherit the environment, also those that replace a lost one later.
        patch.dict(os.environ, variables),
        configured(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # any free port: several studies may run at once
            silence_logs=logging.CRITICAL,
            preload=["tessella.runner.worker"],
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _jax_cache_variables(folder: Path) -> dict[str, str]:
    """Settings with which JAX keeps compiled code for the next process."""
    # Code for one processor may not run on another that reads the same folder.
    cache_folder = folder / hashlib.sha256(collect_context()["processor"].encode()).hexdigest()[:8]
    return {
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(cache_folder)),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }


@dataclass
class Dispatcher:
    """One pass over batches on a cluster."""

    client: Any  # a distributed.Client
    accept: Callable[[BatchResult], None]  # called with each result, in the order of arrival
    # Called when nothing arrived for a second, with the number of workers.
    on_idle: Callable[[int], None] = lambda workers: None
    packed_objects: bytes = b""  # the objects of the study, from ``pack_objects``
    # The scheduler drops a future without a reference to it.
    _running: dict[str, tuple[Any, Batch]] = field(default_factory=dict)
    _completed: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)

    def run(self, batches: Iterable[Batch]) -> None:
        """Run all batches to the end: each spec is accepted once, done or failed."""
        suspects = self._run_all(deque(batches), one_at_a_time=False)
        self._run_all(deque(suspects), one_at_a_time=True)

    def _run_all(self, waiting: deque[Batch], one_at_a_time: bool) -> list[Batch]:
        """Run ``waiting``; the specs of batches that killed workers are returned, each alone."""
        suspects: list[Batch] = []
        while waiting or self._running:
            n_threads = sum(self._threads_by_worker().values())
            max_in_flight = max(1, BATCHES_IN_FLIGHT_PER_THREAD * n_threads)
            self._submit_batches(waiting, 1 if one_at_a_time else max_in_flight)
            completed = self._wait_for_result()
            if completed is None:
                continue
            result, batch = completed
            if isinstance(result, BatchResult):
                self.accept(result)
            elif _lacks_study_code(result):
                raise StudyError(f"a worker cannot run this study: {result}") from result
            elif _is_killed_worker(result) and not one_at_a_time:
                suspects += [(spec,) for spec in batch]
            else:
                self.accept(_failed_result(batch, result))
        return suspects

    def _submit_batches(self, waiting: deque[Batch], max_in_flight: int) -> None:
        while waiting and len(self._running) < max_in_flight:
            batch = waiting.popleft()
            first = batch[0]
            # A scheduler may still hold the tasks of an earlier study: names are never reused.
            key = f"{first.method}-{first.problem}-{first.n}-{uuid4().hex}"
            future = self.client.submit(
                run_batch_on_worker, batch, self.packed_objects, key=key, pure=False
            )
            self._running[key] = future, batch
            future.add_done_callback(self._completed.put)

    def _wait_for_result(self) -> tuple[BatchResult | Exception, Batch] | None:
        """The result or error of a batch; None when nothing arrived for a while."""
        try:
            future = self._completed.get(timeout=POLL_INTERVAL_SECONDS)
        except queue.Empty:
            self.on_idle(len(self._threads_by_worker()))
            return None
        if future.cancelled():
            raise StudyError("the scheduler went away")
        if not future.done():
            # Its worker died and the result with it; the scheduler runs the batch again.
            future.add_done_callback(self._completed.put)
            return None
        _, batch = self._running.pop(future.key)
        try:
            return future.result(), batch
        except Exception as error:  # a method may raise anything
            return error, batch

    def _threads_by_worker(self) -> dict[str, int]:
        try:
            return dict(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise StudyError(f"the scheduler went away: {error}") from error


def _is_killed_worker(error: BaseException) -> bool:
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


def _lacks_study_code(error: BaseException) -> bool:
    """Whether a worker lacks this package, or the study's edition of the method."""
    lacks_package = (
        isinstance(error, ImportError) and (error.name or "").split(".")[0] == "tessella"
    )
    return lacks_package or isinstance(error, UnknownNameError)


def _failed_result(batch: Batch, error: BaseException) -> BatchResult:
    is_killed = _is_killed_worker(error)
    reason = "its worker died each time it was tried" if is_killed else format_exception(error)
    records = tuple(Record(spec, reason=reason) for spec in batch)
    return BatchResult(records, collect_context())
