"""Records that were fetched before a fault are returned first."""

from random import Random
from typing import Any

import pytest
from consumer_rig import taken
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.consumer.effects import SendFetch
from headrace.clients.consumer.fetch_buffer_io import FetchBuffer
from headrace.clients.consumer.fetch_collector import FetchCollector
from headrace.clients.consumer.fetcher import Fetcher
from headrace.clients.consumer.requests import FetchLimits
from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.messages.data import FetchPartitionResponse, FetchResponse
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header
from producer_rig import view_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base: int, value: bytes) -> bytes:
    builder = active_codec().builder(max_bytes=1 << 24)
    builder.append(0, None, value, ())
    made = builder.build()
    return assigned_prefix(base, read_batch_header(made).batch_length, 0) + made[CRC_POSITION:]


def fetcher_of(*tps: TopicPartition) -> Fetcher:
    fetcher = Fetcher(FetchLimits(500, 1, 1 << 24, 1 << 20), Backoff(100, 1000, Random(1)), None)
    for tp in tps:
        fetcher.add(tp, -1)
        fetcher.seek(tp, 0)
    return fetcher


def asked(fetcher: Fetcher) -> SendFetch:
    (sent,) = (effect for effect in fetcher.poll(view_of(0, 0), 0) if isinstance(effect, SendFetch))
    return sent


def test_records_before_a_damaged_batch_are_returned_first() -> None:
    """One frame: two valid batches, then a truncated one."""
    fetcher = fetcher_of(T0)
    collector = FetchCollector(fetcher, active_codec(), None, None, None, check_crcs=True)
    frame = batch(0, b"a") + batch(1, b"b") + batch(2, b"c")[:-1]
    answer = FetchResponse((FetchPartitionResponse(0, 3, 3, 0, 1),))
    fetcher.on_fetched(asked(fetcher), answer, [memoryview(frame)], 0)
    assert [record.value for record in taken(collector, 1)] == [b"a"]
    assert [record.value for record in taken(collector, 1)] == [b"b"]
    with pytest.raises(CorruptMessageError, match="t-0 at offset 2"):
        taken(collector, 10)


def test_partition_omitted_from_a_fetch_is_first_in_the_next() -> None:
    """T1 was paused while T0 was fetched."""
    fetcher = fetcher_of(T0, T1)
    fetcher.pause([T1])
    sent = asked(fetcher)
    assert [entry.partition for entry in sent.request.partitions] == [0]
    fetcher.on_fetched(sent, FetchResponse((FetchPartitionResponse(0, 0, 0, 0, 0),)), [], 0)
    fetcher.resume([T1])
    order: list[Any] = [entry.partition for entry in asked(fetcher).request.partitions]
    assert order == [1, 0]


def cut_short_behind_a_record() -> tuple[Fetcher, FetchCollector]:
    fetcher = fetcher_of(T0)
    collector = FetchCollector(fetcher, active_codec(), None, None, None, check_crcs=True)
    frame = batch(0, b"a") + batch(1, b"b")[:-1]
    answer = FetchResponse((FetchPartitionResponse(0, 3, 3, 0, 1),))
    fetcher.on_fetched(asked(fetcher), answer, [memoryview(frame)], 0)
    return fetcher, collector


def test_error_after_records_is_raised_by_the_next_call() -> None:
    """The first call asks for more records than there are before the error."""
    _, collector = cut_short_behind_a_record()
    assert [record.value for record in taken(collector, 10)] == [b"a"]
    with pytest.raises(CorruptMessageError):
        taken(collector, 10)


def test_error_after_paused_records_wakes_no_reader() -> None:
    """The records come first: the reader waits for `resume`."""
    fetcher, collector = cut_short_behind_a_record()
    fetcher.pause([T0])
    buffer = FetchBuffer(fetcher, lambda _: None, lambda: None)
    assert collector.head() is None
    assert not buffer.has_news()
    fetcher.resume([T0])
    assert buffer.has_news()
