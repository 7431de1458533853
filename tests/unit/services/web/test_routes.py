"""The route table: paths, parameters, and paths that it refuses."""

from typing import Any

import pytest
from headrace.services.web.problems import Problem
from headrace.services.web.routes import Route, RouteTable


async def handler(_call: Any) -> None:
    """Never called."""


TABLE = RouteTable(
    Route(method, path, handler, path, "test")
    for method, path in (
        ("GET", "/topics"),
        ("GET", "/topics/{topic}"),
        ("POST", "/topics/{topic}"),
        ("POST", "/topics/{topic}/configs:alter"),
        ("GET", "/topics/-/configs"),
        ("GET", "/topics/{topic}/configs"),
        ("POST", "/topics/{topic}:purge"),
    )
)


@pytest.mark.parametrize(
    ("method", "path", "route", "params"),
    [
        ("GET", b"/topics", "/topics", {}),
        ("GET", b"/topics/", "/topics", {}),
        ("HEAD", b"/topics", "/topics", {}),
        ("GET", b"/topics/a%2Fb", "/topics/{topic}", {"topic": "a/b"}),
        ("GET", b"/topics/%C3%A4", "/topics/{topic}", {"topic": "\u00e4"}),
        ("GET", b"/topics/-/configs", "/topics/-/configs", {}),
        ("GET", b"/topics/x/configs", "/topics/{topic}/configs", {"topic": "x"}),
        ("POST", b"/topics/x/configs:alter", "/topics/{topic}/configs:alter", {"topic": "x"}),
        ("POST", b"/topics/x:purge", "/topics/{topic}:purge", {"topic": "x"}),
        ("GET", b"/topics/..%2F..%2Fetc", "/topics/{topic}", {"topic": "../../etc"}),
    ],
)
def test_route_of_a_path(method: str, path: bytes, route: str, params: dict[str, str]) -> None:
    """Literal segments go before parameters; an encoded slash is a part of its segment."""
    found, given = TABLE.find(method, path)
    assert (found.path, given) == (route, params)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", b"/", 404),
        ("GET", b"/topics//configs", 404),
        ("GET", b"/topics/x/../y", 404),
        ("DELETE", b"/topics/x", 405),
        ("GET", b"/topics/%ff", 400),
        ("GET", b"/topics/a%00b", 400),
        ("GET", b"/" + b"a/" * 10_000, 404),
    ],
)
def test_path_without_a_route(method: str, path: bytes, status: int) -> None:
    """Unknown paths, other methods, and text that is not UTF-8."""
    with pytest.raises(Problem) as refused:
        TABLE.find(method, path)
    assert refused.value.status == status
    if status == 405:
        assert refused.value.headers == {"allow": "GET, POST"}


def test_route_that_is_there_twice() -> None:
    """A table with the same method and path twice is a defect of the program."""
    twice = Route("GET", "/x", handler, "", "")
    with pytest.raises(AssertionError, match="GET /x is there twice"):
        RouteTable((twice, twice))
