"""Compression and decompression of batches as in Kafka's clients, in bounded memory.

A reader first *measures* the stream (its block headers or declared sizes, checked against the available
bytes), then decompresses into at most the measured size, limited by `max_bytes`. A small hostile input can
therefore not allocate a large buffer that it does not fill. Peak memory beside the input is the output, and
for zstd without a declared size the output twice, as its decoder keeps a window.

Written: gzip, one member; snappy in the framing of xerial's SnappyOutputStream (16 byte header, then blocks
of 32 KiB, each with its big-endian length); lz4 frames with independent 64 KiB blocks and no checksums; zstd,
one frame. Read: the same, plus raw snappy without framing and zstd or lz4 frames with other valid options.
Bytes after the end of a stream are rejected. Source: Kafka Lz4BlockOutputStream.java, SnappyCompression.java,
KIP-110, KIP-780; RFC 1952, RFC 8878; the lz4 frame format 1.6.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import cramjam
import lz4.frame
import zstandard

from ..errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from .header import Buffer, Compression

if TYPE_CHECKING:
    from collections.abc import Callable

# Source: KIP-390; the ranges of compression.gzip.level, compression.lz4.level and compression.zstd.level.
_LEVELS = {
    Compression.GZIP: (1, 9),
    Compression.LZ4: (1, 17),
    Compression.ZSTD: (-131072, 22),
}
GZIP_DEFAULT_LEVEL = -1  # zlib's default, 6
# Source: Kafka Lz4BlockOutputStream.java: the default selects the fast compressor, every other level the high
# one.
LZ4_DEFAULT_LEVEL = 9
_LZ4_FAST, _LZ4_LEAST_HIGH = 0, 3  # the library's levels
ZSTD_DEFAULT_LEVEL = 3
_GZIP_WINDOW = 31  # zlib: 15 bits of window, + 16 for the gzip wrapper
_GZIP_MIN_BYTES = 18  # header 10, trailer 8: CRC-32 and the size modulo 2^32
_GZIP_MAX_RATIO = 1032  # Bound: a deflate code of two bits repeats at most 258 bytes
_GZIP_SLICE_BYTES = 4 * 1024  # input per call, so that one call gives at most 4 MiB
_LZ4_STEP_BYTES = 1 << 20  # output per call: small against any cap, large against the cost of a call
_SPARE_BYTES = 64  # room for a decoder to detect the end of its stream after the last output byte

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version 1, compatible with 1
_XERIAL_BLOCK_BYTES = 32 * 1024  # what xerial's SnappyOutputStream uses
_SNAPPY_MAX_RATIO = 32  # Bound: three bytes of input give at most 64 of output
_INT32 = struct.Struct(">i")
_UINT32_LE = struct.Struct("<I")


def check_level(compression: Compression, level: int | None) -> None:
    """Errors: ValueError if `level` is outside Kafka's range for the codec. None is the codec's default."""
    if level is None or (compression is Compression.GZIP and level == GZIP_DEFAULT_LEVEL):
        return
    if compression not in _LEVELS:
        raise ValueError(f"{compression.name.lower()} has no levels, so {level} means nothing")
    low, high = _LEVELS[compression]
    if not low <= level <= high:
        raise ValueError(f"{compression.name.lower()} levels are {low} to {high}, not {level}")


def compress(compression: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`data` in the given codec; `level` as in `check_level`. Errors: MemoryError."""
    if compression is Compression.GZIP:
        chosen = GZIP_DEFAULT_LEVEL if level is None else level
        deflater = zlib.compressobj(chosen, zlib.DEFLATED, _GZIP_WINDOW)
        return deflater.compress(data) + deflater.flush()
    if compression is Compression.SNAPPY:
        return _compress_snappy(data)
    if compression is Compression.LZ4:
        packed: bytes = lz4.frame.compress(
            data,
            compression_level=_lz4_level(level),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,  # Kafka's reader rejects dependent blocks
            store_size=False,
        )
        return packed
    if compression is Compression.ZSTD:
        try:
            return zstandard.ZstdCompressor(ZSTD_DEFAULT_LEVEL if level is None else level).compress(data)
        # not an input error: its tables (about 100 MB at level 22) could not be allocated
        except zstandard.ZstdError as error:
            raise MemoryError(str(error)) from error
    return bytes(data)


def _lz4_level(level: int | None) -> int:
    """The library's level for Kafka's level."""
    return _LZ4_FAST if level is None or level == LZ4_DEFAULT_LEVEL else max(level, _LZ4_LEAST_HIGH)


def decompress(compression_id: int, data: Buffer, max_bytes: int) -> Buffer:
    """The decompressed bytes of `data`, at most `max_bytes`.

    Errors: UnsupportedCompressionTypeError for an unknown codec id, CorruptMessageError for a damaged or
    truncated stream or trailing bytes, InvalidRecordError if the output exceeds `max_bytes`.
    """
    if compression_id == Compression.NONE:
        return data
    decompressor = _DECOMPRESSORS.get(compression_id)
    if decompressor is None:
        raise UnsupportedCompressionTypeError(f"compression codec {compression_id}")
    return decompressor(memoryview(data), max_bytes)


def _bomb(max_bytes: int) -> InvalidRecordError:
    return InvalidRecordError(f"the records of the batch decompress to more than {max_bytes} bytes")


def _decompress_gzip(view: memoryview, max_bytes: int) -> bytearray:
    if len(view) < _GZIP_MIN_BYTES:
        raise CorruptMessageError("gzip: the stream is cut short")
    declared: int = _UINT32_LE.unpack_from(view, len(view) - _UINT32_LE.size)[0]
    if declared > len(view) * _GZIP_MAX_RATIO:
        raise CorruptMessageError(f"gzip: {len(view)} bytes cannot hold {declared}")
    if declared > max_bytes:
        raise _bomb(max_bytes)
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    out = bytearray(declared)
    position = filled = 0
    try:
        while position < len(view) and not inflater.eof:
            # +1: a limit of 0 would mean no limit, and one byte too many shows that the declared size is
            # wrong
            piece = inflater.decompress(view[position : position + _GZIP_SLICE_BYTES], declared - filled + 1)
            out[filled : filled + len(piece)] = piece
            filled += len(piece)
            if filled > declared:
                raise CorruptMessageError(f"gzip: more than the {declared} bytes declared")
            position += _GZIP_SLICE_BYTES
    except zlib.error as error:
        raise CorruptMessageError(f"gzip: {error}") from error
    # zlib has compared checksum and size at the end of the stream
    if not inflater.eof:
        raise CorruptMessageError("gzip: the stream is cut short")
    if inflater.unused_data or position < len(view):
        raise CorruptMessageError("gzip: bytes after the end of the stream")
    return out


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    out = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def _decompress_snappy(view: memoryview, max_bytes: int) -> bytearray:
    blocks = _snappy_blocks(view)
    # Bound: each block is long enough for its declared size, so this buffer gets filled.
    declared = sum(size for _, size in blocks)
    if declared > max_bytes:
        raise _bomb(max_bytes)
    out = bytearray(declared)
    position = 0
    for block, size in blocks:
        try:
            cramjam.snappy.decompress_raw_into(block, memoryview(out)[position : position + size])
        except cramjam.DecompressionError as error:
            raise CorruptMessageError(f"snappy: {error}") from error
        position += size
    return out


def _snappy_blocks(view: memoryview) -> list[tuple[memoryview, int]]:
    """The raw blocks of the stream with their declared sizes; one block without framing."""
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return [(view, _snappy_declared(view))]
    # The two version words are ignored: some writers store them little-endian.
    position, end = len(_XERIAL_HEADER), len(view)
    if position > end:
        raise CorruptMessageError("snappy: the header is cut short")
    blocks = []
    while position < end:
        if end - position < _INT32.size:
            raise CorruptMessageError("snappy: a block length is cut short")
        length: int = _INT32.unpack_from(view, position)[0]
        position += _INT32.size
        if not 0 < length <= end - position:
            raise CorruptMessageError(f"snappy: a block of {length} bytes with {end - position} left")
        block = view[position : position + length]
        blocks.append((block, _snappy_declared(block)))
        position += length
    return blocks


def _snappy_declared(block: memoryview) -> int:
    try:
        declared: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptMessageError(f"snappy: {error}") from error
    if declared > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptMessageError(f"snappy: {len(block)} bytes cannot hold {declared}")
    return declared


def _decompress_lz4(view: memoryview, max_bytes: int) -> Buffer:
    # Bound: the blocks cannot produce more than this, so the buffer gets filled except for its last block.
    capacity = min(lz4_output_bound(view), max_bytes)
    step = min(capacity, _LZ4_STEP_BYTES) + _SPARE_BYTES
    context = lz4.frame.create_decompression_context()
    out = bytearray()
    position = filled = 0
    is_whole, has_moved = False, True
    piece: bytes
    while has_moved and not is_whole:
        try:
            piece, consumed, is_whole = lz4.frame.decompress_chunk(context, view[position:], max_length=step)
        except RuntimeError as error:  # raised by lz4.frame for any invalid frame
            raise CorruptMessageError(f"lz4: {error}") from error
        if is_whole and not filled and consumed == len(view) and len(piece) <= max_bytes:
            return piece  # the common case: one step without a copy
        if not out:
            out = bytearray(capacity)
        if filled + len(piece) > max_bytes:
            raise _bomb(max_bytes)
        out[filled : filled + len(piece)] = piece
        filled += len(piece)
        position += consumed
        has_moved = bool(consumed or piece)
    if not is_whole or position != len(view):
        raise CorruptMessageError("lz4: the frame does not end where its blocks end")
    del out[filled:]
    return out


_LZ4_MAGIC = 0x184D2204
_LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 0x10, 0x08, 0x04, 0x01
_LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_STORED = 0x8000_0000
_LZ4_MAX_RATIO = 255  # Bound: a byte of match length adds at most 255 bytes


def lz4_output_bound(view: memoryview) -> int:
    """The largest possible output of the one lz4 frame that fills `view`, from its block headers alone.

    Shape: magic, flags, block size code, [content size 8], [dictionary id 4], header checksum, blocks of
    [length with top bit "stored"] data [checksum 4], a zero length, [content checksum 4]. Errors:
    CorruptMessageError unless the frame ends exactly where `view` ends.
    """
    size = len(view)
    if size < 7 or _uint32_le(view, 0) != _LZ4_MAGIC:
        raise CorruptMessageError("lz4: no frame header")
    flags, block_max = view[4], _LZ4_BLOCK_BYTES.get(view[5] >> 4 & 7)
    if flags & _LZ4_DICTIONARY or block_max is None:
        raise CorruptMessageError(f"lz4: flags {flags:#x} and block size code {view[5]:#x} are not supported")
    position = 15 if flags & _LZ4_CONTENT_SIZE else 7
    extra = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    bound = 0
    while position + 4 <= size:
        word = _uint32_le(view, position)
        position += 4
        if word == 0:
            position += 4 if flags & _LZ4_CONTENT_CHECKSUM else 0
            break
        length = word & ~_LZ4_STORED
        bound += length if word & _LZ4_STORED else min(block_max, length * _LZ4_MAX_RATIO)
        position += length + extra
    else:
        position = size + 1
    if position != size:
        raise CorruptMessageError("lz4: the frame is cut short or followed by other bytes")
    return bound


def _uint32_le(view: memoryview, position: int) -> int:
    value: int = _UINT32_LE.unpack_from(view, position)[0]
    return value


_ZSTD_BLOCK_BYTES = 128 << 10
# Bound: the window of level 22 for a writer that streams without the size (Java clients do), which is also
# the maximum that zstd-jni and libzstd accept by default. The decoder's buffer is touched only as far as it
# is written.
_ZSTD_MAX_WINDOW_BYTES = 1 << 27
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_RESERVED = 0, 1, 3


def _decompress_zstd(view: memoryview, max_bytes: int) -> bytes:
    measured = zstd_output_bound(view)
    inflater = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    try:
        declared = zstandard.frame_content_size(view)
        if declared > max_bytes:
            raise _bomb(max_bytes)
        if declared > measured:
            raise CorruptMessageError(f"zstd: {declared} bytes declared, the blocks hold at most {measured}")
        # 0 would mean "no limit"
        out = inflater.decompress(view, max_output_size=max(1, min(measured, max_bytes)))
    except zstandard.ZstdError as error:
        if measured > max_bytes:
            raise _bomb(max_bytes) from error
        raise CorruptMessageError(f"zstd: {error}") from error
    if len(out) > max_bytes:
        raise _bomb(max_bytes)
    return out


def zstd_output_bound(view: memoryview) -> int:
    """The largest possible output of the one zstd frame that fills `view`, from its block headers alone.

    Shape: magic, descriptor, [window 1], [dictionary id], [content size], blocks of 3 byte headers (last
    block, kind, length), [checksum 4]. Errors: CorruptMessageError unless the frame ends exactly where `view`
    ends.
    """
    position, has_checksum = _zstd_header(view)
    size, bound, is_last = len(view), 0, False
    while not is_last and position + 3 <= size:
        word = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        is_last, kind, length = bool(word & 1), word >> 1 & 3, word >> 3
        if kind == _ZSTD_RESERVED or length > _ZSTD_BLOCK_BYTES:
            raise CorruptMessageError(f"zstd: a block of kind {kind} with {length} bytes")
        bound += length if kind in (_ZSTD_RAW, _ZSTD_RLE) else _ZSTD_BLOCK_BYTES
        position += 3 + (1 if kind == _ZSTD_RLE else length)
    if not is_last or position + (4 if has_checksum else 0) != size:
        raise CorruptMessageError("zstd: the frame is cut short or followed by other bytes")
    return bound


def _zstd_header(view: memoryview) -> tuple[int, bool]:
    """The start of the blocks, and whether a checksum follows them. Source: RFC 8878 section 3.1.1.1."""
    if len(view) < 5 or view[:4] != zstandard.FRAME_HEADER:
        raise CorruptMessageError("zstd: no frame header")
    descriptor = view[4]
    if descriptor & 0x03:
        raise CorruptMessageError("zstd: dictionaries are not supported")
    is_single_segment = bool(descriptor & 0x20)
    content_size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    return 5 + (0 if is_single_segment else 1) + content_size_bytes, bool(descriptor & 0x04)


_DECOMPRESSORS: dict[int, Callable[[memoryview, int], Buffer]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
