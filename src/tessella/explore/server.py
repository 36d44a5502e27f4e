"""The server behind the page: files of the page, and jobs for the worker.

GET  /                the page            GET  /page/NAME    its style and scripts
GET  /api/problems    what can be chosen  POST /api/JOB      work, request and reply in JSON

Only the page of this server may send requests. The server listens on 127.0.0.1 alone. A page of
another site could still send requests there, by name (a name that resolves to 127.0.0.1) or by
address; so the Host must be ours, and so must the Origin, where a browser names one. What a browser
calls cross-site is rejected. If the answer is sent before the body is read to its end, the
connection is closed.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tessella.errors import ArgumentError
from tessella.explore.request import INTERNAL_ERROR_TEXT, STATUS_INTERNAL_ERROR
from tessella.explore.worker import ExplorerWorker, RequestLimits

if TYPE_CHECKING:
    from tessella.explore.catalogue import ModelOpener


LOCAL_HOSTS = ("127.0.0.1", "localhost")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
PAGE_FOLDER = Path(__file__).parent / "page"
JOB_NAMES = ("map", "structure", "rule", "learned", "tradeoff", "change", "path", "file")
REQUEST_MAX_BYTES = 64 << 10  # bytes of a request
DISCARDED_MAX_BYTES = 1 << 20  # bytes of a larger one that are read: its sender gets the error
REQUEST_MAX_LEVELS = 16  # levels of lists and objects in a request
DEFAULT_PORT = 8765
ACCEPT_BACKLOG_CONNECTIONS = 256  # connections that wait to be accepted
STATUS_CLIENT_LEFT = 499  # the page has gone


def make_application(
    open_user_model: ModelOpener | None, limits: RequestLimits, port: int
) -> Starlette:
    """The server of one explorer; ``open_user_model`` opens the model it was started with."""
    worker = ExplorerWorker(open_user_model, limits)
    hosts = [f"{name}:{port}" for name in LOCAL_HOSTS]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        worker.start()  # while the page is being loaded
        yield
        worker.end()

    async def page(request: Request) -> Response:
        return FileResponse(PAGE_FOLDER / "page.html")

    async def problems(request: Request) -> Response:
        return await _run_job(request, worker, "problems", {})

    async def job(request: Request) -> Response:
        name = request.path_params["job"]
        if name not in JOB_NAMES:
            known = ", ".join(JOB_NAMES)
            raise HTTPException(404, f"there is no job of this name; there are {known}")
        return await _run_job(request, worker, name, await _read_body(request))

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/problems", problems),
            Route("/api/{job}", job, methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE_FOLDER)),
        ],
        middleware=[Middleware(RequestGuard, hosts=hosts)],
        exception_handlers={
            HTTPException: _error_response,
            ClientDisconnect: _client_left_response,
            Exception: _error_response,
        },
        lifespan=lifespan,
    )
    app.state.worker = worker
    return app


async def _read_body(request: Request) -> Any:
    """The JSON value that was sent, within limits of size and depth."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the content type of a request must be application/json")
    parts = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= REQUEST_MAX_BYTES:
            parts.append(part)
        elif size > DISCARDED_MAX_BYTES:
            break
    if size > REQUEST_MAX_BYTES:
        raise HTTPException(413, f"a request has at most {REQUEST_MAX_BYTES:,} bytes")
    try:
        body = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body of a request must be valid JSON") from None
    if not _is_shallow(body, REQUEST_MAX_LEVELS):
        limit = f"at most {REQUEST_MAX_LEVELS} levels of lists and objects"
        raise HTTPException(400, f"a request has {limit}")
    return body


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested at most ``levels`` deep."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in inner)


async def _run_job(request: Request, worker: ExplorerWorker, job: str, body: Any) -> Response:
    reply = await worker.ask(job, body, request.is_disconnected)
    headers = {"content-disposition": f'attachment; filename="{reply.name}"'} if reply.name else {}
    return Response(reply.content, reply.status, headers, reply.media_type)


async def _error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": INTERNAL_ERROR_TEXT}, STATUS_INTERNAL_ERROR)


async def _client_left_response(request: Request, error: Exception) -> Response:
    """A response that nobody reads: the page has gone, or its request was cut short."""
    return Response(status_code=STATUS_CLIENT_LEFT)


def open_socket(port: int | None) -> socket.socket:
    """A socket on this machine alone; the usual port, or any free one where that is taken."""
    ports = (DEFAULT_PORT, 0) if port is None else (port,)
    for candidate in ports:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOCAL_HOSTS[0], candidate))
            listening.listen(ACCEPT_BACKLOG_CONNECTIONS)  # at once, or another could take it too
        except OSError:
            listening.close()
        else:
            return listening
    raise ArgumentError("the explorer needs a free port", value=f"got {ports[0]}, which is not")


def serve(
    open_user_model: ModelOpener | None, limits: RequestLimits, listening: socket.socket
) -> None:
    """Answer until interrupted; that raises KeyboardInterrupt."""
    app = make_application(open_user_model, limits, listening.getsockname()[1])
    settings = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    server = uvicorn.Server(settings)
    server.run([listening])
    if server.should_exit:  # uvicorn just returns where interrupts were ignored before it began
        raise KeyboardInterrupt


class RequestGuard:
    """Lets requests of this machine's own page through, and adds headers to what goes back."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no sockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        headers = Headers(scope=scope)
        is_unread = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_and_track() -> Message:
            nonlocal is_unread
            message = await receive()
            is_unread = is_unread and message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = SECURITY_HEADERS | ({"connection": "close"} if is_unread else {})
                extra = [(k.encode(), v.encode()) for k, v in added.items()]
                message = {**message, "headers": [*message.get("headers", []), *extra]}
            await send(message)

        reason = self._rejection_reason(scope["path"], headers)
        answer = JSONResponse({"error": reason}, 403) if reason else self.app
        if reason:  # a connection that closes on an unread body may lose the answer
            await receive_and_track()
        await answer(scope, receive_and_track, send_with_headers)

    def _rejection_reason(self, path: str, headers: Headers) -> str:
        """Why a request is rejected; empty where it is not."""
        if headers.get("host", "").lower() not in self.hosts:
            return "this server answers to its own address only"
        origin = headers.get("origin")
        if origin is not None and origin.lower().removeprefix("http://") not in self.hosts:
            return "this server answers to its own page only"
        site = headers.get("sec-fetch-site", "none")
        if path != "/" and site not in ("none", "same-origin"):
            return "this server answers to its own page only"
        return ""
