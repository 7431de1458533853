"""Tables with values that a transformer of the user makes."""

from __future__ import annotations

from typing import Any

import pytest
from headrace import stream
from headrace.clients.serdes import int64, utf8
from headrace.stream import Builder, Record, Store


class Counting:
    """Adds how often a key was seen, from a store of its own."""

    def init(self, context: Any) -> None:
        """Find the store."""
        self.context = context
        self.seen = context.state_store("seen")

    def transform(self, key: Any, value: Any) -> Any:
        """The new value; deleted rows stay deleted."""
        times = (self.seen.get(key) or 0) + 1
        self.seen.put(key, times)
        return None if value is None else f"{value}{times}"


class Forwarding:
    """Tries to forward."""

    def init(self, context: Any) -> None:
        """Keep it."""
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        """Fails."""
        self.context.forward(Record(key, value, 0))


@pytest.mark.parametrize("store", [None, Store("stored", value=utf8)])
def test_values_of_transformers(store: Store | None) -> None:
    """Stored or not, every change of a row is transformed, deletions as well."""
    app = Builder(persistent=False)
    app.add_store(Store("seen", key=utf8, value=int64))
    table = app.table("in", key=utf8, value=utf8)
    table.transform_values(Counting, "seen", store=store).to_stream().to("out", value=utf8)
    with stream.TestDriver(app, cache_bytes=0) as driver:
        topic = driver.input_topic("in", key=utf8, value=utf8)
        for value in ("a", "b", None):
            topic.pipe_input("k", value)
        out = driver.output_topic("out", key=utf8, value=utf8)
        assert out.read_values() == ["a1", "b2", None]


def test_transformers_cannot_forward() -> None:
    """They return the value."""
    app = Builder()
    app.table("in", key=utf8, value=utf8).transform_values(Forwarding).to_stream().to("out", value=utf8)
    with stream.TestDriver(app) as driver, pytest.raises(Exception, match="KTABLE-TRANSFORMVALUES") as caught:
        driver.input_topic("in", key=utf8, value=utf8).pipe_input("k", "v")
    causes = []
    error: BaseException | None = caught.value
    while error is not None:
        causes.append(str(error))
        error = error.__cause__
    assert any("cannot forward" in cause for cause in causes)
