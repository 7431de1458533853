"""Compacted topics on real nodes and files: clients, restarts, a follower that was down."""

from pathlib import Path
from typing import Any

import pytest
from headrace import NewTopic, TopicPartition, errors
from headrace.protocol.records.codec import active_codec
from headrace.services.local_io import LocalCluster, local
from headrace.storage_node.log.log import Log
from node_rig import WALL_MS, Client, Rig, node_rig, until
from waiting import wait_for

KEYS = 20
PLACE = TopicPartition("t", 0)
TOPIC = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}


def write(cluster: LocalCluster, rounds: range) -> None:
    """Each key once per round; a round is a batch, and so a segment, of its own."""
    with cluster.producer() as producer:
        for number in rounds:
            sent = [producer.send("t", b"%d" % number, key=b"k%d" % key) for key in range(KEYS)]
            for future in sent:
                future.result(60)


def read(cluster: LocalCluster) -> list[tuple[int, bytes, bytes]]:
    """(offset, key, value) of all records in the topic."""
    found = []
    with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
        end = consumer.end_offsets(PLACE)[PLACE]
        while not found or found[-1][0] < end - 1:
            records = consumer.poll(60)
            assert records, f"nothing after {found[-1:]}"
            found += [(record.offset, record.key, record.value) for record in records]
    return found


def test_restarted_follower_catches_up_with_a_compacted_leader(tmp_path: Path) -> None:
    """The follower replicates the gaps, becomes leader when the other node dies, and compacts its own log."""
    keys = {"log_cleaner_backoff_ms": 20, "broker_session_timeout_ms": 3_000}
    with local(nodes=2, data_dir=str(tmp_path), **keys) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t", 1, 2, TOPIC)).raise_for_errors()
            write(cluster, range(5))
            leader = admin.describe_topics("t")["t"].partitions[0].leader
            cluster.kill_node(2 - leader)
            write(cluster, range(5, 30))
            wait_for(lambda: len(read(cluster)) <= 3 * KEYS, "the leader compacts")
            cluster.restart_node(2 - leader)
            wait_for(lambda: len(admin.describe_topics("t")["t"].partitions[0].isr) == 2, "both are in sync")
            cluster.kill_node(leader - 1)
            wait_for(
                lambda: admin.describe_topics("t")["t"].partitions[0].leader == 3 - leader, "the other leads"
            )
            write(cluster, range(30, 40))
            wait_for(lambda: len(read(cluster)) <= 3 * KEYS, "the other compacts")
        found = read(cluster)
        assert {key: value for _, key, value in found} == {b"k%d" % key: b"39" for key in range(KEYS)}
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert all(offset == KEYS * int(value) + int(key[1:]) for offset, key, value in found)
        with cluster.producer() as producer, pytest.raises(errors.InvalidRecordError, match="no key"):
            producer.send("t", b"keyless").result(60)


# --- one node, closer by ------------------------------------------------------------------------------------

CONFIG = {"log.cleaner.backoff.ms": 5}


async def put(client: Client, topic_id: bytes, start: int, count: int) -> None:
    """Batches of one record, each in a segment of its own; the key of number n is n % KEYS."""
    for number in range(start, start + count):
        builder = active_codec().builder(max_bytes=1 << 20)
        builder.append(WALL_MS + 10 * number, b"k%d" % (number % KEYS), b"%d" % number)
        assert (await client.produce(topic_id, builder.build())).error_code == 0


async def values(client: Client, topic_id: bytes, end: int) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    offset = 0
    while offset < end:
        answer, records = await client.fetch(topic_id, offset, max_wait_ms=1_000)
        assert answer.error_code == 0
        assert records, f"nothing from {offset} on"
        found.update(record for record in records if record[0] >= offset)
        offset = records[-1][0] + 1
    return found


def log_of(rig: Rig) -> Log:
    (partition,) = rig.core.table.partitions.values()
    assert partition.log is not None
    return partition.log


def is_clean(rig: Rig) -> bool:
    log = log_of(rig)
    return (
        log.compaction.running is None and log.compaction.cleaner_offset == log.segments[-1].base_offset > 0
    )


@pytest.mark.parametrize("crash", [False, True])
async def test_compacted_log_survives_a_restart(tmp_path: Path, crash: bool) -> None:
    """The same records at the same offsets; compaction continues; the old segment files are deleted."""
    async with node_rig(tmp_path, config=CONFIG) as rig:
        configs = {"cleanup_policy": "compact", "segment_ms": "1", "file_delete_delay_ms": "0"}
        topic_id = await rig.topic(**configs, min_cleanable_dirty_ratio="0.01")
        client = await rig.client()
        await put(client, topic_id, 0, 100)
        await until(lambda: is_clean(rig))
        found = await values(client, topic_id, 100)
        assert [*found] == [*range(80, 100)] or [*found] == [*range(79, 100)]
        metrics: dict[str, Any] = rig.node.status()["metrics"]
        assert metrics["uncleanable-partitions-count"] == {}
        assert metrics["max-buffer-utilization-percent"] + 1 > 0
        await rig.restart(crash=crash)
        client = await rig.client()
        assert await values(client, topic_id, 100) == found
        await put(client, topic_id, 100, 30)
        await until(lambda: is_clean(rig))
        after = await values(client, topic_id, 130)
        assert len(after) <= KEYS + 1
        assert {offset: b"%d" % offset for offset in after} == after
        folder = tmp_path / "d0" / "t-0"
        await until(lambda: not [*folder.glob("*.deleted")])
        assert len([*folder.glob("*.log")]) <= 3


async def test_node_stops_during_a_throttled_cleaning(tmp_path: Path) -> None:
    """The node stops at once at any rate; no partial segment is left."""
    config = {**CONFIG, "log.cleaner.io.max.bytes.per.second": 1}
    async with node_rig(tmp_path, config=config) as rig:
        topic_id = await rig.topic(cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01")
        client = await rig.client()
        await put(client, topic_id, 0, 40)
        await until(lambda: log_of(rig).compaction.running is not None)
        await rig.stop()
        left = [path.name for path in (tmp_path / "d0" / "t-0").iterdir()]
        assert not [name for name in left if name.endswith((".cleaned", ".swap"))]
        rig.config["log.cleaner.io.max.bytes.per.second"] = 1e9
        rig.node = rig.new_node()
        await rig.start()
        await until(lambda: is_clean(rig))
        assert len(await values(await rig.client(), topic_id, 40)) <= KEYS + 1


async def test_topic_is_recreated_during_a_cleaning(tmp_path: Path) -> None:
    """The cleaning ends first; the new topic has none of its files."""
    config = {**CONFIG, "log.cleaner.io.max.bytes.per.second": 5_000}
    async with node_rig(tmp_path, config=config) as rig:
        keys = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.01"}
        topic_id = await rig.topic(**keys)
        client = await rig.client()
        await put(client, topic_id, 0, 60)
        await until(lambda: log_of(rig).compaction.running is not None)
        rig.controller.delete_topic(topic_id)
        again = await rig.topic(**keys)
        await until(lambda: any(key[0] == again for key in rig.core.table.partitions))
        await put(client, again, 0, 3)
        assert await values(client, again, 3) == {0: b"0", 1: b"1", 2: b"2"}
        await rig.restart(crash=True)
        assert await values(await rig.client(), again, 3) == {0: b"0", 1: b"1", 2: b"2"}


async def test_corrupt_log_is_uncleanable(tmp_path: Path) -> None:
    """The reason is logged, the partition is counted, and intact batches are still served."""
    config = {**CONFIG, "log.cleaner.enable": False}
    async with node_rig(tmp_path, config=config) as rig:
        keys = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.01"}
        topic_id = await rig.topic("t", partitions=2, **keys)
        client = await rig.client()
        await put(client, topic_id, 0, 40)
        for number in range(10):
            builder = active_codec().builder(max_bytes=1 << 20)
            builder.append(WALL_MS + 10 * number, b"k", b"%d" % number)
            await client.produce(topic_id, builder.build(), partition=1)
        await rig.stop()
        path = tmp_path / "d0" / "t-0" / f"{3:020d}.log"
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        rig.config["log.cleaner.enable"] = True
        rig.node = rig.new_node()
        await rig.start()
        await until(lambda: "t-0" in rig.node.status()["uncleanable_partitions"])
        assert "CRC" in rig.node.status()["uncleanable_partitions"]["t-0"]
        assert rig.node.status()["metrics"]["uncleanable-partitions-count"] == {str(tmp_path / "d0"): 1}
        logs = {p.key[1]: p.log for p in rig.core.table.partitions.values()}
        await until(lambda: (logs[1].compaction.cleaner_offset or 0) >= 8)
        client = await rig.client()
        assert (await client.fetch(topic_id, 10))[1]
