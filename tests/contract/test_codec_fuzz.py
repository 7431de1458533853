"""The compiled codec under hostile bytes: only its own errors come out, and memory stays bounded.

HEADRACE_FUZZ_SCALE multiplies the rounds (default 1, a few seconds); HEADRACE_FUZZ_SEED picks other ones.
"""

import os
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import batch_bytes as by_hand
import pytest
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError
from headrace.protocol.records.codec import (
    BinaryColumn,
    Columns,
    ColumnSink,
    HeaderColumn,
    RecordCodec,
    pick_codec,
)
from headrace.protocol.records.compression import compress
from headrace.protocol.records.header import Compression

ROUNDS = int(15_000 * float(os.environ.get("HEADRACE_FUZZ_SCALE", "1")))
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
CAP = 1 << 18
ALLOWED = (CorruptMessageError, InvalidRecordError, UnsupportedCompressionTypeError)
EDGES = (-(2**31), -2, -1, 0, 1, 2, 63, 64, 127, 128, 2**14, 2**31 - 1)
INTERESTING = [by_hand.varint(value) for value in EDGES] + [
    b"\xff" * 5,
    b"\x80" * 11,
    b"\xff\xff\xff\xff\x0f",
]


def honest_payload(rng: random.Random) -> tuple[bytes, int]:
    """Records as a producer writes them, and how many."""
    count = rng.choice([1, 1, 2, 3, 20])
    out = b""
    for delta in range(count):
        pairs = rng.choice([0, 0, 1, 3])
        headers = by_hand.varint(pairs) + b"".join(
            by_hand.nullable(rng.randbytes(rng.randrange(3)) if rng.random() < 0.2 else b"h")
            + by_hand.nullable(rng.choice([None, b"", b"value"]))
            for _ in range(pairs)
        )
        key = rng.choice([None, b"", b"key", b"k" * 100])
        value = rng.choice([None, b"", b"v" * rng.randrange(300)])
        out += by_hand.record(delta, rng.randrange(-100, 100), key, value, headers)
    return out, count


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A few edits: bits, runs, varints at the edges, cuts, repetitions."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        position = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and position < len(out):
            out[position] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[position : position + rng.randrange(6)] = rng.choice(INTERESTING)
        elif kind == 2:
            del out[position : position + rng.randrange(20)]
        elif kind == 3:
            out[position:position] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 4:
            out[position:position] = out[position : position + rng.randrange(30)]
        else:
            del out[position:]
    return bytes(out)


def hostile_batch(rng: random.Random) -> bytes:
    """An honest batch damaged in one layer: records, compressed stream, header fields, or the whole."""
    payload, count = honest_payload(rng)
    compression = rng.choice(list(Compression))
    layer = rng.randrange(4)
    if layer == 0:
        payload = mutated(rng, payload)
    packed = compress(compression, payload)
    if layer == 1:
        packed = mutated(rng, packed)
    last_delta, attributes = count - 1, int(compression)
    if layer == 2:
        count = rng.choice([count, rng.choice(EDGES)])
        last_delta = rng.choice([last_delta, rng.choice(EDGES)])
        attributes = rng.choice([attributes, rng.randrange(-(2**15), 2**15)])
    data = by_hand.batch(packed, count, last_delta=last_delta, attributes=attributes)
    if layer == 3:
        data = mutated(rng, data)
        data = by_hand.sealed(data) if len(data) >= 61 and rng.random() < 0.8 else data
    return data


def verdict(action: Callable[..., object], data: bytes, **kwargs: object) -> str:
    """The class of the error, or "fine"; any other exception fails the test."""
    try:
        action(data, max_decompressed_bytes=CAP, **kwargs)
    except ALLOWED as error:
        return type(error).__name__
    return "fine"


@pytest.mark.parametrize("part", range(4))
def test_hostile_batches(part: int) -> None:
    """Structure-aware damage in every layer; both codecs agree, and what passes the check also decodes."""
    compiled, python = pick_codec("compiled"), pick_codec("python")
    rng = random.Random(SEED * 1000 + part)
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        data = hostile_batch(rng)
        place = f"seed {SEED}, part {part}, round {number}: {data.hex()}"
        checked, decoded = verdict(compiled.check, data), verdict(compiled.decode, data)
        assert checked != "fine" or decoded == "fine", place
        assert decoded == verdict(compiled.check, data, is_dense=False), place
        assert checked == verdict(python.check, data), place
        assert decoded == verdict(compiled.columns().append, data, partition=0, max_rows=2), place
        seen[checked] += 1
    # The fuzzer must reach both outcomes of every check, or it tests nothing.
    if ROUNDS >= 15_000:
        assert set(seen) == {"fine", *(error.__name__ for error in ALLOWED)}
        assert (
            min(seen[name] for name in ("fine", "InvalidRecordError", "CorruptMessageError")) > ROUNDS // 50
        )


def test_random_bytes_behind_an_honest_header() -> None:
    """No structure at all, for every codec id."""
    compiled = pick_codec("compiled")
    rng = random.Random(SEED)
    for _ in range(ROUNDS):
        payload = rng.randbytes(rng.randrange(200))
        data = by_hand.batch(payload, rng.randrange(1, 5), attributes=rng.randrange(8))
        verdict(compiled.check, data)
        assert verdict(compiled.decode, data) == verdict(sink_of(compiled).append, data, **ALL_ROWS)


def cleaned(codec: RecordCodec, data: bytes, start: int, is_due: bool) -> object:
    """What a map took of the batch, and what was left by it: values, or the class of the first error."""
    offsets = codec.offset_map(24 * 12)
    run = offsets.add_run(KEYS_TO_COME + data, 0, max_decompressed_bytes=CAP), len(offsets)
    offsets.clear()
    offsets.add_batch(KEYS_TO_COME)
    before = len(offsets), offsets.latest_offset
    try:
        taken = offsets.add_batch(data, start, max_decompressed_bytes=CAP)
        left = codec.clean_batch(
            data, offsets, now_ms=50, delete_retention_ms=7, is_horizon_due=is_due, max_decompressed_bytes=CAP
        )
    except ALLOWED as error:
        return type(error).__name__, (len(offsets), offsets.latest_offset) != before, run
    if left.data is not None:
        codec.check(left.data, is_dense=False)
    rest = None if left.data is None else bytes(left.data)
    return taken, len(offsets), offsets.latest_offset, rest, left[1:], run


KEYS_TO_COME = by_hand.batch(by_hand.record(1, key=b"key") + by_hand.record(9, key=b"x"), 2, last_delta=9)


def test_hostile_batches_on_their_way_through_a_cleaner() -> None:
    """Both codecs leave the same bytes or refuse; what is left is sound; nothing that is refused counts."""
    compiled, python = pick_codec("compiled"), pick_codec("python")
    rng = random.Random(SEED)
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        data, start, is_due = hostile_batch(rng), rng.choice([0, 0, 1, 5]), rng.random() < 0.1
        place = f"seed {SEED}, round {number}: {data.hex()}, {start}, {is_due}"
        found = cleaned(compiled, data, start, is_due)
        assert found == cleaned(python, data, start, is_due), place
        assert isinstance(found, tuple)
        if isinstance(found[0], str):
            # a timestamp may be too far from the horizon, which only the cleaning meets
            assert not found[1] or verdict(compiled.decode, data) == "fine", place
            seen["refused"] += 1
        else:
            seen["none left" if found[3] is None else "as it was" if found[3] == data else "less"] += 1
    if ROUNDS >= 15_000:
        assert set(seen) == {"refused", "none left", "as it was", "less"}
        assert min(seen.values()) > ROUNDS // 50, seen


# --- hostile columns ----------------------------------------------------------------------------------

ALL_ROWS = {"partition": 0, "max_rows": 2**31}


def sink_of(codec: RecordCodec) -> ColumnSink:
    """A sink that already holds a row."""
    sink = codec.columns()
    sink.append(by_hand.batch(by_hand.record()), partition=0, max_rows=1)
    return sink


def hostile_integers(rng: random.Random, code: str, honest: list[int]) -> bytes:
    """Integers of which some lie, cut or grown, perhaps in the middle of one."""
    values = list(honest)
    for _ in range(rng.choice([0] * 12 + [1, 2])):
        if values:
            edge = rng.choice([*EDGES, rng.randrange(-5, 50)])
            values[rng.randrange(len(values))] = edge
    out = struct.pack(f"={len(values)}{code}", *values)
    cut = rng.choice([0] * 20 + [1, 4, 9])
    return out[: len(out) - cut] if rng.random() < 0.8 else out + bytes(cut)


def hostile_values(rng: random.Random, count: int) -> BinaryColumn:
    """A binary column that is honest, or wrong in some of its parts."""
    first = rng.choice([0, 3] * 9 + [rng.choice([-1, 8, 2**31, 2**63 - 1, 2**70, -(2**70)])])
    lengths = [rng.randrange(6) for _ in range(count + (first if 0 <= first < 9 else 0))]
    offsets = [0, *accumulate(lengths)]
    data = rng.randbytes(offsets[-1]) if rng.random() < 0.3 else b"a" * offsets[-1]
    if rng.random() < 0.05:
        data = data[: rng.randrange(len(data) + 1)]
    bits = rng.choice([None, None, None, b"\xff" * 8, rng.randbytes(8), rng.randbytes(rng.randrange(9))])
    return BinaryColumn(hostile_integers(rng, "i", offsets), data, bits, first)


def hostile_columns(rng: random.Random) -> Columns:
    """Columns that lie about any of their parts."""
    count = rng.randrange(12)
    headers = None
    if rng.random() < 0.4:
        pairs = [rng.randrange(3) for _ in range(count)]
        headers = HeaderColumn(
            hostile_integers(rng, "i", [0, *accumulate(pairs)]),
            hostile_values(rng, sum(pairs)),
            hostile_values(rng, sum(pairs)),
            rng.choice([None, rng.randbytes(2)]),
            rng.choice([0] * 9 + [1, -1]),
        )
    return Columns(
        rng.choice([count] * 30 + [count + 1, -1, 2**31, 2**70]),
        rng.choice([None, hostile_values(rng, count)]),
        rng.choice([None, hostile_values(rng, count)]),
        rng.choice([None, hostile_integers(rng, "q", [rng.randrange(-1, 99) for _ in range(count)])]),
        headers,
    )


def appended(codec: RecordCodec, columns: Columns, *arguments: int | bytes | None) -> tuple[object, ...]:
    """What append_columns gave or that it refused, and the batch after it."""
    builder = codec.builder(max_bytes=150)
    try:
        result: object = builder.append_columns(columns, *arguments)  # type: ignore[arg-type]
    except ValueError:
        result = ValueError
    return result, builder.count, builder.count and builder.build()


@pytest.mark.parametrize("part", range(4))
def test_hostile_columns(part: int) -> None:
    """Buffers that lie: both codecs take the same rows, refuse the same ones with ValueError, and what they
    took came out of the buffers, for the readable one cannot read elsewhere."""
    compiled, python = pick_codec("compiled"), pick_codec("python")
    rng = random.Random(SEED * 1000 + part)
    seen: Counter[bool] = Counter()
    for number in range(ROUNDS // 2):
        columns = hostile_columns(rng)
        some = min(12, max(0, columns.count))
        numbers = [rng.randrange(some) for _ in range(some)]
        rows = rng.choice([None, hostile_integers(rng, "i", numbers)])
        end = columns.count if rng.random() < 0.9 else rng.choice([*EDGES, 2**70])
        timestamp, start = rng.choice([5] * 20 + [-1, -2, 2**63]), rng.choice([0] * 20 + [1, 2, -1])
        arguments = (timestamp, rows, start, end, 200)
        place = f"seed {SEED}, part {part}, round {number}: {columns} {arguments}"
        one = appended(python, columns, *arguments)
        assert one == appended(compiled, columns, *arguments), place
        seen[one[0] is ValueError] += 1
        if columns.values is not None:
            assert hashed(python, columns.values, end) == hashed(compiled, columns.values, end), place
    if ROUNDS >= 15_000:
        assert min(seen[True], seen[False]) > ROUNDS // 20


def hashed(codec: RecordCodec, column: BinaryColumn, count: int) -> object:
    """The hashes, or that they were refused."""
    try:
        return bytes(codec.hash_column(column, count))
    except ValueError:
        return ValueError


# --- memory -------------------------------------------------------------------------------------------

MIB = 1 << 20
BOMB_CAP = 32 * MIB
SLACK = 12 * MIB  # allocator and decoder state

PROBE = """
import resource, struct, sys, zlib
import lz4.frame
import batch_bytes as by_hand
from headrace.protocol.errors import CorruptMessageError, InvalidRecordError
from headrace.protocol.records.codec import pick_codec

MIB, CAP = 1 << 20, {cap}

def gzip_bomb():
    maker = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(maker.compress(bytes(MIB)) for _ in range(256)), maker.flush()])

def lz4_bomb(**options):
    with_state = lz4.frame.LZ4FrameCompressor(block_size=7, **options)
    parts = [with_state.begin(), *(with_state.compress(bytes(MIB)) for _ in range(256)), with_state.flush()]
    return b"".join(parts)

def zstd_bomb(window):
    block = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"x"
    last = struct.pack("<I", 1)[:3]
    return b"\\x28\\xb5\\x2f\\xfd\\x00" + bytes([window]) + block * 2048 + last

def snappy_bomb():
    import cramjam
    block = bytes(cramjam.snappy.compress_raw(bytes(32 << 10)))
    header = b"\\x82SNAPPY\\x00" + struct.pack(">ii", 1, 1)
    return header + (struct.pack(">i", len(block)) + block) * 8192

def many_records():
    builder = pick_codec(None).builder(max_bytes=2**31 - 1, compression=1)
    for _ in range(300_000):
        builder.append(1000, None, None)
    return builder.build()[61:]

BOMBS = {{
    "gzip": (1, gzip_bomb, 1),
    "snappy": (2, snappy_bomb, 1),
    "snappy declared": (2, lambda: b"\\xff\\xff\\xff\\xff\\x07" + bytes(1000), 1),
    "lz4": (3, lz4_bomb, 1),
    "lz4 linked": (3, lambda: lz4_bomb(block_linked=True), 1),
    "zstd": (4, lambda: zstd_bomb(0x58), 1),
    "zstd window": (4, lambda: zstd_bomb(0x88), 1),
    "counts": (0, lambda: by_hand.record(headers=by_hand.varint(2**31 - 1)), 2**31 - 1),
    "headers": (0, lambda: by_hand.record(headers=by_hand.varint(2**31 - 1)), 1),
    "honest": (1, many_records, 300_000),
}}
attributes, make, count = BOMBS[sys.argv[1]]
codec = pick_codec(sys.argv[2])
data = by_hand.batch(make(), count, attributes=attributes)
def columns(data, **cap):
    codec.columns().append(data, partition=0, max_rows=2**31, **cap)
def add(data, **cap):
    codec.offset_map(24 << 10).add_batch(data, **cap)
def clean(data, **cap):
    codec.clean_batch(data, codec.offset_map(24 << 10), now_ms=0, delete_retention_ms=0, **cap)
actions = [codec.check, codec.inspect, add]
if sys.argv[1] != "honest":
    actions += [codec.decode, columns, clean]

def peak_bytes():
    # not getrusage, whose peak is inherited from the parent through fork
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # the peak starts again at what is resident now
before = peak_bytes()
for action in actions:
    try:
        action(data, max_decompressed_bytes=CAP)
        print("fine")
    except (CorruptMessageError, InvalidRecordError) as error:
        print(type(error).__name__)
print(peak_bytes() - before)
"""

BOMBS = {
    "gzip": BOMB_CAP,
    "snappy": BOMB_CAP,
    "snappy declared": 0,
    "lz4": BOMB_CAP,
    "lz4 linked": BOMB_CAP,
    "zstd": 2 * BOMB_CAP,
    "zstd window": 2 * BOMB_CAP,
    "counts": 0,
    "headers": 0,
    "honest": BOMB_CAP,
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", BOMBS)
def test_memory_stays_bounded(name: str) -> None:
    """256 MiB behind a few KiB, or a count of 2^31-1: the process grows by the cap at most (zstd: twice)."""
    fakes = str(Path(by_hand.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(cap=BOMB_CAP), name, "compiled"],
        env={**os.environ, "PYTHONPATH": fakes},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *verdicts, grown = done.stdout.split()
    expected = "CorruptMessageError" if name == "snappy declared" else "InvalidRecordError"
    assert set(verdicts) == {"fine" if name == "honest" else expected}
    assert int(grown) <= BOMBS[name] + SLACK
