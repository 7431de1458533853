"""Serdes of windowed keys."""

from __future__ import annotations

from headrace.clients.serdes import int64, utf8
from headrace.stream.dsl.windowed_serdes import session_windowed, time_windowed
from headrace.stream.records import Window, Windowed
from headrace.stream.topology.serdes import resolve


def test_keys_with_their_windows() -> None:
    """Java's bytes: key and start; key, end and start."""
    time = resolve(time_windowed(utf8, 10), "key", key=int64, value=int64)
    data = b"k" + (5).to_bytes(8, "big")
    assert time.dumps(Windowed("k", Window(5, 15))) == data
    assert time.loads(data) == Windowed("k", Window(5, 15))
    session = resolve(session_windowed(), "key", key=utf8, value=int64)
    data = b"k" + (15).to_bytes(8, "big") + (5).to_bytes(8, "big")
    assert session.dumps(Windowed("k", Window(5, 15))) == data
    assert session.loads(data) == Windowed("k", Window(5, 15))
    assert time_windowed(utf8, 10).inner is utf8
