"""Stores whose operations are measured: a subclass of the class of the store, with the same methods, timed.

A store becomes one of its subclass in place, so that processors and queries, which know the store, and copies
of it for other serdes, are measured alike. Writes that wait in front of a cache for a whole run of records
skip the operations: they are measured where they are flushed.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from ...clients.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measures import StoreMeasures

_NS_PER_MS = 1e6
_READS = frozenset(("get", "fetch", "fetch_session"))  # of one entry: those that a cache may answer
OPERATIONS = {
    "put": "put",
    "put_once": "put",
    "put_if_absent": "put-if-absent",
    "put_all": "put-all",
    "get": "get",
    "get_as_of": "get",
    "get_versions": "get",
    "delete": "delete",
    "remove": "remove",
    "all": "all",
    "reverse_all": "all",
    "backward_all": "all",
    "range": "range",
    "reverse_range": "range",
    "prefix_scan": "prefix-scan",
    "fetch": "fetch",
    "fetch_session": "fetch",
    "backward_fetch": "fetch",
    "fetch_range": "fetch",
    "backward_fetch_range": "fetch",
    "fetch_key_range": "fetch",
    "backward_fetch_key_range": "fetch",
    "fetch_all": "fetch",
    "backward_fetch_all": "fetch",
    "find_sessions": "fetch",
    "backward_find_sessions": "fetch",
    "find_sessions_key_range": "fetch",
    "backward_find_sessions_key_range": "fetch",
    "flush": "flush",
    "restore": "restore",
}
"""Kafka's name of the operation by method."""

_kinds: dict[type[Any], type[Any]] = {}  # the measured class of each


def measure(store: Any, measures: StoreMeasures) -> None:
    """Measure the operations of an open store from here on; not those of a store that is measured already."""
    if hasattr(store, "measures"):
        return
    store.__class__ = _measured(type(store))
    store.measures = measures
    iterators = getattr(store, "_iterators", None)
    if iterators is not None:
        iterators.measures = measures
    if not getattr(store, "is_cached", False):
        return
    measures.hit_ratio = Measured()
    segments = getattr(store, "_cached", None)
    if segments is not None:
        segments.get = _noting(segments.get, lambda entry: entry is None, measures.missed)
    elif hasattr(store, "_get_bytes"):
        store._get_bytes = _noting(store._get_bytes, lambda _data: True, measures.missed)  # noqa: SLF001  # as above


def _measured(kind: type[Any]) -> type[Any]:
    found = _kinds.get(kind)
    if found is None:
        found = _kinds[kind] = _made(kind)
    return found


def _made(kind: type[Any]) -> type[Any]:
    methods = {
        method: _timed(getattr(kind, method), operation, is_read=method in _READS)
        for method, operation in OPERATIONS.items()
        if hasattr(kind, method)
    }
    return type(f"Measured{kind.__name__}", (kind,), methods)


def _timed(method: Callable[..., Any], operation: str, *, is_read: bool) -> Callable[..., Any]:
    @wraps(method)
    def timed(self: Any, *args: Any, **options: Any) -> Any:
        measures: StoreMeasures = self.measures
        if measures.is_inside:
            return method(self, *args, **options)
        measures.is_inside, began = True, measures.clock_ns()
        try:
            return method(self, *args, **options)
        finally:
            measures.is_inside = False
            took_ms = (measures.clock_ns() - began) / _NS_PER_MS
            measures.operations[operation].record(took_ms, measures.wall_ms())
            if is_read and measures.hit_ratio is not None:
                measures.read()
            if operation == "put" and hasattr(self, "buffer_size"):
                measures.buffered(self.buffer_size, self.num_records)

    return timed


def _noting(
    read: Callable[[bytes], Any], is_miss: Callable[[Any], bool], missed: Callable[[], None]
) -> Callable[[bytes], Any]:
    def noted(key: bytes) -> Any:
        found = read(key)
        if is_miss(found):
            missed()
        return found

    return noted
