"""The server behind the page: files of the page, and jobs for the worker.

GET  /                the page            GET  /page/NAME    its style and scripts
GET  /api/problems    what can be chosen  POST /api/JOB      work, told and answered in JSON
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tessella.errors import ArgumentError
from tessella.explore.guard import Guard, hosts_of
from tessella.explore.worker import Abandoned, Limits, Refused, Worker

if TYPE_CHECKING:
    from tessella.explore.catalogue import Opener

PAGE = Path(__file__).parent / "page"
JOBS = ("map", "structure", "rule", "learned", "change", "path", "file")
LARGEST = 64 << 10  # bytes of a request
MOST_DISCARDED = 1 << 20  # bytes of a larger one that are read, so that its sender hears why
DEEPEST = 16  # levels of lists and objects in a request
HOST, PORT = "127.0.0.1", 8765
BACKLOG = 256  # connections that wait to be accepted
LEFT = 499  # the page has gone


def application(own: Opener | None, limits: Limits, port: int) -> Starlette:
    """The server of one explorer; ``own`` opens the model that it was started with."""
    worker = Worker(own, limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        worker.start()  # while the page is being loaded
        yield
        worker.end()

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / "page.html")

    async def problems(request: Request) -> Response:
        return await _work(request, worker, "problems", {})

    async def job(request: Request) -> Response:
        name = request.path_params["job"]
        if name not in JOBS:
            raise HTTPException(404, f"there is no job of this name; there are {', '.join(JOBS)}")
        return await _work(request, worker, name, await _body(request))

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/problems", problems),
            Route("/api/{job}", job, methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        middleware=[Middleware(Guard, hosts=hosts_of(port))],
        exception_handlers={
            HTTPException: _refused,
            Abandoned: _left,
            ClientDisconnect: _left,
            Exception: _fault,
        },
        lifespan=lifespan,
    )
    app.state.worker = worker
    return app


async def _body(request: Request) -> Any:
    """What was sent, read within bounds."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "a request is told in application/json")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= LARGEST:
            parts.append(part)
        elif size > MOST_DISCARDED:
            break
    if size > LARGEST:
        raise HTTPException(413, f"a request has at most {LARGEST:,} bytes")
    try:
        body = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        raise HTTPException(400, "a request is told in JSON, and this is none") from None
    if not _is_shallow(body, DEEPEST):
        raise HTTPException(400, f"a request has at most {DEEPEST} levels of lists and objects")
    return body


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether lists and objects lie at most so many levels within one another."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in inner)


async def _work(request: Request, worker: Worker, job: str, body: Any) -> Response:
    try:
        reply = await worker.ask(job, body, request.is_disconnected)
    except Refused as refused:
        raise HTTPException(refused.status, refused.why) from None
    named = {"content-disposition": f'attachment; filename="{reply.name}"'} if reply.name else {}
    return Response(reply.content, reply.status, named, reply.media)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _left(request: Request, error: Exception) -> Response:
    """For nobody: the page has gone, or what it sent was cut short or no HTTP."""
    return Response(status_code=LEFT)


async def _fault(request: Request, error: Exception) -> Response:
    why = "this is a fault of the program; the terminal shows where"
    return JSONResponse({"error": why}, 500)


def listen(port: int | None) -> socket.socket:
    """A socket on this machine alone; the usual port, or any free one where that is taken."""
    wanted = (PORT, 0) if port is None else (port,)
    for one in wanted:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((HOST, one))
            found.listen(BACKLOG)  # at once, or another could take it too
        except OSError:
            found.close()
        else:
            return found
    raise ArgumentError("the explorer needs a free port", value=f"got {wanted[0]}, which is not")


def serve(own: Opener | None, limits: Limits, listening: socket.socket) -> None:
    """Answer until interrupted."""
    app = application(own, limits, listening.getsockname()[1])
    settings = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(settings).run([listening])
