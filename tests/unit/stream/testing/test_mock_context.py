"""One processor without a topology."""

from __future__ import annotations

from typing import Any

from headrace.clients.serdes import int64, utf8
from headrace.stream import PunctuationType, Record, StoreBuilder
from headrace.stream.records import RecordMetadata
from headrace.stream.testing.mock_context import CapturedForward, MockProcessorContext


class Counts:
    """Counts its records; forwards the counts every 10 ms of stream time."""

    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.state_store("counts")
        context.schedule(10, "stream", self.forward_all)

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
        if self.context.record_metadata.offset == 1:
            self.context.commit()

    def forward_all(self, timestamp: int) -> None:
        with self.store.all() as rows:
            for key, count in rows:
                self.context.forward(Record(key, count, timestamp), "large" if count > 1 else None)


def test_forwards_punctuators_and_commits_are_captured() -> None:
    """Punctuators run when the test calls them."""
    context = MockProcessorContext()
    context.add_store(StoreBuilder("counts", key_serde=utf8, value_serde=int64, is_logged=False).build())
    processor = Counts()
    processor.init(context)
    for offset, key in enumerate("aba"):
        context.record_metadata = RecordMetadata("in", 0, offset)
        processor.process(Record(key, "", offset))
    assert context.is_committed
    (punctuator,) = context.punctuators
    assert (punctuator.kind, punctuator.schedule.interval_ms) == (PunctuationType.STREAM_TIME, 10)
    punctuator.schedule.callback(50)
    assert context.forwarded == [
        CapturedForward(Record("a", 2, 50), "large"), CapturedForward(Record("b", 1, 50)),
    ]  # fmt: skip
    assert [record.key for record in context.forwarded_to("other")] == ["b"]
