"""How changes are held back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace import stream
from headrace.stream import Builder
from headrace.stream.dsl.suppressed import UNBOUNDED, until_time_limit, until_window_closes
from headrace.stream.topology.specs import ProcessorSpec


def test_limits_of_buffers() -> None:
    """A full buffer is emitted early, or stops the application where results must be final."""
    early = until_time_limit(timedelta(seconds=1), max_records=3)
    assert (early.wait_ms, early.max_records, early.max_bytes, early.is_strict) == (1000, 3, UNBOUNDED, False)
    assert until_time_limit(1, max_bytes=3, shut_down_when_full=True).is_strict
    final = until_window_closes(logged=False, name="final")
    assert (final.wait_ms, final.is_strict, final.is_logged, final.name) == (None, True, False, "final")


def test_windows_close_after_their_grace() -> None:
    """The longest grace of the aggregations above; that of sessions includes the gap."""
    app = Builder()
    grouped = app.stream("a").group_by_key()
    tumbling = grouped.windowed_by(stream.tumbling(100, grace=7)).count().map_values(str)
    tumbling.suppress(until_window_closes(name="one"))
    grouped.windowed_by(stream.session(100, grace=7)).count().suppress(until_window_closes(name="two"))
    waits: dict[str, Any] = {
        node.name: node.supplier.wait_ms  # type: ignore[attr-defined]
        for node in app.build("app").sub_topology(0).nodes
        if isinstance(node, ProcessorSpec) and node.name in ("one", "two")
    }
    assert waits == {"one": 7, "two": 107}
