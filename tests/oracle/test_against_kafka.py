"""Logs of headrace and Apache Kafka: each reads the other's files, and appends to them."""

from collections.abc import Iterator
from pathlib import Path

import kafka_oracle
import pytest
from beside.java_io import JavaTools
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression, TimestampType, read_batch_header
from headrace.runtime.files.files_io import OsFiles
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.log import Log
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)
COMPRESSIONS = [None, "gzip", "snappy", "lz4", "zstd"]
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("apache_kafka", "closed_sockets")]


def batch(count: int, tag: str, compression: Compression, timestamp_ms: int = NOW) -> bytes:
    builder = active_codec().builder(max_bytes=1 << 20, compression=compression)
    for number in range(count):
        headers = [("trace", b"x"), ("none", None)] if number % 2 else []
        key = None if number == 3 else f"{tag}-{number}".encode()
        builder.append(timestamp_ms + number, key, b"value" * 20, headers)
    return builder.build()


def open_log(folder: Path, *, was_clean: bool = True, **config: int) -> Log:
    return Log.open(
        OsFiles(),
        str(folder),
        LogConfig.of(config),
        topic_partition=TP,
        recovery_point=0,
        was_clean=was_clean,
        wall_ms=NOW,
    )


def records_of(log: Log) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every record in the log but control records."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.reader.read(offset, 1 << 20, upto_offset=log.log_end_offset)
        for data in found.data:
            view = memoryview(data)
            while view:
                header = read_batch_header(view)
                if not header.is_control:
                    decoded = active_codec().decode(view[: header.size_bytes])
                    yield from ((record.offset, record.key, record.value) for record in decoded)
                view = view[header.size_bytes :]
        offset = found.next_offset


def test_kafkas_dump_tool_reads_our_segments(tmp_path: Path, java_tools: JavaTools) -> None:
    """Every compression, two segments: all records are valid, all indexes agree."""
    folder = tmp_path / "t-0"
    log = open_log(folder, index_interval_bytes=500)
    for round_number in range(10):
        for compression in Compression:
            sent = batch(20, compression.name, compression, NOW + round_number * 1000)
            log.append_as_leader(sent, leader_epoch=round_number // 5, wall_ms=NOW)
        if round_number == 4:
            log.roll(NOW)
    log.close()
    segments = sorted(folder.glob("*.log"))
    assert len(segments) == 2
    printed = kafka_oracle.dump_log(*segments, run=java_tools.output)
    assert printed.count("| offset:") == 10 * 5 * 20
    assert printed.count("isvalid: true") == 50
    assert "isvalid: false" not in printed
    assert printed.count("partitionLeaderEpoch: 1") >= 25
    assert "headerKeys: [trace,none]" in printed
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    assert len(indexes) == 4
    assert all(path.stat().st_size for path in indexes)
    checked = kafka_oracle.dump_log(*indexes, options=(), run=java_tools.output)
    assert checked.count("offset:") > 10
    for complaint in ("Mismatches", "Index mismatch", "not found", "out of order", "corrupt"):
        assert complaint not in checked, checked


def test_log_of_kafka_is_read_appended_to_and_served_by_kafka(tmp_path: Path) -> None:
    """Kafka writes with every compression and stops; headrace reads and appends; Kafka serves both parts."""
    folder = tmp_path / "data"
    folder.mkdir()
    with kafka_oracle.kafka_server(folder) as bootstrap:
        for compression in COMPRESSIONS:
            with_this = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
            for number in range(50):
                with_this.send("t", key=f"{compression}-{number}".encode(), value=b"v" * 50)
            with_this.close()
    log = open_log(folder / "t-0")
    by_kafka = [(f"{compression}-{number}".encode()) for compression in COMPRESSIONS for number in range(50)]
    assert [key for _, key, _ in records_of(log)] == by_kafka
    assert [offset for offset, _, _ in records_of(log)] == list(range(250))
    epoch = log.epochs.latest_epoch
    for compression in Compression:
        log.append_as_leader(batch(10, "ours", compression), leader_epoch=epoch, wall_ms=NOW)
    ours = [key for _, key, _ in records_of(log)][250:]
    log.close()
    with kafka_oracle.kafka_server(folder) as bootstrap:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=15_000)
        consumer.assign([KafkaTopicPartition("t", 0)])
        consumer.seek_to_beginning()
        seen = []
        for record in consumer:
            seen.append(record.key)
            if len(seen) == 300:
                break
        consumer.close()
    assert seen == by_kafka + ours


def test_recovery_of_kafkas_segment_without_indexes(tmp_path: Path) -> None:
    """Indexes are rebuilt, with LogAppendTime; nothing is truncated."""
    folder = tmp_path / "data"
    folder.mkdir()
    with kafka_oracle.kafka_server(folder, **{"log.message.timestamp.type": "LogAppendTime"}) as bootstrap:
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="zstd")
        for number in range(200):
            producer.send("t", key=b"%d" % number, value=b"v" * 50, timestamp_ms=1)
        producer.close()
    for path in [*(folder / "t-0").glob("*.index"), *(folder / "t-0").glob("*.timeindex")]:
        path.unlink()
    log = open_log(folder / "t-0", was_clean=False)
    assert log.log_end_offset == 200
    assert [key for _, key, _ in records_of(log)] == [b"%d" % number for number in range(200)]
    first = read_batch_header(log.reader.read(0, 1, upto_offset=200).data[0])
    assert first.timestamp_type is TimestampType.LOG_APPEND_TIME
    found = log.reader.offset_for_timestamp(first.max_timestamp)
    assert found is not None
    assert found[0] == 0
    log.close()
