"""Serdes of windowed keys."""

from __future__ import annotations

import pytest
from headrace import stream
from headrace.clients.serdes import deserializer, int64, serializer, utf8
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


def test_a_windowed_serde_serves_clients() -> None:
    """A consumer of the results of an application names it as the application does."""
    key = Windowed("k", Window(5, 15))
    for serde in (time_windowed(utf8, 10), session_windowed(utf8)):
        data = serializer(serde, "key")("topic", key, ())
        assert data is not None
        assert deserializer(serde, "key")("topic", data, ()) == key
    with pytest.raises(TypeError, match="needs the serde of the keys"):
        session_windowed().serialize(key, None)  # type: ignore[arg-type]


def test_windowed_keys_use_the_serde_of_the_application() -> None:
    """In stores, in the buffer of suppress and in topics."""
    app = stream.App("windows", key=utf8, value=utf8)
    counts = app.stream("a").group_by_key().windowed_by(stream.tumbling(10)).count()
    counts.suppress(stream.until_window_closes()).to_stream().to("b", value=int64)
    with stream.TestDriver(app) as driver:
        driver.input_topic("a").pipe_input("k", "v", 12)
        driver.input_topic("a").pipe_input("k", "v", 22)
        found = driver.output_topic("b", key=time_windowed(utf8, 10), value=int64).read_key_values_to_map()
    assert found == {Windowed("k", Window(10, 20)): 1}
