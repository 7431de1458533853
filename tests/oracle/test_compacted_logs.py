"""Compacted logs: Kafka's dump tool reads ours, and each cleaner continues the other one's work."""

import re
import time
from pathlib import Path

import kafka_oracle
import pytest
from beside.java_io import JavaTools
from cleaner_rig import clean, records
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.runtime.files.files_io import OsFiles
from headrace.runtime.waiting_io import until
from headrace.storage_node.log.checkpoints import parse_offsets
from headrace.storage_node.log.config import LogConfig
from headrace.storage_node.log.log import Log
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)
KEYS = 7
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("apache_kafka", "closed_sockets")]
BROKER = {
    "log.cleanup.policy": "compact",
    "log.roll.ms": "500",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "50",
}


def open_log(folder: Path, cleaner_offset: int | None = None) -> Log:
    config = LogConfig.of({"cleanup.policy": "compact", "index.interval.bytes": 200})
    return Log.open(
        OsFiles(),
        str(folder),
        config,
        topic_partition=TP,
        recovery_point=0,
        was_clean=True,
        wall_ms=NOW,
        cleaner_offset=cleaner_offset,
    )


def write(log: Log, rounds: range) -> None:
    """Each key and each compression once per round, with some tombstones; a segment per round."""
    for number in rounds:
        for compression in Compression:
            builder = active_codec().builder(max_bytes=1 << 20, compression=compression)
            for key in range(KEYS):
                value = None if (number + key) % 5 == 0 else b"%d" % number * 20
                builder.append(NOW + number * 1000 + key, b"%d-%d" % (key, compression), value)
            log.append_as_leader(builder.build(), leader_epoch=max(log.epochs.latest_epoch, 0), wall_ms=NOW)
        log.high_watermark = log.log_end_offset
        log.roll(NOW)


def cleaned_to(checkpoint: Path) -> int:
    """The offset in the server's cleaner checkpoint; -1 without an entry."""
    return parse_offsets(checkpoint.read_bytes()).get(TP, -1) if checkpoint.exists() else -1


def test_kafkas_dump_tool_reads_a_compacted_log(tmp_path: Path, java_tools: JavaTools) -> None:
    """The same offsets before and after, every batch valid, every index in agreement; after two cleanings,
    the second with delete horizons that have passed."""
    folder = tmp_path / "t-0"
    log = open_log(folder)
    write(log, range(8))
    before = records(log)
    clean(log, wall_ms=NOW)
    write(log, range(8, 10))
    clean(log, wall_ms=NOW + 2 * 86_400_000)
    found = records(log)
    log.close()
    assert len(found) < len(before) / 3
    segments = sorted(folder.glob("*.log"))
    printed = kafka_oracle.dump_log(*segments, run=java_tools.output)
    assert [int(offset) for offset in re.findall(r"\| offset: (\d+)", printed)] == [r.offset for r in found]
    assert "isvalid: true" in printed
    assert "isvalid: false" not in printed
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    checked = kafka_oracle.dump_log(*indexes, options=(), run=java_tools.output)
    assert checked.count("offset:") >= 2
    for complaint in ("Mismatches", "Index mismatch", "not found", "out of order", "corrupt"):
        assert complaint not in checked, checked


def test_each_cleaner_continues_after_the_other_one(tmp_path: Path) -> None:
    """Kafka compacts and stops; headrace reads, appends and compacts; Kafka serves the result."""
    folder = tmp_path / "data"
    folder.mkdir()
    checkpoint = folder / "cleaner-offset-checkpoint"
    with kafka_oracle.kafka_server(folder, **BROKER) as bootstrap:
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        now_ms = int(time.time() * 1000)
        for number in range(20):
            for key in range(KEYS):
                moment = now_ms - 60_000 + 1_000 * number
                producer.send("t", key=b"%d" % key, value=b"%d" % number, timestamp_ms=moment)
            producer.flush()
        producer.close()
        assert until(lambda: cleaned_to(checkpoint) >= 19 * KEYS, 120), "Kafka does not compact"
    log = open_log(folder / "t-0", cleaned_to(checkpoint))
    by_kafka = records(log)
    assert log.recovery.faults == []
    assert log.log_end_offset == 20 * KEYS
    assert len(by_kafka) < 4 * KEYS
    assert {record.key: record.value for record in by_kafka} == {b"%d" % key: b"19" for key in range(KEYS)}
    write(log, range(5))
    clean(log, wall_ms=NOW)
    ours = records(log)
    assert ours[: KEYS - 1] == by_kafka[-KEYS:][: KEYS - 1]
    log.close()
    with kafka_oracle.kafka_server(folder, **{**BROKER, "log.cleaner.enable": "false"}) as bootstrap:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=15_000)
        consumer.assign([KafkaTopicPartition("t", 0)])
        consumer.seek_to_beginning()
        seen = []
        for record in consumer:
            seen.append((record.offset, record.key, record.value))
            if len(seen) == len(ours):
                break
        consumer.close()
    assert seen == [tuple(record) for record in ours]
