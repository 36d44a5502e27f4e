"""Where the runs are computed: worker processes on this machine, or those of a scheduler.

Either way the study uses only a dask.distributed client. Connections to a scheduler follow dask's
own settings: ``distributed.comm.timeouts.connect``, and ``distributed.comm.tls`` for one that
requires TLS (``tls://host:8786``). Each worker is one process with one thread and one XLA thread:
the batches are many and small, so cores are divided between batches, not within one.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tessella.errors import StudyError
from tessella.runner.run import collect_context

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
        raise StudyError(
            f"no scheduler answers at {address}: {error}{_connection_hint(address)}"
        ) from error
    with client:
        yield client


def _connection_hint(address: str) -> str:
    """What to check first."""
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
        _set_environment(variables),
        configured(settings),
        LocalCluster(
            n_workers=workers or count_cores(),
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # any free port: several studies may run at once
            silence_logs=logging.CRITICAL,
            preload=["tessella.runner.worker"],
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def count_cores() -> int:
    """How many cores this process may use, where the system reports it; else how many exist."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _jax_cache_variables(folder: Path) -> dict[str, str]:
    """Settings with which JAX keeps compiled code for the next process."""
    # Code for one processor may not run on another that reads the same folder.
    cache_folder = folder / hashlib.sha256(collect_context()["processor"].encode()).hexdigest()[:8]
    return {
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(cache_folder)),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }


@contextmanager
def _set_environment(values: dict[str, str]) -> Iterator[None]:
    """Workers inherit the environment, also those that replace a lost one later."""
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
