"""The console and REST in one server: whose path it is decides, and of `/topics` what the client accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..rest.application import RestApplication
    from ..web.guard_io import Receive, Scope, Send
    from .application import Console

# The only segment with which paths of both begin.
SHARED = "topics"


class ConsoleBesideRest:
    """One application of the web server.

    A session of the console is none of REST: its requests need credentials of their own, and cookies are
    not read. A request of a browser for a page, or with a form, is one of the console.
    """

    def __init__(self, console: Console, rest: RestApplication) -> None:
        self._console, self._rest = console, rest
        self.segments = frozenset(route.path.split("/")[1] for route in rest.table.routes)

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        application = self._rest if self._is_of_rest(scope) else self._console
        await application.asgi(scope, receive, send)

    async def close(self) -> None:
        """End streams and tasks."""
        await self._rest.close()
        await self._console.close()

    def _is_of_rest(self, scope: Scope) -> bool:
        segment = scope["path"].split("/", 2)[1]
        if segment != SHARED:
            return segment in self.segments
        return not _is_of_a_page(dict(scope["headers"])) and self._rest.table.has(scope["raw_path"])


def _is_of_a_page(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser loads a page, a page loads a part of itself (htmx), or sends a form."""
    return (
        b"text/html" in headers.get(b"accept", b"").lower()
        or b"hx-request" in headers
        or headers.get(b"content-type", b"").lower().startswith((b"application/x-www-form", b"multipart/"))
    )
