"""Where the late records of a processor go: to a function of the user, or to a sink below the processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import LateRecord, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.records import Headers
    from ..processing import ProcessorContext

OnLate = "Callable[[Any, Any, int, Headers, Window | None, int], None]"
"""Key, value, timestamp, headers, the window that it missed, stream time."""


class LateRecords(NamedTuple):
    """One of both is set. `sink`: the name of a child that gets nothing else."""

    function: Callable[[LateRecord[Any, Any]], object] | None = None
    sink: str | None = None


def on_late(late: LateRecords | None, context: ProcessorContext) -> Any:
    """A function of type `OnLate` for one task; it does nothing without `late`."""
    if late is None:
        return _nothing
    if late.function is not None:
        return _to_function(late.function, context)
    assert late.sink is not None
    return _to_sink(late.sink, context)


def side_outputs(supplier: Any) -> tuple[str, ...]:
    """The children of a processor that get late records alone."""
    late = getattr(supplier, "late", None)
    return () if late is None or late.sink is None else (late.sink,)


def _nothing(
    _key: Any, _value: Any, _timestamp: int, _headers: Headers, _window: Window | None, _stream_time: int
) -> None:
    """The record is dropped."""


def _to_function(function: Callable[[LateRecord[Any, Any]], object], context: ProcessorContext) -> Any:
    def call(
        key: Any, value: Any, timestamp: int, headers: Headers, window: Window | None, stream_time: int
    ) -> None:
        function(LateRecord(key, value, timestamp, headers, window, stream_time, context.record_metadata))

    return call


def _to_sink(sink: str, context: ProcessorContext) -> Any:
    forward, name = context.forward_of(sink), context.name.encode()

    def send(
        key: Any, value: Any, timestamp: int, headers: Headers, window: Window | None, stream_time: int
    ) -> None:
        more = [("__streams.late.processor", name), ("__streams.late.stream.time", _text(stream_time))]
        if window is not None:
            more.append(("__streams.late.window.start", _text(window.start)))
            more.append(("__streams.late.window.end", _text(window.end)))
        more.append(("__streams.late.ms", _text(stream_time - timestamp)))
        where = context.record_metadata
        if where is not None:
            more.append(("__streams.late.topic", where.topic.encode()))
            more.append(("__streams.late.partition", _text(where.partition)))
            more.append(("__streams.late.offset", _text(where.offset)))
        forward(key, value, timestamp, (*headers, *more))

    return send


def _text(number: int) -> bytes:
    return str(number).encode()
