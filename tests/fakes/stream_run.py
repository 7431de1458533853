"""An application in the test driver; keys are text and values are JSON unless a topic has other serdes."""

from __future__ import annotations

from typing import Any

from headrace.clients.serdes import json, utf8
from headrace.stream import Builder, TestDriver
from headrace.stream.task.settings import TaskSettings


class Run:
    """A running application: input and output records are (key, value, timestamp)."""

    def __init__(self, builder: Builder, settings: TaskSettings | None = None, **options: Any) -> None:
        self.driver = TestDriver(
            builder,
            settings=settings or TaskSettings(key_serde=utf8, value_serde=json),
            application_id="app",
            **options,
        )

    def send(self, topic: str, *records: tuple[Any, Any, int]) -> Run:
        """Process records one by one."""
        piped = self.driver.input_topic(topic)
        for key, value, timestamp in records:
            piped.pipe_input(key, value, timestamp)
        return self

    def read(self, topic: str = "out", key: Any = None) -> list[tuple[Any, Any, int]]:
        """The output since the last read."""
        records = self.driver.output_topic(topic, key=key).read_records()
        return [(record.key, record.value, record.timestamp) for record in records]

    def windows(self, topic: str = "out") -> list[tuple[Any, ...]]:
        """The output with windowed keys as (key, start, end, value, timestamp)."""
        return [
            (key.key, key.window.start, key.window.end, value, timestamp)
            for key, value, timestamp in self.read(topic)
        ]

    def close(self) -> None:
        """Close the driver. Fails if an iterator is still open."""
        self.driver.close()
