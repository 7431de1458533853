"""The ASGI application of the console: routes, sessions, tokens of forms, the read-only switch, error
pages."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ..web.credentials import ANONYMOUS, Credentials
from ..web.problems import Problem, problem_of
from ..web.settings import NONE
from .decoding import visible
from .pages import PAGES
from .sessions import COOKIE
from .shared import STATIC, ConsoleSettings, Shared
from .visit import THEME_COOKIE, THEMES, Visit, local_path, theme_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from ..web.client_pool_io import ClientPool

log = logging.getLogger("headrace.console")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
MOST_FIELDS = 2_000  # Bound: fields of a form
Handler = Callable[[Visit], Awaitable[Response]]


class _Session(NamedTuple):
    credentials: Credentials | None
    session_id: str
    is_new: bool


class Console:
    """The console as an application of the web server."""

    def __init__(self, pool: ClientPool, settings: ConsoleSettings) -> None:
        self.shared = Shared(pool, settings)
        routes = [
            Route("/static/{name}", self._static),
            Route("/favicon.ico", self._icon),
            Route("/theme", self._theme, methods=["POST"]),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
        ]
        routes += [
            Route(page.path, self._endpoint(page.handler, page.method), methods=[page.method])
            for page in PAGES
        ]
        self._starlette = Starlette(
            routes=routes,
            exception_handlers={HTTPException: self._http_error, Problem: self._error},
        )

    @property
    def asgi(self) -> Any:
        """The ASGI application."""
        return self._serve

    async def close(self) -> None:
        """End the readings and the tails."""
        await self.shared.tails.close()
        await self.shared.snapshots.close()

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message.get("headers", ())}
                further = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
                message = {**message, "headers": [*message.get("headers", ()), *further]}
            await send(message)

        await self._starlette(scope, receive, with_headers)

    # --- requests of pages ------------------------------------------------------------------------------

    def _endpoint(self, handler: Handler, method: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            session = self._session(request)
            if session.credentials is None:
                return self._to_sign_in(request)
            visit = Visit(request, self.shared, session.credentials, session.session_id)
            try:
                if method == "POST":
                    await self._read_form(visit)
                async with self.shared.pool.use(session.credentials) as visit.clients:
                    response = await handler(visit)
            except Exception as error:  # noqa: BLE001 - every error becomes a page
                response = self._page_of_error(visit, error)
            if session.is_new:
                self._set_cookie(request, response, session.session_id)
            response.headers.setdefault("cache-control", "no-store")
            return response

        return endpoint

    def _session(self, request: Request) -> _Session:
        session_id = request.cookies.get(COOKIE, "")
        if self.shared.pool.method == NONE:
            is_new = len(session_id) != 43
            return _Session(ANONYMOUS, self.shared.sessions.new_id() if is_new else session_id, is_new)
        return _Session(self.shared.sessions.credentials(session_id), session_id, False)

    async def _read_form(self, visit: Visit) -> None:
        """Errors: Problem 403 without the session's token, or if the console is read-only; 413."""
        limit = self.shared.settings.most_form_bytes
        length = visit.request.headers.get("content-length", "")
        if not length.isdecimal():
            raise Problem(411, "a form needs a Content-Length")
        if int(length) > limit:
            raise Problem(413, f"the form has more than {limit} bytes: max.request.bytes")
        visit.form = await visit.request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=limit)
        if not self.shared.sessions.is_token(visit.session_id, visit.raw_field("csrf")):
            raise Problem(403, "the form is too old, or is not of this console: load the page again")
        if self.shared.settings.is_read_only:
            raise Problem(403, "this console is read-only: it was started with --read-only")

    def _set_cookie(self, request: Request, response: Response, session_id: str) -> None:
        response.set_cookie(
            COOKIE, session_id, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )

    # --- errors -----------------------------------------------------------------------------------------

    def _page_of_error(self, visit: Visit, error: Exception) -> Response:
        problem = problem_of(error)
        if isinstance(error, HTTPException):
            problem = Problem(error.status_code, str(error.detail))
        if problem is None:
            log.error("%s %s failed", visit.request.method, visit.request.url.path, exc_info=error)
            problem = Problem(500, "the console failed; its log has the error")
        if problem.status == 401:
            self.shared.sessions.end(visit.session_id)
            return self._to_sign_in(visit.request)
        return self._render_error(visit, problem)

    def _render_error(self, visit: Visit, problem: Problem) -> Response:
        retries = problem.status == 503
        response = visit.render(
            "error.html",
            problem.status,
            code=problem.status,
            title="The cluster does not answer" if retries else problem.body().title,
            detail=visible(problem.detail),
            retries=retries and visit.request.method == "GET",
        )
        response.headers.update({**problem.headers, "cache-control": "no-store"})
        return response

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = f"there is no page {request.url.path!r}" if error.status_code == 404 else str(error.detail)
        return await self._error(request, Problem(error.status_code, detail))

    async def _error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        session = self._session(request)
        visit = Visit(request, self.shared, session.credentials or ANONYMOUS, session.session_id)
        return self._render_error(visit, error)

    # --- signing in -------------------------------------------------------------------------------------

    def _to_sign_in(self, request: Request) -> Response:
        if request.method != "GET":
            raise Problem(401, "the session is over: sign in again, and repeat the change")
        if request.headers.get("sec-fetch-site") == "cross-site":
            # a strict cookie does not come with a link from another site, but with the reload by this page
            return HTMLResponse("<!doctype html><meta http-equiv=refresh content=0><title>headrace</title>")
        if "hx-request" in request.headers:
            return Response(status_code=401, headers={"hx-redirect": "/sign-in"})
        query = f"?{request.url.query}" if request.url.query else ""
        here = request.url.path + query
        return RedirectResponse("/sign-in" if here == "/" else f"/sign-in?{urlencode({'to': here})}", 303)

    async def _sign_in(self, request: Request) -> Response:
        visit = Visit(request, self.shared, ANONYMOUS, "")
        target = local_path(visit.text("to", "/"))
        if self.shared.pool.method == NONE:
            return RedirectResponse("/", 303)
        if request.method == "GET":
            return visit.render("sign_in.html", to=target, error="", username="")
        visit.form = await request.form(max_files=0, max_fields=10, max_part_size=64 * 1024)
        target = local_path(visit.field("to") or "/")
        token = visit.field("token")
        credentials = (
            Credentials(token=token)
            if token
            else Credentials(visit.field("username"), visit.raw_field("password"))
        )
        name = credentials.username or "token"
        if credentials.is_anonymous or not (credentials.password or credentials.token):
            error = "Enter a user name and a password."
        else:
            error = await self._refusal(credentials, name)
        if error:
            return visit.render("sign_in.html", 401, to=target, error=error, username=credentials.username)
        response = RedirectResponse(target, 303)
        self._set_cookie(request, response, self.shared.sessions.begin(credentials))
        self.shared.actions.add(name, "sign in", "console")
        return response

    async def _refusal(self, credentials: Credentials, name: str) -> str:
        """Why the cluster does not accept these credentials; empty if it does."""
        self.shared.sessions.check_attempt(name)
        try:
            async with self.shared.pool.use(credentials) as clients:
                await clients.admin.describe_cluster()
        except Problem as problem:
            if problem.status != 401:
                raise
            self.shared.sessions.failed(name)
            self.shared.actions.add(name, "sign in", "console", "wrong password")
            return "The cluster does not accept this user and password."
        return ""

    async def _sign_out(self, request: Request) -> Response:
        session_id = request.cookies.get(COOKIE, "")
        form = await request.form(max_files=0, max_fields=10)
        if self.shared.sessions.is_token(session_id, str(form.get("csrf", ""))):
            self.shared.sessions.end(session_id)
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response

    # --- static files and the theme -----------------------------------------------------------------------

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise Problem(404, f"there is no file {visible(name)!r}")
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(self.shared.static[name], media_type=STATIC[name], headers=headers)

    async def _icon(self, request: Request) -> Response:
        return Response(self.shared.static["icon.svg"], media_type=STATIC["icon.svg"])

    async def _theme(self, request: Request) -> Response:
        """The next colours; changes nothing but a cookie of this browser."""
        form = await request.form(max_files=0, max_fields=10)
        theme = str(form.get("theme", theme_of(request)))
        response = RedirectResponse(local_path(str(form.get("to", "/"))), 303)
        if theme in THEMES:
            response.set_cookie(THEME_COOKIE, theme, max_age=365 * 86_400, httponly=True, samesite="strict")
        return response
