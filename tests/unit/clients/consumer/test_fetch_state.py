"""One partition's position, through batches and seeks."""

from types import SimpleNamespace

from headrace.clients.consumer.fetch_state import FetchedBatch, PartitionState
from headrace.protocol.model import TopicPartition


def test_next_position() -> None:
    """Of an encoded batch the position, of a decoded one the next record, perhaps after a gap, or the end."""
    state = PartitionState(TopicPartition("t", 0), position=5)
    assert state.next_position() == 5
    batch = FetchedBatch(state, b"bytes", 12, False)
    state.batches.append(batch)
    assert state.next_position() == 5
    batch.is_decoded, batch.records = True, [SimpleNamespace(offset=7), SimpleNamespace(offset=10)]
    assert state.next_position() == 7
    batch.index = 1
    assert state.next_position() == 10
    batch.index = 2
    assert state.next_position() == 12


def test_move_drops_the_batches() -> None:
    """They become inactive, which ends an iteration."""
    state = PartitionState(TopicPartition("t", 0), position=5, failures=3, retry_at_ms=99)
    batch = FetchedBatch(state, b"bytes", 12, False)
    state.batches.append(batch)
    state.buffered_bytes = 5
    version = state.version
    assert state.move(40, None) == 5
    assert not batch.is_active
    assert not state.batches
    assert (state.position, state.fetch_offset, state.buffered_bytes, state.retry_at_ms) == (40, 40, 0, 0)
    assert state.version == version + 1
