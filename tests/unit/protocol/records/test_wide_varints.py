"""A varint wider than its field is refused even where its low bits alone would make sense."""

import batch_bytes as by_hand
import pytest
from headrace.protocol.errors import InvalidRecordError
from headrace.protocol.records.codec import pick_codec

# 33 bits: 2^32 + 1, which is -1 (null) for a reader that keeps only 32 of them.
WIDE_NULL = b"\x81\x80\x80\x80\x10"
WIDE_ZERO = b"\x80\x80\x80\x80\x10"


def record_of(*fields: bytes) -> bytes:
    body = b"\x00" + b"".join(fields)
    return by_hand.varint(len(body)) + body


@pytest.mark.parametrize("choice", ["python", "compiled"])
@pytest.mark.parametrize(
    "record",
    [
        record_of(b"\x00", b"\x00", WIDE_NULL, b"\x01", b"\x00"),
        record_of(b"\x00", b"\x00", b"\x01", WIDE_NULL, b"\x00"),
        record_of(b"\x00", b"\x00", b"\x01", b"\x01", WIDE_ZERO),
        record_of(b"\x00", WIDE_ZERO, b"\x01", b"\x01", b"\x00"),
    ],
    ids=["key", "value", "header count", "offset delta"],
)
def test_bits_beyond_the_field_are_an_error(choice: str, record: bytes) -> None:
    """Key length, value length, header count, offset delta; both codecs."""
    with pytest.raises(InvalidRecordError):
        pick_codec(choice).decode(by_hand.batch(record))
