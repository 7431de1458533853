"""Producer snapshots are read as Kafka writes them."""

import pytest
from headrace.storage_node.log.checkpoints import CorruptFileError
from headrace.storage_node.log.producer_snapshot import (
    ProducerState,
    format_producer_snapshot,
    parse_producer_snapshot,
)

STATES = [ProducerState(9, 1, 5, 100, 3, 1_700_000_000_000, 0, -1), ProducerState(10, 0, 0, 7, 0, 1, 2, 7)]


def test_round_trip() -> None:
    """46 bytes per producer after a header of 10."""
    content = format_producer_snapshot(STATES)
    assert len(content) == 10 + 2 * 46
    assert parse_producer_snapshot(content) == STATES
    assert parse_producer_snapshot(format_producer_snapshot([])) == []


def test_damaged_snapshot_is_an_error() -> None:
    """Every flipped bit and every truncation."""
    content = format_producer_snapshot(STATES)
    for byte in range(len(content)):
        damaged = bytearray(content)
        damaged[byte] ^= 1
        with pytest.raises(CorruptFileError):
            parse_producer_snapshot(bytes(damaged))
        with pytest.raises(CorruptFileError):
            parse_producer_snapshot(content[:byte])
