"""read_committed: aborted transactions and control batches are skipped, in every way of reading."""

from typing import Any

import pytest
from headrace.clients.consumer.completed_fetch import AbortedTransactions, buffer_batches
from headrace.clients.consumer.fetch_state import PartitionState
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import EndTransaction, encode_control
from headrace.protocol.records.header import CRC_POSITION, assigned_prefix, read_batch_header

T0 = TopicPartition("t", 0)


def put(fake: Any, producer: int, sequence: int, *values: bytes) -> None:
    """Append records of a transaction; sequence numbers continue over transactions."""
    facts = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
    fake.put("t", 0, *values, is_transactional=True, **facts)


def mark(fake: Any, producer: int, *, is_commit: bool) -> None:
    """Append the marker that ends a transaction."""
    key, value = encode_control(EndTransaction(is_commit, 0))
    builder = active_codec().builder(
        max_bytes=1000, producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True
    )
    builder.append(1000, key, value, ())
    made, part = bytes(builder.build()), fake.topics["t"].partitions[0]
    size = read_batch_header(made).batch_length
    stored = assigned_prefix(part.end_offset, size, part.leader_epoch) + made[CRC_POSITION:]
    part.batches.append((part.end_offset, part.end_offset + 1, stored))  # as servers do, unjudged
    part.end_offset += 1


def mixed(fake: Any) -> None:
    """Two producers in turns: the first aborts, then commits; the second commits, then leaves one open."""
    fake.create("t")
    fake.put("t", 0, b"plain")
    put(fake, 1, 0, b"aborted 1")
    put(fake, 2, 0, b"committed 1")
    put(fake, 1, 1, b"aborted 2", b"aborted 3")
    mark(fake, 1, is_commit=False)
    put(fake, 1, 3, b"committed 2")
    mark(fake, 2, is_commit=True)
    mark(fake, 1, is_commit=True)
    part = fake.topics["t"].partitions[0]
    part.aborted, part.last_stable_offset = ((1, 1),), part.end_offset
    put(fake, 2, 1, b"open")


GOOD = [b"plain", b"committed 1", b"committed 2"]


@pytest.mark.parametrize("way", ["poll", "iterate", "arrow"])
async def test_only_committed_records_are_returned(fake: Any, cluster: Any, way: str) -> None:
    """The position moves past the last marker; read_uncommitted returns all records."""
    mixed(fake)
    options = {"auto_offset_reset": "earliest", "iter_timeout": 1.0}
    consumer = cluster.consumer("t", isolation_level="read_committed", **options)
    found: list[Any] = []
    if way == "poll":
        while records := await consumer.poll(1):
            found += [record.value for record in records]
    elif way == "iterate":
        found = [record.value async for record in consumer]
    else:
        async for table in consumer.arrow_batches(100, 0.1):
            found += table.column("value").to_pylist()
    assert found == GOOD
    end = fake.topics["t"].partitions[0].last_stable_offset
    assert await consumer.position(T0) == end
    assert consumer.lag() == {T0: 0}
    assert await consumer.end_offsets() == {T0: end}
    every = cluster.consumer("t", **options)
    assert len([record async for record in every]) == 7
    assert await every.end_offsets() == {T0: end + 1}


async def test_fetch_from_the_middle_of_an_aborted_transaction(fake: Any, cluster: Any) -> None:
    """The response names the transaction although its first record is before the fetch offset."""
    mixed(fake)
    consumer = cluster.consumer("t", isolation_level="read_committed", iter_timeout=1.0)
    await consumer.seek(T0, 4)
    assert [record.value async for record in consumer] == [b"committed 2"]


def test_marker_ends_the_transaction_of_its_producer() -> None:
    """Batch by batch; batches without a transaction are never skipped."""
    state = PartitionState(T0)

    def batch(base: int, producer: int, *, is_control: bool = False, is_transactional: bool = True) -> bytes:
        builder = active_codec().builder(
            max_bytes=1000,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=-1 if is_control else 0,
            is_transactional=is_transactional,
            is_control=is_control,
        )
        key, value = encode_control(EndTransaction(False, 0)) if is_control else (None, b"x")
        builder.append(1000, key, value, ())
        made = bytes(builder.build())
        header = read_batch_header(made)
        return assigned_prefix(base, header.batch_length, 0) + made[CRC_POSITION:]

    batches = [
        batch(0, 1),
        batch(1, 2),
        batch(2, 1, is_transactional=False),
        batch(3, 2, is_control=True),
        batch(4, 1),
        batch(5, 2),
        batch(6, 1, is_control=True),
        batch(7, 1),
    ]
    added, fault = buffer_batches(state, b"".join(batches), AbortedTransactions([(1, 4), (2, 1)]))
    assert fault is None
    assert added == sum(map(len, batches)) == state.buffered_bytes
    hidden = [batch.next_offset - 1 for batch in state.batches if batch.is_skipped]
    assert hidden == [1, 3, 4, 6]


async def test_unknown_isolation_level_is_rejected(cluster: Any) -> None:
    """By name."""
    with pytest.raises(ConfigError, match=r"isolation\.level"):
        cluster.consumer("t", isolation_level="read_half")
