"""Compression: framing as Kafka writes it, and readers that no input can make greedy."""

import struct
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from headrace.protocol import errors
from headrace.protocol.records.compression import (
    check_level,
    compress,
    decompress,
    lz4_output_bound,
    zstd_output_bound,
)
from headrace.protocol.records.header import Compression

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(5000))
NOISE = zlib.compress(TEXT, 9) * 20  # does not compress
SAMPLES = {"one byte": b"x", "text": TEXT, "noise": NOISE, "zeros": bytes(300_000), "64 KiB": TEXT[: 1 << 16]}
CAP = 1 << 20


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("codec", CODECS)
def test_round_trip_up_to_the_cap_and_not_past_it(codec: Compression, sample: str) -> None:
    """The cap is inclusive: exactly as many bytes pass, one fewer is a bomb."""
    data = SAMPLES[sample]
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(packed), CAP) == data
    with pytest.raises(errors.InvalidRecordError, match="decompress"):
        decompress(codec, packed, len(data) - 1)


def test_no_compression_is_no_copy() -> None:
    """Uncompressed records are read where they lie."""
    assert decompress(0, TEXT, 1) is TEXT
    assert compress(Compression.NONE, TEXT) == TEXT


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_unknown_codec_ids(codec_id: int) -> None:
    """No codec has these ids."""
    with pytest.raises(errors.UnsupportedCompressionTypeError):
        decompress(codec_id, b"", CAP)


@pytest.mark.parametrize(
    ("codec", "low", "high"),
    [(Compression.GZIP, 1, 9), (Compression.LZ4, 1, 17), (Compression.ZSTD, -131072, 22)],
)
def test_levels_are_kafkas(codec: Compression, low: int, high: int) -> None:
    """Every level in Kafka's range works and is read back; the next one on either side is refused."""
    text = b" ".join(b"%d" % (number * number % 1009) for number in range(10_000))
    for level in (None, low, high):
        check_level(codec, level)
        assert decompress(codec, compress(codec, text, level), CAP) == text
    for level in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"levels are {low} to {high}"):
            check_level(codec, level)
    assert len(compress(codec, text, high)) < len(compress(codec, text, low))


def test_the_default_lz4_level_is_the_fast_compressor() -> None:
    """As in Kafka: 9 and none give the fast compressor's bytes; every other level searches longer."""
    text = b"".join(b"%d %d;" % (number % 97, number * number % 1013) for number in range(6000))
    fast = compress(Compression.LZ4, text)
    assert compress(Compression.LZ4, text, 9) == fast
    for level in (1, 3, 8, 10, 17):
        packed = compress(Compression.LZ4, text, level)
        assert len(packed) < len(fast), level
        assert decompress(Compression.LZ4, packed, CAP) == text


def test_codecs_without_levels_reject_levels() -> None:
    """gzip also takes -1, zlib's default; snappy and no compression have no levels."""
    check_level(Compression.GZIP, -1)
    assert compress(Compression.GZIP, TEXT, -1) == compress(Compression.GZIP, TEXT)
    for codec in (Compression.NONE, Compression.SNAPPY):
        check_level(codec, None)
        with pytest.raises(ValueError, match="no levels"):
            check_level(codec, 1)


def test_snappy_is_framed_as_kafkas_clients_do() -> None:
    """Sixteen bytes of header, then blocks of 32 KiB of input, each behind its big-endian length."""
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    position, sizes = 16, []
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        block = packed[position + 4 : position + 4 + length]
        sizes.append(cramjam.snappy.decompress_raw_len(block))
        position += 4 + length
    assert sizes[:-1] == [32 * 1024] * (len(sizes) - 1)
    assert sum(sizes) == len(TEXT)


def test_snappy_without_framing_and_with_foreign_versions() -> None:
    """Clients without xerial's library send one raw block; some store the version words little-endian."""
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw, CAP) == TEXT
    packed = compress(Compression.SNAPPY, TEXT)
    foreign = packed[:8] + b"\x01\x00\x00\x00" * 2 + packed[16:]
    assert decompress(Compression.SNAPPY, foreign, CAP) == TEXT


def test_lz4_is_framed_as_kafkas_clients_do() -> None:
    """Independent 64 KiB blocks, no checksums, no content size: the flags that Kafka's writer sets."""
    packed = compress(Compression.LZ4, TEXT)
    assert packed[:7] == bytes.fromhex("04224d18604082")


@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_linked", [False, True])
def test_lz4_frames_with_other_options_are_read(
    content_checksum: bool, block_checksum: bool, store_size: bool, block_linked: bool
) -> None:
    """Other clients choose other options; all of them say how much they hold."""
    for block_size in (4, 5, 6, 7):
        packed = lz4.frame.compress(
            TEXT,
            block_size=block_size,
            content_checksum=content_checksum,
            block_checksum=block_checksum,
            store_size=store_size,
            block_linked=block_linked,
        )
        assert lz4_output_bound(memoryview(packed)) >= len(TEXT)
        assert decompress(Compression.LZ4, packed, CAP) == TEXT


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("content_size", [False, True])
def test_zstd_frames_with_other_options_are_read(checksum: bool, content_size: bool) -> None:
    """Java streams without naming the size; others add a checksum."""
    for level in (1, 3, 19):
        maker = zstandard.ZstdCompressor(
            level=level, write_checksum=checksum, write_content_size=content_size
        ).compressobj()
        packed = b"".join(
            maker.compress(TEXT[start : start + 5000]) + maker.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            for start in range(0, len(TEXT), 5000)
        )
        packed += maker.flush()
        assert zstd_output_bound(memoryview(packed)) >= len(TEXT)
        assert decompress(Compression.ZSTD, packed, len(TEXT)) == TEXT


def error_of(codec: Compression, data: bytes, cap: int = CAP) -> type | None:
    """The class of what decompressing raises, None if it gives bytes."""
    try:
        decompress(codec, data, cap)
    except errors.HeadraceError as error:
        return type(error)
    return None


@pytest.mark.parametrize("codec", CODECS)
def test_streams_cut_short_at_every_byte(codec: Compression) -> None:
    """No prefix of a stream is a stream (but for snappy's blocks, which carry no end mark)."""
    packed = compress(codec, TEXT[:2000])
    whole = {16} if codec is Compression.SNAPPY else set()
    for length in range(len(packed)):
        if length not in whole:
            assert error_of(codec, packed[:length]) is errors.CorruptMessageError, length


@pytest.mark.parametrize("codec", CODECS)
def test_streams_followed_by_other_bytes(codec: Compression) -> None:
    """Bytes behind the end, another whole stream included, are no part of a batch."""
    packed = compress(codec, TEXT[:2000])
    for tail in (b"\x00", b"junk", packed):
        assert error_of(codec, packed + tail) is errors.CorruptMessageError


@pytest.mark.parametrize("codec", CODECS)
def test_empty_and_foreign_streams(codec: Compression) -> None:
    """Nothing, zeros, text, or the stream of another codec."""
    others = [compress(other, TEXT[:500]) for other in CODECS if other is not codec]
    for data in (b"\x80" * 20, b"GET / HTTP/1.1\r\n" * 3, *others):
        assert error_of(codec, data) is errors.CorruptMessageError, data[:20]
    if codec is not Compression.SNAPPY:  # raw snappy: a zero length, so no bytes
        for data in (b"", b"\x00" * 20):
            assert error_of(codec, data) is errors.CorruptMessageError


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_is_an_error_or_other_bytes(codec: Compression) -> None:
    """Damage never gives another exception, nor more bytes than the cap."""
    packed = compress(codec, TEXT[:700])
    for position in range(len(packed)):
        for bit in range(8):
            damaged = bytearray(packed)
            damaged[position] ^= 1 << bit
            try:
                assert len(decompress(codec, bytes(damaged), 5000)) <= 5000
            except (errors.CorruptMessageError, errors.InvalidRecordError):
                continue


SNAPPY_HEADER = compress(Compression.SNAPPY, b"")[:16]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(SNAPPY_HEADER + b"\x7f\xff\xff\xff" + b"\x01\x00x", id="chunk of 2^31-1"),
        pytest.param(SNAPPY_HEADER + b"\xff\xff\xff\xff" + b"\x01\x00x", id="chunk of -1"),
        pytest.param(SNAPPY_HEADER + b"\x00\x00\x00\x00" + b"\x01\x00x", id="chunk of 0"),
        pytest.param(SNAPPY_HEADER + b"\x00\x00", id="half a length"),
        pytest.param(SNAPPY_HEADER[:12], id="half a header"),
        pytest.param(SNAPPY_HEADER + b"\x00\x00\x00\x05" + b"\xff\xff\xff\xff\x0f", id="declares 2^32-1"),
        pytest.param(b"\xff\xff\xff\xff\x07" + b"\x00x", id="raw, declares 2^31-1"),
    ],
)
def test_snappy_lengths_are_checked_before_anything_is_allocated(data: bytes) -> None:
    """Source: CVE-2023-34455, where a chunk length alone cost the receiver its memory."""
    assert error_of(Compression.SNAPPY, data) is errors.CorruptMessageError


def test_many_snappy_blocks_share_one_cap() -> None:
    """Each block is below the cap, the sum is not."""
    block = bytes(cramjam.snappy.compress_raw(bytes(32 * 1024)))
    data = SNAPPY_HEADER + (struct.pack(">i", len(block)) + block) * 33
    assert error_of(Compression.SNAPPY, data, 33 * 32 * 1024) is None
    assert error_of(Compression.SNAPPY, data, 33 * 32 * 1024 - 1) is errors.InvalidRecordError


def test_lz4_declared_sizes() -> None:
    """A content size that the blocks do not hold, a block above the frame's block size, a dictionary."""
    packed = bytearray(lz4.frame.compress(TEXT[:1000], store_size=True))
    packed[6:14] = struct.pack("<Q", 1 << 40)
    assert error_of(Compression.LZ4, bytes(packed)) is errors.CorruptMessageError
    head = bytes.fromhex("04224d18604082")
    for word in (0x7FFF_FFFF, 0xFFFF_FFFF, 64 * 1024 + 1):
        assert (
            error_of(Compression.LZ4, head + struct.pack("<I", word) + b"x" * 70_000)
            is errors.CorruptMessageError
        )
    assert error_of(Compression.LZ4, bytes.fromhex("04224d186140") + bytes(20)) is errors.CorruptMessageError
    assert error_of(Compression.LZ4, bytes.fromhex("04224d186000") + bytes(20)) is errors.CorruptMessageError


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", id="window 2^31"),
        pytest.param(b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x01\x00\x00", id="content size 2^64-1"),
        pytest.param(b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\x7f\x01\x00\x00", id="content size 2^31-1"),
        pytest.param(b"\x28\xb5\x2f\xfd\x01\x00\x01\x01\x00\x00", id="dictionary"),
        pytest.param(b"\x28\xb5\x2f\xfd\x00\x00\x07\x00\x00", id="reserved block"),
        pytest.param(b"\x28\xb5\x2f\xfd\x00\x00\xfd\xff\xff", id="block above 128 KiB"),
        pytest.param(b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd", id="skippable frame"),
    ],
)
def test_zstd_frames_beyond_limits_are_rejected(data: bytes) -> None:
    """Windows, sizes and blocks beyond what the format or Kafka's writers allow."""
    assert error_of(Compression.ZSTD, data) in (errors.CorruptMessageError, errors.InvalidRecordError)


def test_zstd_run_length_bombs_stop_at_the_cap() -> None:
    """Four bytes per 128 KiB: the densest bomb there is, exactly at and just above the cap."""
    block = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"x"
    last = struct.pack("<I", 0 << 3 | 0 << 1 | 1)[:3]
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + block * 8 + last
    assert decompress(Compression.ZSTD, frame, CAP) == b"x" * CAP
    assert error_of(Compression.ZSTD, frame, CAP - 1) is errors.InvalidRecordError
    assert error_of(Compression.ZSTD, frame[:-3] + block + last, CAP) is errors.InvalidRecordError
