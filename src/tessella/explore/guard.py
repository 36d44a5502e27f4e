"""Who may ask: this machine's own page, and nobody else.

The server listens on 127.0.0.1 alone. A page of another site could still send requests there, by
name (a name that resolves to 127.0.0.1) or by address; so the Host must be ours and the Origin,
where a browser names one, ours too. What a browser calls cross-site gets none of the answers.

A body that is not read to its end when the answer goes out is not read at all: the connection ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

        why = self._refusal_reason(scope["path"], headers)
        answer = self.app if not why else JSONResponse({"error": why}, 403)
        await answer(scope, receive_and_track, send_with_headers)

    def _refusal_reason(self, path: str, headers: Headers) -> str:
        """Why a request is refused; empty where it is not."""
        if headers.get("host", "").lower() not in self.hosts:
            return "this server answers to its own address only"
        origin = headers.get("origin")
        if origin is not None and origin.lower().removeprefix("http://") not in self.hosts:
            return "this server answers to its own page only"
        site = headers.get("sec-fetch-site", "none")
        if path != "/" and site not in ("none", "same-origin"):
            return "this server answers to its own page only"
        return ""


def allowed_hosts(port: int) -> list[str]:
    """What the Host of a request may be."""
    return [f"{name}:{port}" for name in LOCAL_HOSTS]
