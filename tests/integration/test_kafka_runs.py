"""Records sent from a log's file to a Kafka client's socket have the same bytes as those read into memory."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pytest
from beside.wire import Wire, frame
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import read_batch_header
from headrace.runtime.files.files_io import OsFiles

TOPIC = "runs"
BATCHES, VALUE_BYTES = 300, 10_000
# The most bytes that a response reads into memory. Source: storage_node/replica/reading.py
READ_BYTES = 512 * 1024


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster that keeps no batches in memory, and a topic with 3 MB."""
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0", **{"log.tail.cache.bytes": 0}) as cluster:
        fill(cluster.kafka_bootstrap, TOPIC)
        yield cluster.kafka_bootstrap


def fill(bootstrap: str, topic: str) -> None:
    with Wire(bootstrap) as wire:
        topics = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
        (made,) = wire.ask("create_topics", 5, topics=topics, timeout=10_000)["topics"]
        assert made["error_code"] == "none"
        for number in range(BATCHES):
            part = {"index": 0, "records": batch(number)}
            data = [{"name": topic, "partition_data": [part]}]
            (response,) = wire.ask("produce", 9, acks=-1, timeout=10_000, topic_data=data)["responses"]
            assert response["partition_responses"][0]["error_code"] == "none"


def can_lend(folder: Path) -> bool:
    """Whether this kernel reports cached pages."""
    file = OsFiles().open(f"{folder}/probe", create=True)
    file.pwrite(0, [b"x"])
    return file.lend(0, 1) is not None


def batch(number: int) -> bytes:
    builder = active_codec().builder(max_bytes=1 << 20)
    builder.append(1_700_000_000_000, b"%d" % number, bytes([number % 256]) * VALUE_BYTES)
    return builder.build()


def asked(offset: int, isolation: int = 0, max_bytes: int = 1 << 23, topic: str = TOPIC) -> dict[str, Any]:
    """The fields of a fetch."""
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    fields = {"replica_id": -1, "max_bytes": 1 << 24, "min_bytes": 1, "max_wait": 1000, "session_epoch": -1}
    return fields | {"isolation_level": isolation, "topics": [{"topic": topic, "partitions": [part]}]}


def fetch(wire: Wire, version: int, *of: Any) -> bytes:
    response = wire.ask("fetch", version, **asked(*of))
    (one,) = response["responses"][0]["partitions"]
    assert one["error_code"] == "none"
    records: bytes = one["records"]
    return records


def everything(wire: Wire, version: int, isolation: int, max_bytes: int) -> tuple[bytes, int]:
    """All bytes of the partition, and the size of the largest response."""
    offset, data, largest = 0, b"", 0
    while offset < BATCHES:
        records = fetch(wire, version, offset, isolation, max_bytes)
        largest = max(largest, len(records))
        at = 0
        while at < len(records):
            header = read_batch_header(records, at)
            assert header.base_offset == offset
            offset, at = header.next_offset, at + header.size_bytes
        data += records
    return data, largest


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("isolation", [0, 1])
def test_all_response_sizes_return_the_same_bytes(
    bootstrap: str, version: int, isolation: int, tmp_path: Path
) -> None:
    """Read into memory, sent from the file, and both in turn."""
    with Wire(bootstrap) as wire:
        small, _ = everything(wire, version, isolation, 50_000)
        large, largest = everything(wire, version, isolation, 1 << 23)
        mixed, _ = everything(wire, version, isolation, 150_000)
    assert small == large == mixed
    assert len(large) > BATCHES * VALUE_BYTES
    if can_lend(tmp_path):
        assert largest > READ_BYTES, "no bytes were sent from the file"


def test_topic_is_deleted_while_it_is_sent(bootstrap: str) -> None:
    """Its files stay open until the last run is sent."""
    topic = "goes"
    fill(bootstrap, topic)
    host, port = bootstrap.split(":")
    with Wire(bootstrap) as wire, socket.socket() as slow:
        first = fetch(wire, 11, 0, 0, 15_000, topic)
        offset = read_batch_header(first, 0).next_offset
        wanted = fetch(wire, 11, offset, 0, 1 << 23, topic)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(20)
        slow.connect((host, int(port)))
        slow.sendall(frame("fetch", 11, asked(offset, 0, 1 << 23, topic)))
        received = slow.makefile("rb", 4096)
        head = received.read(4)
        deleted = wire.ask("delete_topics", 5, topic_names=[topic], timeout=10_000)
        assert deleted["responses"][0]["error_code"] == "none"
        answer = received.read(int.from_bytes(head, "big"))
        received.close()
    assert answer.endswith(wanted)
