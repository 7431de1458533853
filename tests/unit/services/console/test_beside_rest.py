"""The console and REST in one server: which of them a request is for."""

import asyncio
from typing import Any, cast

import pytest
from headrace.services.console.beside_rest import SHARED, ConsoleBesideRest
from headrace.services.console.pages import PAGES
from headrace.services.rest.application import RestApplication
from headrace.services.rest.settings import RestConfig
from headrace.services.web.settings import WebConfig

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
REST = RestApplication(cast("Any", None), WebConfig(), RestConfig())


class Served:
    """An application that notes its requests."""

    def __init__(self) -> None:
        self.table = REST.table
        self.paths: list[str] = []

    async def asgi(self, scope: Any, _receive: Any, _send: Any) -> None:
        self.paths.append(scope["path"])


def application_of(method: str, path: str, **headers: str) -> str:
    """The application that gets the request."""
    console, rest = Served(), Served()
    both = ConsoleBesideRest(cast("Any", console), cast("Any", rest))
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"method": method, "path": path, "raw_path": path.encode(), "headers": pairs}
    asyncio.run(both.asgi(scope, cast("Any", None), cast("Any", None)))
    assert console.paths + rest.paths == [path]
    return "rest" if rest.paths else "console"


@pytest.mark.parametrize("path", ["/topics", "/topics/orders", "/topics/orders/partitions"])
def test_paths_of_both(path: str) -> None:
    """A page for a browser, a document for all others."""
    assert application_of("GET", path, accept="*/*") == "rest"
    assert application_of("GET", path) == "rest"
    assert application_of("GET", path, accept="application/vnd.kafka.v2+json") == "rest"
    assert application_of("GET", path, **BROWSER) == "console"
    assert application_of("GET", path, accept="*/*", hx_request="true") == "console"
    form = "application/x-www-form-urlencoded"
    assert application_of("POST", path, accept="*/*", content_type=form) == "console"
    assert application_of("POST", path, content_type="application/vnd.kafka.json.v2+json") == "rest"


@pytest.mark.parametrize("path", ["/v3/clusters", "/v3/none", "/consumers/a", "/docs", "/openapi.json"])
def test_paths_of_rest(path: str) -> None:
    """Also in a browser, and where there is nothing: a problem document."""
    assert application_of("GET", path, **BROWSER) == "rest"


def test_paths_of_the_console() -> None:
    """All pages; those that no route of REST has, also without a browser."""
    for page in PAGES:
        path = page.path.replace(":int}", "}").replace("{", "").replace("}", "")
        assert application_of(page.method, path, **BROWSER) == "console", path
    assert application_of("GET", "/topics/orders/events", accept="text/event-stream") == "console"
    assert application_of("GET", "/none") == "console"


def test_only_topics_are_in_both() -> None:
    """A new page or route must not hide another one."""
    both = ConsoleBesideRest(cast("Any", None), REST)
    own = {"static", "favicon.ico", "theme", "sign-in", "sign-out"}
    pages = {page.path.split("/")[1] for page in PAGES} | own
    assert both.segments & pages == {SHARED}
