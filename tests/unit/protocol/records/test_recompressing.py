"""Recompression of a batch: the same records in another codec, or the error that names the fault."""

import struct

import pytest
from crc32c import crc32c
from headrace.protocol import errors
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression, read_batch_header
from headrace.protocol.records.recompressing import needs_recompression, recompress
from log_rig import batch
from stored_batches import stored

BOMB = Compression.ZSTD


def rows(data: bytes) -> list[tuple[object, ...]]:
    return [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for each in active_codec().decode(data)
    ]


@pytest.mark.parametrize("target", list(Compression))
@pytest.mark.parametrize("source", list(Compression))
def test_recompressed_batch_has_the_same_records(source: Compression, target: Compression) -> None:
    """Every codec to every other one; producer id, epoch, sequence and the transactional bit stay."""
    data = batch(
        50, compression=source, producer_id=7, producer_epoch=3, base_sequence=11, is_transactional=True
    )
    found = recompress(data, target)
    assert rows(found.batch) == rows(data)
    before, after = read_batch_header(data), read_batch_header(found.batch)
    assert after.compression_id == target
    assert after._replace(crc=0, batch_length=0, attributes=0) == before._replace(
        crc=0, batch_length=0, attributes=0
    )
    assert after.attributes & ~7 == before.attributes & ~7
    assert found.facts == active_codec().inspect(found.batch)


def test_level_is_used() -> None:
    """A higher gzip level gives fewer bytes."""
    data = batch(2000, size=50)
    fast, best = (len(recompress(data, Compression.GZIP, level).batch) for level in (1, 9))
    assert best < fast


def test_which_batches_need_recompression() -> None:
    """Another codec does; the same codec, a control batch, an unknown codec and garbage do not."""
    assert needs_recompression(batch(), Compression.GZIP)
    assert needs_recompression(batch(compression=Compression.LZ4), Compression.NONE)
    assert not needs_recompression(batch(compression=Compression.LZ4), Compression.LZ4)
    assert not needs_recompression(batch(), Compression.NONE)
    marker = active_codec().builder(max_bytes=1024, is_control=True)
    marker.append(0, b"k", b"v")
    assert not needs_recompression(marker.build(), Compression.GZIP)
    unknown = bytearray(batch())
    unknown[22] |= 5
    assert not needs_recompression(unknown, Compression.GZIP)
    assert not needs_recompression(b"short", Compression.GZIP)


def damaged_stream(codec: Compression) -> bytes:
    """A batch with a sound CRC around a damaged compressed stream."""
    data = bytearray(batch(100, compression=codec))
    data[70:90] = b"\xff" * 20
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


@pytest.mark.parametrize("codec", [each for each in Compression if each is not Compression.NONE])
def test_damaged_stream_is_a_corrupt_message(codec: Compression) -> None:
    """What cannot be decompressed is refused as `inspect` refuses it."""
    data = damaged_stream(codec)
    with pytest.raises(errors.KafkaError) as inspected:
        active_codec().inspect(data)
    with pytest.raises(type(inspected.value)):
        recompress(data, Compression.NONE)


def test_faults_of_a_batch_are_found() -> None:
    """A wrong CRC, an unknown codec, gaps in the offsets, a bomb."""
    wrong_crc = bytearray(batch(3, compression=Compression.LZ4))
    wrong_crc[17] ^= 1
    with pytest.raises(errors.CorruptMessageError, match="CRC"):
        recompress(wrong_crc, Compression.GZIP)
    unknown = bytearray(batch())
    unknown[22] |= 5
    struct.pack_into(">I", unknown, 17, crc32c(memoryview(unknown)[21:]))
    with pytest.raises(errors.UnsupportedCompressionTypeError):
        recompress(unknown, Compression.GZIP)
    with pytest.raises(errors.InvalidRecordError):
        recompress(stored([(0, b"k", b"v"), (2, b"k", b"v")]), Compression.GZIP)
    with pytest.raises(errors.InvalidRecordError, match="decompress"):
        recompress(batch(100, size=1000, compression=BOMB), Compression.NONE, max_decompressed_bytes=5000)
