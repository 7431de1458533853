"""Metadata records in record batches: round trip and invalid batches."""

import msgspec
import pytest
from headrace.controller.quorum import record_batches
from headrace.controller.quorum.record_batches import addressed, decode_batches, encode_batch
from headrace.protocol.errors import CorruptMessageError
from headrace.protocol.metadata.records import ConfigRecord, FormatRecord, NoOpRecord
from headrace.protocol.records.codec import active_codec

RECORDS = [FormatRecord("c"), NoOpRecord(), ConfigRecord(2, "t", "k", None)]


def test_round_trip() -> None:
    """Two decisions, each one batch with its offset and epoch."""
    data = addressed(encode_batch(RECORDS, 5), 10, 3) + addressed(encode_batch(RECORDS[:1], 6), 13, 4)
    first, second = decode_batches(data)
    assert first.records == tuple(RECORDS)
    assert (first.header.base_offset, first.header.next_offset, first.header.leader_epoch) == (10, 13, 3)
    assert first.header.max_timestamp == 5
    assert second.records == (RECORDS[0],)
    assert second.header.leader_epoch == 4


@pytest.mark.parametrize("value", [None, b"", b"\x93\xa6Format", msgspec.msgpack.encode(["Unheard", 1])])
def test_value_that_is_no_metadata_record_is_rejected(value) -> None:
    """The CRC is correct, but another program or a later version wrote it."""
    builder = active_codec().builder(max_bytes=1000)
    builder.append(0, None, value)
    with pytest.raises(
        CorruptMessageError, match="offset 0 has a record that this version of headrace does not"
    ):
        list(decode_batches(builder.build()))


def test_truncated_batch_is_rejected() -> None:
    """The data ends inside a batch."""
    batch = encode_batch(RECORDS, 0)
    for size in range(1, len(batch)):
        with pytest.raises(CorruptMessageError):
            list(decode_batches(batch[:size]))


def test_decision_over_the_limit_is_rejected() -> None:
    """The limit leaves room for all leaders of the cluster."""
    from headrace.controller.config import ControllerConfig
    from headrace.protocol.metadata.records import PartitionChangeRecord

    most = ControllerConfig.keys()["max.partitions"].high
    record = PartitionChangeRecord(bytes(16), 2**31 - 1, -1, (2**31 - 1,))
    assert len(encode_batch([record], 2**50)) * most < record_batches.MAX_BATCH_BYTES
    with pytest.raises(ValueError, match="more than 100 bytes"):
        encode_batch(RECORDS * 10, 0, max_bytes=100)
