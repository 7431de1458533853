"""What compaction leaves, held against Apache Kafka: its dump tool reads it, a node of it serves it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import kafka_oracle
import pytest
from cleaner_rig import clean, records
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.header import Compression, read_batch_header
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.files_io import OsFiles
from headrace.storage_node.log.log import Log
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]

NOW, DAY = 1_700_000_000_000, 86_400_000
# a key or a value that is null is not printed at all
RECORD = re.compile(
    r"\| offset: (\d+) CreateTime: (\d+) .*?\](?: key: (\S+))?(?: payload: (\S+))?$", re.MULTILINE
)


@pytest.fixture(autouse=True, scope="module")
def _kafka_is_there() -> None:
    kafka_oracle.require()


def batch(base_offset: int, compression: Compression, round_number: int) -> bytes:
    """Twenty records under ten keys; one in seven is a tombstone, one has no key."""
    builder = pick_codec("compiled").builder(
        max_bytes=1 << 20,
        compression=compression,
        producer_id=5,
        producer_epoch=1,
        base_sequence=base_offset,
    )
    for number in range(20):
        key = None if number == 3 else b"%s-%d" % (compression.name.encode(), (number + round_number) % 10)
        value = None if number % 7 == round_number % 7 else b"value-%d-%d" % (round_number, number)
        builder.append(NOW + base_offset + number, key, value, [("trace", b"x")] if number % 2 else [])
    return base_offset.to_bytes(8, "big") + builder.build()[8:]


@pytest.mark.parametrize("name", ["python", "compiled"])
def test_kafkas_dump_tool_reads_what_is_left(name: str, tmp_path: Path) -> None:
    """Every compression, horizons ahead and passed, batches that lost all of their records."""
    codec = pick_codec(name)
    batches = [
        batch(20 * number, compression, number // len(Compression))
        for number, compression in enumerate(list(Compression) * 3)
    ]
    offsets = codec.offset_map(24_000)
    assert all(offsets.add_batch(each) for each in batches[:-3])
    for pass_number, now_ms in enumerate((NOW, NOW + DAY)):
        left = []
        for each in batches:
            cleaned = codec.clean_batch(each, offsets, now_ms=now_ms, delete_retention_ms=DAY)
            empty = codec.empty_batch(read_batch_header(each))
            left.append(empty if cleaned.data is None else bytes(cleaned.data))
        segment = tmp_path / f"{pass_number}" / "00000000000000000000.log"
        segment.parent.mkdir()
        segment.write_bytes(b"".join(left))
        printed = kafka_oracle.dump_log(segment)
        assert "isvalid: false" not in printed
        assert printed.count("isvalid: true") == len(batches)
        expected = [
            (
                str(record.offset),
                str(record.timestamp),
                (record.key or b"").decode(),
                (record.value or b"").decode(),
            )
            for each in left
            for record in codec.decode(each)
        ]
        assert RECORD.findall(printed) == expected
        assert printed.count("deleteHorizonMs: OptionalLong[") == sum(
            read_batch_header(each).delete_horizon_ms is not None for each in left
        )
        assert printed.count("count: 0 ") == sum(not read_batch_header(each).record_count for each in left)
        batches = left
    assert any(not read_batch_header(each).record_count for each in batches)
    assert len(expected) < 20 * len(batches)


def opened(folder: Path) -> Log:
    return Log.open(
        OsFiles(),
        str(folder),
        LogConfig(cleanup_policy=("compact",), index_interval_bytes=500, delete_retention_ms=DAY),
        topic_partition=TopicPartition("t", 0),
        recovery_point=0,
        was_clean=True,
        wall_ms=NOW,
    )


def compacted(log: Log, wall_ms: int) -> None:
    """Everything but the active segment."""
    log.high_watermark = log.log_end_offset
    clean(log, wall_ms=wall_ms, buffer_bytes=1 << 16)


def test_kafkas_dump_tool_reads_a_cleaned_log(tmp_path: Path) -> None:
    """Three segments become one with indexes of its own, which Kafka finds in agreement with it."""
    log = opened(tmp_path / "t-0")
    for number in range(45):
        builder = pick_codec("compiled").builder(max_bytes=1 << 20, compression=Compression(number % 5))
        for key in range(20):
            value = None if key == number % 20 else b"value-%d" % number
            builder.append(NOW + number, b"%d-%d" % (number % 9, key), value)
        log.append_as_leader(builder.build(), leader_epoch=number // 20, wall_ms=NOW)
        if number % 14 == 13:
            log.roll(NOW)
    for wall_ms in (NOW, NOW + DAY):
        compacted(log, wall_ms)
        expected = [(record.offset, record.key) for record in records(log)]
        segments = sorted((tmp_path / "t-0").glob("*.log"))
        assert len(segments) == 2
        printed = kafka_oracle.dump_log(*segments)
        assert "isvalid: false" not in printed
        found = [(int(offset), key.encode()) for offset, _, key, _ in RECORD.findall(printed)]
        assert found == expected
        indexes = sorted([*(tmp_path / "t-0").glob("*.index"), *(tmp_path / "t-0").glob("*.timeindex")])
        checked = kafka_oracle.dump_log(*indexes, options=())
        assert checked.count("offset:") > 4
        for complaint in ("Mismatches", "Index mismatch", "not found", "out of order", "corrupt"):
            assert complaint not in checked, checked
    assert len(expected) < 45 * 20 / 3
    log.close()


def test_kafka_serves_what_it_wrote_and_we_compacted(tmp_path: Path) -> None:
    """Keys that come back, in every compression; Kafka goes on behind the gaps, with the next offset."""
    folder = tmp_path / "data"
    folder.mkdir()
    with kafka_oracle.kafka_server(folder) as bootstrap:
        for compression in (None, "gzip", "snappy", "lz4", "zstd"):
            producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
            for number in range(60):
                value = None if number == 59 else b"%s-%d" % (str(compression).encode(), number)
                producer.send("t", key=b"%d" % (number % 12), value=value)
            producer.close()
    log = opened(folder / "t-0")
    before = records(log)
    log.roll(NOW)
    compacted(log, NOW)
    left = records(log)
    assert len(left) == 12
    assert left == [record for record in before if record.offset >= 300 - 12]
    log.close()
    with kafka_oracle.kafka_server(folder) as bootstrap:
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        assert producer.send("t", key=b"new", value=b"v").get(30).offset == 300
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=15_000)
        consumer.assign([KafkaTopicPartition("t", 0)])
        consumer.seek_to_beginning()
        seen = []
        for record in consumer:
            seen.append((record.offset, record.key, record.value))
            if record.offset == 300:
                break
        consumer.close()
    assert seen == [*map(tuple, left), (300, b"new", b"v")]
