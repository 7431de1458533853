"""What a node remembers of sampled batches, and the spans that it notes."""

from typing import Any

import pytest
from headrace.protocol.messages.data import TracedBatch
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.header import Compression
from headrace.storage_node.effects import NoteSpan
from headrace.storage_node.log.append_rules import AppendInfo
from headrace.storage_node.replica.batch_traces import MAX_BATCHES, Appended, BatchTraces
from headrace.storage_node.replica.step_output import StepOutput

CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class SomePartition:
    """As much of a partition as traces use."""

    def __init__(self, name: str) -> None:
        self.key, self.topic_partition = name, (name, 0)


P: Any = SomePartition("p")


def batch_of(count: int = 3, context: str = CONTEXT, compression: Compression = Compression.NONE) -> bytes:
    builder = pick_codec("compiled").builder(max_bytes=1 << 20, compression=compression)
    for _ in range(count):
        builder.append(1, None, b"v", [("traceparent", context.encode())])
    return builder.build()


def stored_at(offset: int, count: int) -> bytes:
    """A batch as it is in the log."""
    return offset.to_bytes(8, "big") + batch_of(count)[8:]


def spans(output: StepOutput) -> list[NoteSpan]:
    found, output.effects = output.effects, []
    return [effect for effect in found if isinstance(effect, NoteSpan)]


def test_contexts_of_the_client_come_before_a_search() -> None:
    """Its list counts if it has one, also an empty one; what is invalid in it does not."""
    traces = BatchTraces(StepOutput())
    info = AppendInfo(10, 12, -1)
    assert traces.appended(P, batch_of(), (), info, 0) is None
    assert traces.appended(P, batch_of(), ("garbage", CONTEXT[:-2] + "00"), info, 0) is None
    assert traces.appended(P, batch_of(context="x" * 55), None, info, 0) is None
    assert traces.appended(P, batch_of(), None, info._replace(is_repeated=True), 0) is None
    assert traces.appended(P, b"", ("x", CONTEXT), info, 0) == TracedBatch(10, 12, (CONTEXT,))
    assert traces.appended(P, batch_of(2), None, info, 0) == TracedBatch(10, 12, (CONTEXT, CONTEXT))


@pytest.mark.parametrize(("ratio", "found"), [(0.0, 0), (0.25, 2), (1.0, 8)])
def test_share_of_compressed_batches_is_searched(ratio: float, found: int) -> None:
    """Evenly."""
    traces, batch = BatchTraces(StepOutput(), ratio), batch_of(compression=Compression.ZSTD)
    results = [traces.appended(P, batch, None, AppendInfo(0, 2, -1), 0) for _ in range(8)]
    assert sum(each is not None for each in results) == found


def test_damaged_payload_has_no_contexts() -> None:
    """It was checked before the append; a bound of the search may still be exceeded."""
    broken = batch_of(compression=Compression.ZSTD)[:-4]
    assert BatchTraces(StepOutput(), 1.0).appended(P, broken, None, AppendInfo(0, 2, -1), 0) is None


def test_spans_of_an_append_and_of_fetches() -> None:
    """A fetch has a span for each sampled batch that it returns; it begins when both are there."""
    output = StepOutput()
    traces = BatchTraces(output)
    batch = traces.appended(P, batch_of(), None, AppendInfo(10, 12, -1), 100)
    assert batch is not None
    traces.acknowledged(Appended(0, P, batch), 90, "client", -1, 0)
    assert spans(output) == [NoteSpan("append", P.topic_partition, batch, 90, "client", -1)]
    data = [stored_at(7, 3), stored_at(10, 3) + stored_at(13, 5)]
    traces.fetched(P, 7, data, 50, "reader")
    traces.fetched(P, 12, data, 150, "reader")
    assert [span.began_ms for span in spans(output)] == [100, 150]
    traces.fetched(P, 13, data, 50, "reader")
    traces.fetched(P, 7, data[:1], 50, "reader")
    traces.fetched(P, 7, [], 50, "reader")
    other: Any = SomePartition("other")
    traces.fetched(other, 7, data, 50, "reader")
    assert not spans(output)


def test_followers_check_and_remember_what_the_leader_sends() -> None:
    """So that they serve as leaders later."""
    output = StepOutput()
    traces, batch = BatchTraces(output), TracedBatch(10, 12, (CONTEXT,))
    traces.replicated(P, [batch, TracedBatch(13, 13, ("garbage",))], 5)
    assert [(span.operation, span.batch) for span in spans(output)] == [("replicate", batch)]
    assert traces.within(P.key, 10, [stored_at(10, 3)]) == (batch,)


def test_memory_is_bounded() -> None:
    """The oldest batches are forgotten, over all partitions."""
    traces = BatchTraces(StepOutput())
    for number in range(3 * MAX_BATCHES):
        partition: Any = SomePartition(str(number % 7))
        traces.appended(partition, b"", (CONTEXT,), AppendInfo(number, number, -1), 0)
    kept = [item.batch.base_offset for batches in traces._batches.values() for item in batches]
    assert sorted(kept) == list(range(2 * MAX_BATCHES, 3 * MAX_BATCHES))
    assert len(traces._order) == MAX_BATCHES
