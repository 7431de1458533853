"""Batches stay Kafka's, byte for byte: fixed bytes, Apache Kafka's own, and two other clients both ways.

`kafka_batches.txt` was written by Apache Kafka 4.1.0 through KafkaBatches.java, which also reads ours.
"""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiokafka.record.default_records as aiokafka_records
import kafka_oracle
import pytest
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.control import (
    EndTransaction,
    LeaderChange,
    QuorumVersion,
    SnapshotFooter,
    SnapshotHeader,
    VoterDescription,
    VoterEndpoint,
    VoterSet,
    decode_control,
    encode_control,
)
from headrace.protocol.records.header import Compression, read_batch_header

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own imports
    import kafka.record.default_records as kafka_python_records

if TYPE_CHECKING:
    from headrace.protocol.records.codec import RecordCodec, RecordLike

HERE = Path(__file__).parent
TIME = 1_700_000_000_000
# The same records as fill() in KafkaBatches.java.
SAMPLE: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
    (TIME, b"key", b"value", ()),
    (TIME + 1, None, b"v" * 200, ()),
    (TIME - 5, b"tombstone", None, ()),
    (TIME + 70_000_000_000, b"", b"", (("h", b"1"), ("nïl", None))),
    *((TIME + i, b"key-%d" % i, b"line %d of a compressible text" % i, ()) for i in range(40)),
]
KAFKA = {
    name: bytes.fromhex(data)
    for name, data in map(str.split, (HERE / "kafka_batches.txt").read_text().splitlines())
}


@pytest.fixture(params=["python", "compiled"])
def codec(request: pytest.FixtureRequest) -> RecordCodec:
    return pick_codec(request.param)


def rows(records: list[RecordLike]) -> list[Any]:
    """The content of records without their place in the log."""
    return [(r.timestamp, r.key, r.value, r.headers) for r in records]


def our_batch(codec: RecordCodec, **settings: Any) -> bytes:
    """The sample as headrace builds it."""
    builder = codec.builder(max_bytes=1 << 20, **settings)
    for row in SAMPLE:
        builder.append(*row)
    return builder.build()


# --- fixed bytes --------------------------------------------------------------------------------------


def test_one_small_batch_byte_by_byte(codec: RecordCodec) -> None:
    """Written out by hand from the layout; a change here is a change of the format on disk."""
    builder = codec.builder(max_bytes=1000, producer_id=1, producer_epoch=2, base_sequence=3)
    builder.append(256, b"k", b"vv", [("h", b"x"), ("n", None)])
    builder.append(255, None, b"")
    expected = (
        "0000000000000000"  # base offset
        "00000049"  # length: 73 = 49 of header + 17 + 7
        "ffffffff"  # leader epoch
        "02"  # magic
        "825f0870"  # CRC-32C
        "0000"  # attributes
        "00000001"  # last offset delta
        "0000000000000100"  # base timestamp
        "0000000000000100"  # max timestamp
        "0000000000000001"  # producer id
        "0002"  # producer epoch
        "00000003"  # base sequence
        "00000002"  # record count
        "20"  # length 16
        "000000"  # attributes, timestamp delta, offset delta
        "026b047676"  # key, value
        "0402680278026e01"  # two headers, the value of the second is null
        "0c"  # length 6
        "000102"  # attributes, timestamp delta -1, offset delta 1
        "010000"  # null key, empty value, no headers
    )
    assert builder.build().hex() == expected


@pytest.mark.parametrize("name", ["none", "transactional", "delete-horizon"])
def test_uncompressed_batches_equal_kafkas(codec: RecordCodec, name: str) -> None:
    """The same records through Apache Kafka's builder and through ours give the same bytes."""
    settings: dict[str, dict[str, Any]] = {
        "none": {},
        "transactional": {
            "producer_id": 4000,
            "producer_epoch": 3,
            "base_sequence": 11,
            "is_transactional": True,
        },
        "delete-horizon": {"delete_horizon_ms": TIME + 1000},
    }
    assert our_batch(codec, **settings[name]) == KAFKA[name]


def test_lz4_and_snappy_start_like_kafkas(codec: RecordCodec) -> None:
    """The framing is Kafka's to the byte; what the compressors make of the rest is their own."""
    for compression, name, size in ((Compression.SNAPPY, "snappy", 16), (Compression.LZ4, "lz4", 7)):
        ours, theirs = our_batch(codec, compression=compression), KAFKA[name]
        assert ours[61 : 61 + size] == theirs[61 : 61 + size]
        assert ours[21:61] == theirs[21:61]


# --- Apache Kafka -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
        "gzip-9",
        "lz4-17",
        "zstd-22",
        "transactional",
        "delete-horizon",
    ],
)
def test_kafkas_batches_are_read(codec: RecordCodec, name: str) -> None:
    """Every compression and level of the Java client; zstd at 22 asks for a window of 128 MiB."""
    codec.check(KAFKA[name])
    assert rows(codec.decode(KAFKA[name])) == SAMPLE


def test_kafkas_log_append_time_is_read(codec: RecordCodec) -> None:
    """The log's stamp replaces every record's own."""
    records = codec.decode(KAFKA["log-append-time"])
    assert {(r.timestamp, r.timestamp_type) for r in records} == {(TIME + 9, 1)}


VOTER = VoterDescription(1, bytes(range(1, 17)), (VoterEndpoint("CONTROLLER", "hôte", 65000),), 0, 1)
CONTROL = {
    "commit": EndTransaction(True, 7),
    "abort": EndTransaction(False, 7),
    "leader-change": LeaderChange(1, (1, 2), (1,)),
    "snapshot-header": SnapshotHeader(TIME),
    "snapshot-footer": SnapshotFooter(),
    "quorum-version": QuorumVersion(1),
    "voters": VoterSet((VOTER,)),
}


@pytest.mark.parametrize("name", CONTROL)
def test_kafkas_control_batches_are_read_and_written(codec: RecordCodec, name: str) -> None:
    """Each control record as Kafka writes it: read to our class, and written back to the same batch."""
    data = KAFKA[name]
    header = read_batch_header(data)
    assert header.is_control
    (record,) = codec.decode(data)
    assert decode_control(record.key, record.value) == CONTROL[name]
    builder = codec.builder(
        max_bytes=1000,
        is_control=True,
        is_transactional=header.is_transactional,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
    )
    builder.append(TIME, *encode_control(CONTROL[name]))
    assert builder.build()[17:] == data[17:]


def test_newer_leader_changes_are_read() -> None:
    """Version 1 of the value carries directory ids, which are skipped."""
    key = b"\x00\x00\x00\x02"
    assert decode_control(key, KAFKA["leader-change-value-1"]) == LeaderChange(1, (1, 2), (1,))


def test_kafka_reads_our_batches(codec: RecordCodec) -> None:
    """Apache Kafka's reader checks the CRC of each and prints the same records."""
    kafka_oracle.require()
    batches = [our_batch(codec, compression=compression) for compression in Compression]
    batches += [
        our_batch(codec, compression=Compression.GZIP, level=9),
        our_batch(codec, compression=Compression.LZ4, level=17),
        our_batch(codec, compression=Compression.ZSTD, level=22),
        our_batch(codec, delete_horizon_ms=TIME + 1000),
    ]

    def text(data: bytes | None) -> str:
        return "null" if data is None else "x" + data.hex()

    expected = []
    for offset, (timestamp, key, value, headers) in enumerate(SAMPLE):
        pairs = [f"{text(name.encode())}={text(data)}" for name, data in headers]
        expected.append(" ".join([str(offset), str(timestamp), text(key), text(value), *pairs]))
    command = [
        "java",
        *kafka_oracle.JVM,
        "-cp",
        kafka_oracle.classpath(),
        str(HERE / "KafkaBatches.java"),
        "read",
    ]
    hex_lines = "\n".join(data.hex() for data in batches)
    done = subprocess.run(command, input=hex_lines, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*expected, "end"] * len(batches)


# --- kafka-python and aiokafka, both ways -------------------------------------------------------------

CLIENTS = {
    "kafka-python": (
        kafka_python_records.DefaultRecordBatch,
        kafka_python_records.DefaultRecordBatchBuilder,
    ),
    "aiokafka": (aiokafka_records.DefaultRecordBatch, aiokafka_records.DefaultRecordBatchBuilder),
    "aiokafka in Python": (
        aiokafka_records._DefaultRecordBatchPy,
        aiokafka_records._DefaultRecordBatchBuilderPy,
    ),
}
PAIRS = [(client, compression) for client in CLIENTS for compression in Compression]


@pytest.mark.parametrize(("client", "compression"), PAIRS)
def test_other_clients_read_headrace_batches(
    codec: RecordCodec, client: str, compression: Compression
) -> None:
    """Both Python clients see the same records in our batches."""
    batch = CLIENTS[client][0](our_batch(codec, compression=compression))
    assert batch.validate_crc()
    seen = [
        (r.timestamp, r.key, r.value, tuple((name, data) for name, data in r.headers or ())) for r in batch
    ]
    assert seen == SAMPLE


@pytest.mark.parametrize(("client", "compression"), PAIRS)
def test_codec_reads_batches_of_other_clients(
    codec: RecordCodec, client: str, compression: Compression
) -> None:
    """We see the same records in the batches of both Python clients."""
    builder = CLIENTS[client][1](
        magic=2,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, (timestamp, key, value, headers) in enumerate(SAMPLE):
        assert builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
    data = bytes(builder.build())
    assert read_batch_header(data).compression_id == compression
    assert rows(codec.decode(data)) == SAMPLE
    codec.check(data)
    if compression is Compression.NONE:
        assert data[17:] == our_batch(codec)[17:]
