"""One request to the console: its user, the clients of that user, its form, and the page that answers it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from ...protocol.errors import ConfigError
from ..web.problems import Problem, problem_of, text_of_error
from .decoding import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import FormData
    from starlette.requests import Request

    from ...clients.aio.admin_io import AsyncAdmin
    from ..web.client_pool_io import UserClients
    from ..web.credentials import Credentials
    from .shared import Shared
    from .snapshot import Snapshot

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "headrace_theme"
PAGE_SIZE = 50


class Paged(NamedTuple):
    """One page of a list: its rows, the number of all rows, the page from 1, and the number of pages."""

    rows: Sequence[Any]
    total: int
    page: int
    pages: int


class Visit:
    """A request of a user. `clients` are there while its handler runs."""

    def __init__(self, request: Request, shared: Shared, credentials: Credentials, session_id: str) -> None:
        self.request, self.shared, self.credentials = request, shared, credentials
        self.session_id = session_id
        self.clients: UserClients
        self.form: FormData
        self._began = time.monotonic()

    @property
    def admin(self) -> AsyncAdmin:
        """The admin client of the user."""
        return self.clients.admin

    @property
    def user(self) -> str:
        """The user's name; empty if the cluster has no users."""
        return self.credentials.username or ("token" if self.credentials.token else "")

    async def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """The latest reading of the cluster. Errors: those of the clients."""
        return await self.shared.snapshots.latest(self.credentials, fresh=fresh)

    # --- arguments --------------------------------------------------------------------------------------

    def text(self, name: str, default: str = "") -> str:
        """A query parameter."""
        return str(self.request.query_params.get(name, default)).strip()

    def number(self, name: str, default: int = 0, *, most: int = 2**63 - 1) -> int:
        """A query parameter that is a whole number. Errors: ConfigError."""
        return whole(name, self.text(name) or str(default), most)

    def paged(self, rows: Sequence[Any], size: int = PAGE_SIZE) -> Paged:
        """The requested page of a list; the last one if there are fewer. Errors: ConfigError."""
        pages = max(1, -(-len(rows) // size))
        page = min(max(self.number("page", 1), 1), pages)
        return Paged(rows[(page - 1) * size : page * size], len(rows), page, pages)

    def field(self, name: str, default: str = "") -> str:
        """A field of the form, without spaces around it."""
        value = self.form.get(name, default)
        return value.strip() if isinstance(value, str) else default

    def raw_field(self, name: str) -> str:
        """A field of the form as it is."""
        value = self.form.get(name, "")
        return value if isinstance(value, str) else ""

    def fields(self, name: str) -> list[str]:
        """All fields of a name."""
        return [value for value in self.form.getlist(name) if isinstance(value, str)]

    def field_number(self, name: str, *, most: int = 2**63 - 1) -> int:
        """A field of the form that is a whole number. Errors: ConfigError."""
        return whole(name, self.field(name), most)

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def path_number(self, name: str) -> int:
        """A part of the path that is a whole number."""
        return int(self.request.path_params[name])

    # --- responses --------------------------------------------------------------------------------------

    def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """A page."""
        shared = self.shared
        names: dict[str, Any] = {
            "visit": self,
            "csrf": shared.sessions.token(self.session_id),
            "is_read_only": shared.settings.is_read_only,
            "theme": theme_of(self.request),
            "here": self.request.url.path,
            "here_with_query": self.request.url.path
            + (f"?{self.request.url.query}" if self.request.url.query else ""),
            "has_security": bool(self.user),
            "now_ms": time.time_ns() // 1_000_000,
            "notice": visible(self.text("notice")[:500]),
            **context,
        }
        html = shared.templates.get_template(template).render(names)
        took_ms = (time.monotonic() - self._began) * 1000
        return HTMLResponse(html, status, headers={"server-timing": f"page;dur={took_ms:.1f}"})

    def see(self, path: str, notice: str = "", **query: Any) -> Response:
        """Go to another page after a change; `notice` is shown there."""
        if notice:
            query["notice"] = notice
        return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)

    def did(self, action: str, target: str) -> None:
        """Record a change that was made, and read the cluster again."""
        self.shared.actions.add(self.user, action, target)
        self.shared.snapshots.changed(self.credentials)

    def failed(self, action: str, target: str, error: BaseException) -> str:
        """Record a change that failed; returns the message for the page. Errors: `error` if it is no error of
        the cluster, or one of the connection to it."""
        problem = problem_of(error)
        if problem is None:
            raise error
        text = visible(text_of_error(error))
        self.shared.actions.add(self.user, action, target, text)
        if problem.status in (401, 503):
            raise error
        return text


def whole(name: str, text: str, most: int = 2**63 - 1) -> int:
    """A whole number from 0. Errors: ConfigError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise ConfigError(f"{name} must be a whole number from 0 to {most}, not {text[:40]!r}")
    return int(text)


def time_ms(text: str) -> int:
    """Milliseconds of a time: a number, or ISO 8601 (UTC without a zone). Errors: ConfigError."""
    if text.isascii() and text.isdecimal() and len(text) < 18:
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text[:60]!r} is not a time such as 2026-01-31T12:00") from None
    return max(0, round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def theme_of(request: Request) -> str:
    """The colours that the user has chosen."""
    theme = request.cookies.get(THEME_COOKIE, "auto")
    return theme if theme in THEMES else "auto"


def local_path(text: str) -> str:
    """The path of a page of this server; "/" for everything else."""
    is_local = text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if is_local and text.isprintable() else "/"


__all__ = ["Problem", "Visit"]
