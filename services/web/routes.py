"""The route table of an application: paths, handlers, and what the OpenAPI document says about them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from .problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    Handler = Callable[[Any], Awaitable[Any]]

JSON = "application/json"
_MAX_SEGMENTS = 16


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter. `schema` is JSON Schema."""

    name: str
    schema: dict[str, Any]
    doc: str
    is_required: bool = False


def integer(name: str, doc: str, *, low: int = 0, default: int | None = None) -> Param:
    """A parameter that is a whole number."""
    schema: dict[str, Any] = {"type": "integer", "minimum": low}
    return Param(name, schema if default is None else {**schema, "default": default}, doc)


def text(name: str, doc: str, *choices: str, is_required: bool = False) -> Param:
    """A parameter that is text, or one of some choices."""
    schema: dict[str, Any] = {"type": "string"}
    return Param(name, {**schema, "enum": list(choices)} if choices else schema, doc, is_required)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. `request` and `response` are types of the JSON bodies (None: no body);
    `accepts` and `returns` are content types."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    request: Any = None
    response: Any = None
    status: int = 200
    params: tuple[Param, ...] = ()
    accepts: tuple[str, ...] = (JSON,)
    returns: tuple[str, ...] = (JSON,)
    is_streamed: bool = False  # the body of the request has no bound and is read while it arrives
    needs_user: bool = True  # the handler uses clients
    doc: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The path parameters."""
        return tuple(_name(part) for part in self.path.split("/") if part.startswith("{"))


class RouteTable:
    """Finds the route of a request by its undecoded path: `%2F` in a segment does not divide it."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._by_shape: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in self.routes:
            parts = tuple(route.path.strip("/").split("/"))
            shape = self._by_shape.setdefault(len(parts), [])
            for known, methods in shape:
                if known == parts:
                    assert route.method not in methods, f"{route.method} {route.path} is there twice"
                    methods[route.method] = route
                    break
            else:
                shape.append((parts, {route.method: route}))
        for shape in self._by_shape.values():
            shape.sort(key=lambda item: [_generality(part) for part in item[0]])

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """(the route, its path parameters). Errors: Problem 404, 405, and 400 for text that is not UTF-8."""
        methods, params = self._methods(raw_path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            raise Problem(
                405, f"{method} is not a method of this path: {allowed}", headers={"allow": allowed}
            )
        return route, params

    def has(self, raw_path: bytes) -> bool:
        """Whether there is a route of this path, with any method."""
        try:
            self._methods(raw_path)
        except Problem:
            return False
        return True

    def _methods(self, raw_path: bytes) -> tuple[dict[str, Route], dict[str, str]]:
        """(the routes of a path by method, its parameters). Errors: Problem 400, 404."""
        segments = raw_path.strip(b"/").split(b"/")
        if len(segments) > _MAX_SEGMENTS:
            raise Problem(404, "there is no such path")
        parts = [_decoded(segment) for segment in segments]
        for pattern, methods in self._by_shape.get(len(parts), ()):
            params = _match(pattern, parts)
            if params is not None:
                return methods, params
        raise Problem(404, "there is no such path")


def _generality(part: str) -> int:
    """The order of patterns: literal parts, parameters with a suffix, other parameters."""
    if not part.startswith("{"):
        return 0
    return 2 if part.endswith("}") else 1


def _match(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for expected, part in zip(pattern, parts, strict=True):
        if expected.startswith("{"):
            value = part
            suffix = expected.partition("}")[2]  # as in {name}:alter
            if suffix:
                if not part.endswith(suffix):
                    return None
                value = part.removesuffix(suffix)
            if not value:
                return None
            params[_name(expected)] = value
        elif expected != part:
            return None
    return params


def _name(part: str) -> str:
    return part[1:].partition("}")[0]


def _decoded(segment: bytes) -> str:
    try:
        found = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Problem(400, "the path is not UTF-8") from None
    if "\0" in found:
        raise Problem(400, "the path has a NUL character")
    return found
