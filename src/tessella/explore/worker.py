"""The process that computes, and the queue of its requests.

The process is separate from the server: its memory is limited, it is stopped when it takes too
long, and the server answers meanwhile. It does one job at a time. A request that its page no longer
waits for is dropped from the queue; if it is running already it may finish, since the next one uses
what it compiled, unless others wait and it has run for some time.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tessella.explore.request import Reply, error_reply, json_reply

if TYPE_CHECKING:
    from tessella.explore.catalogue import ModelOpener

POLL_INTERVAL_SECONDS = 0.25  # seconds between checks whether a request is still wanted
STATUS_QUEUE_FULL = 503
STATUS_TIMED_OUT = 504
STATUS_WORKER_DIED = 507
QUEUE_FULL_TEXT = "others are waiting already; ask again in a moment"
TIMED_OUT_TEXT = (
    "this took longer than {seconds:g} seconds and was stopped; a smaller model is quicker"
)
WORKER_DIED_TEXT = "the computation ended early; the model may need more memory than is allowed"


@dataclass(frozen=True)
class RequestLimits:
    """Limits of time, memory and size, and of the queue."""

    states: int = 500_000  # of a model
    seconds: float = 120.0  # of work, once it has begun
    memory: int | None = 8 << 30  # bytes that the worker may hold; None for no limit
    waiting: int = 32  # requests in the queue
    patience: float = 20.0  # seconds that abandoned work goes on while others wait


class ExplorerWorker:
    """The process and its queue; it starts when it is first needed, and again after it ended."""

    def __init__(self, open_user_model: ModelOpener | None, limits: RequestLimits) -> None:
        self.open_user_model = open_user_model
        self.limits = limits
        self.waiting = 0
        self.n_stopped = 0  # how often work was cut short
        self._lock = asyncio.Lock()
        self._request_ids = count()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def start(self) -> Connection:
        """The pipe to a running process."""
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self.end()
            context = get_context("spawn")
            self._pipe, worker_end = context.Pipe()
            arguments = (worker_end, self.open_user_model, self.limits)
            self._process = context.Process(target=run_worker, args=arguments, daemon=True)
            self._process.start()
            worker_end.close()
        return self._pipe

    def end(self) -> None:
        """Stop the process, also in the middle of a job."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    async def ask(self, job: str, body: Any, is_abandoned: Callable[[], Awaitable[bool]]) -> Reply:
        """The worker's reply, or ``HTTPException`` where it gives none.

        ``is_abandoned`` tests whether nobody waits for it any more: a ``ClientDisconnect``.
        """
        if self.waiting >= self.limits.waiting:
            raise HTTPException(STATUS_QUEUE_FULL, QUEUE_FULL_TEXT)
        self.waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self.waiting -= 1
        try:
            if await is_abandoned():
                raise ClientDisconnect
            return await self._wait_for_reply(job, body, is_abandoned)
        finally:
            self._lock.release()

    async def _wait_for_reply(
        self, job: str, body: Any, is_abandoned: Callable[[], Awaitable[bool]]
    ) -> Reply:
        request_id = next(self._request_ids)
        started = time.monotonic()
        try:
            pipe = await asyncio.to_thread(self.start)
            pipe.send((request_id, job, body))
            while True:
                if await asyncio.to_thread(pipe.poll, POLL_INTERVAL_SECONDS):
                    answered_id, reply = pipe.recv()
                    if answered_id == request_id:  # else an earlier request was abandoned
                        return reply
                await self._stop_if_late(time.monotonic() - started, is_abandoned)
        except (EOFError, OSError) as error:
            self.end()
            raise HTTPException(STATUS_WORKER_DIED, WORKER_DIED_TEXT) from error

    async def _stop_if_late(
        self, elapsed: float, is_abandoned: Callable[[], Awaitable[bool]]
    ) -> None:
        """End work that takes too long, or that nobody wants while others wait."""
        if elapsed > self.limits.seconds:
            self._stop_work()
            reason = TIMED_OUT_TEXT.format(seconds=self.limits.seconds)
            raise HTTPException(STATUS_TIMED_OUT, reason)
        if self.waiting and elapsed > self.limits.patience and await is_abandoned():
            self._stop_work()
            raise ClientDisconnect

    def _stop_work(self) -> None:
        self.n_stopped += 1
        self.end()


def run_worker(
    pipe: Connection, open_user_model: ModelOpener | None, limits: RequestLimits
) -> None:
    """The process: answer jobs until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server gets it too, and closes the pipe
    if limits.memory is not None:
        with suppress(ImportError, ValueError, OSError):  # some systems cannot
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))
    from tessella.explore.catalogue import ModelCatalogue

    catalogue = ModelCatalogue(open_user_model, limits.states)
    answer = None
    with suppress(EOFError, OSError):
        while True:
            request_id, job, body = pipe.recv()
            if job == "problems":
                try:
                    reply = json_reply({"problems": catalogue.offers})
                except Exception as error:
                    reply = error_reply(error)
                pipe.send((request_id, reply))
            if answer is None:  # these imports take seconds, while the page draws its settings
                from tessella.explore.panels import answer_request
                from tessella.explore.session import Session

                answer = partial(answer_request, Session(catalogue))
            if job != "problems":
                pipe.send((request_id, answer(job, body)))
