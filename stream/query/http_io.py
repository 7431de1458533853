"""Queries over HTTP with JSON, for any program: an ASGI application over a `Queries` handle.

It needs `pip install 'headrace[http]'`. Queries are sent to the instance that has the key, so one HTTP server
serves all instances. Errors are {"error": name, "message": text}: 400 for an invalid query, 404 for an
unknown store and for a key without value, 413 for a result that is too large, 503 for a retriable failure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, HeadraceError
from ...runtime.extras import missing_extra
from .errors import QueryError, ResultTooLargeError, UnknownStoreError
from .http_tokens_io import has_token, read_tokens
from .json_forms import json_form, key_from_text
from .queries import (
    MAX_TIME,
    KeyQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client_io import Queries

_TRUE, _FALSE = ("true", "1", ""), ("false", "0")
_MOST_SECONDS = 300.0


def http_app(queries: Queries, *, token_file: str | None = None) -> Any:
    """The ASGI application; `serve_http` runs it, or any server, such as `uvicorn.run(http_app(q))`.

    `token_file`: a file with one token per line, which its owner alone may read; a request needs one of them
    as `Authorization: Bearer TOKEN`, or as the password of basic authentication. The file is read for each
    request.

    Errors: ConfigError for a file that cannot be used, and without a file if the instances require a secret,
    since HTTP would otherwise bypass it; ImportError without starlette.
    """
    if token_file is not None:
        read_tokens(token_file)
    elif queries.has_secret:
        raise ConfigError(
            f"application {queries.application_id!r} has a secret for queries: HTTP needs a token_file"
        )
    try:
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise missing_extra(error, "Queries over HTTP", "http") from error

    def route(path: str, answer: Callable[[Queries, _Request], Any]) -> Any:
        def endpoint(request: Any) -> Any:  # not async: starlette calls it in a thread
            if token_file is not None and not has_token(request.headers.get("authorization"), token_file):
                refusal = {"error": "Unauthorized", "message": "this server needs a token"}
                return Response(json.dumps(refusal), 401, {"www-authenticate": "Bearer"}, "application/json")
            status, body = _answer(queries, answer, _Request(request.path_params, request.query_params))
            headers = {"retry-after": "1"} if status == 503 else None
            return Response(json.dumps(body), status, headers, "application/json")

        return Route(path, endpoint, methods=["GET"])

    return Starlette(
        routes=[
            route("/stores", _stores),
            route("/hosts", _hosts),
            route("/stores/{store}/keys/{key:path}", _key),
            route("/stores/{store}/owner/{key:path}", _owner),
            route("/stores/{store}/range", _range),
            route("/stores/{store}/windows/{key:path}", _windows_of_key),
            route("/stores/{store}/windows", _windows),
            route("/stores/{store}/sessions/{key:path}", _sessions),
            route("/stores/{store}/versions/{key:path}", _versions),
        ]
    )


class _Request:
    """Parameters of the path and of the query string. Errors: ValueError for an invalid parameter."""

    def __init__(self, path: Any, query: Any) -> None:
        self.path = path
        self.query = query

    @property
    def store(self) -> str:
        store: str = self.path["store"]
        return store

    def whole(self, name: str, default: int | None) -> int | None:
        text = self.query.get(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{name}={text!r} is not a whole number") from None

    def time(self, name: str, default: int) -> int:
        found = self.whole(name, default)
        assert found is not None
        return found

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "false").lower()
        if text not in (*_TRUE, *_FALSE):
            raise ValueError(f"{name}={text!r} is neither true nor false")
        return text in _TRUE

    def options(self) -> dict[str, Any]:
        seconds = self.query.get("timeout")
        timeout_s = None if seconds is None else min(max(float(seconds), 0.0), _MOST_SECONDS)
        stale = self.whole("allow_stale", None)
        return {"allow_stale": stale, "isolation": self.query.get("isolation"), "timeout_s": timeout_s}

    def key(self, queries: Queries, text: str | None) -> Any:
        if text is None:
            return None
        return key_from_text(text, self.query.get("key_format", "auto"), queries.key_serde(self.store).dumps)


class _Absent(Exception):  # an answer, not an error
    pass


def _answer(
    queries: Queries, answer: Callable[[Queries, _Request], Any], request: _Request
) -> tuple[int, Any]:
    try:
        return 200, answer(queries, request)
    except _Absent:
        return 404, {"error": "NoSuchKey", "message": "the store has no value for this key"}
    except (HeadraceError, ValueError) as error:
        return _status(error), {"error": type(error).__name__, "message": str(error)}


def _status(error: Exception) -> int:
    if isinstance(error, UnknownStoreError):
        return 404
    if isinstance(error, ResultTooLargeError):
        return 413
    if getattr(error, "retriable", False):
        return 503
    return 400 if isinstance(error, (QueryError, ValueError)) else 500


def _stores(queries: Queries, _request: _Request) -> Any:
    return [
        {
            "name": store.name,
            "kind": store.kind,
            "topics": dict(store.topics),
            "global": store.sub_topology < 0,
        }
        for store in queries.stores().values()
    ]


def _hosts(queries: Queries, _request: _Request) -> Any:
    return [
        {"host": str(host), "active": sorted(each.active), "standby": sorted(each.standby)}
        for host, each in sorted(queries.hosts().items())
    ]


def _key(queries: Queries, request: _Request) -> Any:
    key = request.key(queries, request.path["key"])
    query = (TimestampedKeyQuery if request.flag("timestamped") else KeyQuery)(key)
    found = queries.query(request.store, query, **request.options())
    value = found.global_result or next(iter(found.partitions.values()))
    if value.value is None:
        raise _Absent
    return {
        "key": json_form(key),
        "value": json_form(value.value),
        "position": {str(tp): offset for tp, offset in value.position.items()},
    }


def _owner(queries: Queries, request: _Request) -> Any:
    found = queries.owner(request.store, request.key(queries, request.path["key"]))
    active = None if found.active is None else str(found.active)
    return {
        "partition": found.partition,
        "active": active,
        "standbys": [str(host) for host in found.standbys],
    }


def _rows(queries: Queries, request: _Request, query: Any) -> list[Any]:
    found = queries.query(request.store, query, **request.options())
    results = [found.global_result] if found.global_result is not None else list(found.partitions.values())
    limit = request.whole("limit", None)
    return [row for each in results for row in each.value][:limit]


def _entries(rows: list[Any]) -> Any:
    return [{"key": json_form(key), "value": json_form(value)} for key, value in rows]


def _range(queries: Queries, request: _Request) -> Any:
    prefix = request.query.get("prefix")
    if prefix is not None:
        return _entries(_rows(queries, request, PrefixQuery(prefix.encode())))
    lower, upper = (request.key(queries, request.query.get(name)) for name in ("from", "to"))
    kind = TimestampedRangeQuery if request.flag("timestamped") else RangeQuery
    return _entries(_rows(queries, request, kind(lower, upper, request.flag("descending"))))


def _span(request: _Request) -> tuple[int, int]:
    return request.time("from_time", 0), request.time("to_time", MAX_TIME)


def _windows_of_key(queries: Queries, request: _Request) -> Any:
    key = request.key(queries, request.path["key"])
    rows = _rows(queries, request, WindowKeyQuery(key, *_span(request)))
    return [{"start": start, "value": json_form(value)} for start, value in rows]


def _windows(queries: Queries, request: _Request) -> Any:
    return _windowed(_rows(queries, request, WindowRangeQuery(None, *_span(request))))


def _sessions(queries: Queries, request: _Request) -> Any:
    key = request.key(queries, request.path["key"])
    return _windowed(_rows(queries, request, WindowRangeQuery(key, *_span(request))))


def _windowed(rows: list[Any]) -> Any:
    return [{**json_form(windowed), "value": json_form(value)} for windowed, value in rows]


def _versions(queries: Queries, request: _Request) -> Any:
    key = request.key(queries, request.path["key"])
    if "from_time" in request.query or "to_time" in request.query:
        query = MultiVersionedKeyQuery(key, *_span(request), request.flag("ascending"))
        return [json_form(version) for version in _rows(queries, request, query)]
    found = queries.query(
        request.store, VersionedKeyQuery(key, request.whole("as_of", None)), **request.options()
    )
    value = next(iter(found.partitions.values())).value
    if value is None:
        raise _Absent
    return json_form(value)
