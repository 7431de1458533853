"""What is checked about a batch before its first record, and in which order."""

import zlib

import batch_bytes as by_hand
import pytest
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from headrace.protocol.records.opening import open_batch


def opened(data: bytes, *, check_crc: bool = True, is_dense: bool = True, cap: int = 1000) -> bytes:
    """The bytes of the records."""
    return bytes(open_batch(data, check_crc=check_crc, is_dense=is_dense, max_decompressed_bytes=cap)[1])


def test_the_records_of_a_good_batch() -> None:
    """Uncompressed they are a view into the batch, compressed they are new bytes."""
    record = by_hand.record()
    data = by_hand.batch(record)
    header, payload = open_batch(data, check_crc=True, is_dense=True, max_decompressed_bytes=1)
    assert header.record_count == 1
    assert isinstance(payload, memoryview)
    assert payload.obj is data
    assert payload == record
    assert opened(by_hand.batch(zlib.compress(record, wbits=31), attributes=1)) == record


def test_crc_is_checked_before_other_fields() -> None:
    """With a wrong CRC no other field can be trusted."""
    data = by_hand.batch(b"", 2**31 - 1, attributes=7, crc=0)
    with pytest.raises(CorruptMessageError, match="CRC-32C"):
        opened(data)
    with pytest.raises(UnsupportedCompressionTypeError):
        opened(data, check_crc=False)


def test_counts_are_checked_before_decompression() -> None:
    """Contradicting counts are an error with any stream."""
    with pytest.raises(InvalidRecordError, match="last offset delta 9 does not belong to 1"):
        opened(by_hand.batch(b"not gzip", 1, last_delta=9, attributes=1))
    with pytest.raises(CorruptMessageError, match="gzip"):
        opened(by_hand.batch(b"not gzip", 1, attributes=1))


@pytest.mark.parametrize(("count", "size"), [(1, 6), (2, 13), (2**31 - 1, 700)])
def test_no_more_records_than_seven_bytes_each_allow(count: int, size: int) -> None:
    """The count field sizes nothing before it has been compared with the bytes that are there."""
    with pytest.raises(InvalidRecordError, match=f"{count} records do not fit in {size} bytes"):
        opened(by_hand.batch(bytes(size), count))
    assert opened(by_hand.batch(bytes(7), 1)) == bytes(7)


def test_batches_emptied_by_the_cleaner() -> None:
    """No record and no bytes, whatever codec the attributes name."""
    data = by_hand.batch(b"", 0, last_delta=4, attributes=4)
    assert opened(data, is_dense=False) == b""
    with pytest.raises(InvalidRecordError, match="bytes in a batch without records"):
        opened(by_hand.batch(b"x", 0, last_delta=4), is_dense=False)
