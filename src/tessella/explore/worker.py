"""One process that computes, and the queue before it.

Work is done in a process of its own: it has a limit of memory, it is ended when it takes too long,
and the server goes on answering meanwhile. One job is done at a time. A request that its page no
longer waits for is dropped from the queue; when it is under way already it may finish, since the
next one profits from what it compiled, unless others wait and it has had its share of time.
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

if TYPE_CHECKING:
    from tessella.explore.catalogue import Catalogue, Opener
    from tessella.explore.reply import Reply

SLICE = 0.25  # seconds between looks at whether a request is still wanted
LATE = 503, "others are waiting already; ask again in a moment"
LONG = 504, "this took longer than {seconds:g} seconds and was stopped; a smaller model is quicker"
DIED = 507, "the work ended before its time; the model may need more memory than it may take"


@dataclass(frozen=True)
class Limits:
    """What a request may take.

    Attributes:
        states: of a model.
        seconds: of work, once it has begun.
        memory: bytes that the worker may hold; None for no limit.
        waiting: requests in the queue.
        patience: seconds that abandoned work goes on while others wait.
    """

    states: int = 500_000
    seconds: float = 120.0
    memory: int | None = 8 << 30
    waiting: int = 32
    patience: float = 20.0


class Refused(Exception):  # noqa: N818 (it says what happened)
    """A request that gets no answer from the worker: a status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Abandoned(Exception):  # noqa: N818
    """Nobody waits for the answer any more."""


class Worker:
    """The process and its queue; it starts when it is first needed, and again after an end."""

    def __init__(self, own: Opener | None, limits: Limits) -> None:
        self.own, self.limits = own, limits
        self.waiting = 0
        self.ended = 0  # how often work was cut short
        self._turn = asyncio.Lock()
        self._numbers = count()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def start(self) -> Connection:
        """The pipe to a running process."""
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self.end()
            context = get_context("spawn")
            self._pipe, theirs = context.Pipe()
            arguments = (theirs, self.own, self.limits)
            self._process = context.Process(target=work, args=arguments, daemon=True)
            self._process.start()
            theirs.close()
        return self._pipe

    def end(self) -> None:
        """Stop the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    async def ask(self, job: str, body: Any, gone: Callable[[], Awaitable[bool]]) -> Reply:
        """The worker's reply; ``gone`` says whether the request was abandoned."""
        if self.waiting >= self.limits.waiting:
            raise Refused(*LATE)
        self.waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self.waiting -= 1
        try:
            if await gone():
                raise Abandoned
            return await self._reply(job, body, gone)
        finally:
            self._turn.release()

    async def _reply(self, job: str, body: Any, gone: Callable[[], Awaitable[bool]]) -> Reply:
        begun, number = time.monotonic(), next(self._numbers)
        try:
            pipe = await asyncio.to_thread(self.start)
            pipe.send((number, job, body))
            while True:
                if await asyncio.to_thread(pipe.poll, SLICE):
                    told, reply = pipe.recv()
                    if told == number:  # one before was left by its request
                        return reply
                await self._cut_short(time.monotonic() - begun, gone)
        except (EOFError, OSError) as error:
            self.end()
            raise Refused(*DIED) from error

    async def _cut_short(self, spent: float, gone: Callable[[], Awaitable[bool]]) -> None:
        """End work that takes too long, or that nobody wants while others wait."""
        if spent > self.limits.seconds:
            self._stop_work()
            raise Refused(LONG[0], LONG[1].format(seconds=self.limits.seconds))
        if self.waiting and spent > self.limits.patience and await gone():
            self._stop_work()
            raise Abandoned

    def _stop_work(self) -> None:
        self.ended += 1
        self.end()


def work(pipe: Connection, own: Opener | None, limits: Limits) -> None:
    """The process: answer jobs until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is told, and closes the pipe
    _limit_memory(limits.memory)
    from tessella.explore.catalogue import Catalogue

    catalogue, answers = Catalogue(own, limits.states), None
    with suppress(EOFError, OSError):
        while True:
            number, job, body = pipe.recv()
            if job == "problems":
                pipe.send((number, _offered(catalogue)))
            answers = answers or _answers(catalogue)  # while the page draws its settings
            if job != "problems":
                pipe.send((number, answers(job, body)))


def _answers(catalogue: Catalogue) -> Callable[[str, Any], Reply]:
    """What does jobs; loading it takes some seconds."""
    from tessella.explore.jobs import answer
    from tessella.explore.session import Session

    return partial(answer, Session(catalogue))


def _offered(catalogue: Catalogue) -> Reply:
    from tessella.explore.reply import refusal, said

    try:
        return said({"problems": catalogue.offers})
    except Exception as error:
        return refusal(error)


def _limit_memory(most: int | None) -> None:
    if most is None:
        return
    with suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
