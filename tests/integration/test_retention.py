"""Retention under readers, and DeleteRecords, on real nodes and files."""

from pathlib import Path

from command_line import CommandLine
from headrace import LATEST, NewTopic, TopicPartition, errors
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for

MIB = 1024 * 1024
SIZE, COUNT = 10_000, 1_200  # twelve segments
PLACE = TopicPartition("t", 0)


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("t-0/*") if ".log" in path.name)


def value_of(number: int) -> bytes:
    return b"%d:" % number + b"v" * SIZE


def fill(cluster: LocalCluster, **configs: str) -> None:
    """A topic whose records have their offsets as values."""
    defaults = {"segment.bytes": str(MIB), "file.delete.delay.ms": "0"}
    with cluster.admin() as admin, cluster.producer(batch_size=50_000) as producer:
        replicas = len(cluster.status()["nodes"])
        topic = NewTopic("t", partitions=1, replication_factor=replicas, configs=defaults | configs)
        admin.create_topics(topic).raise_for_errors()
        sent = producer.send_many("t", [value_of(number) for number in range(COUNT)])
        assert sent.errors(60) == {}


def test_segments_are_deleted_under_a_reader_and_a_follower(tmp_path: Path) -> None:
    """RELIABILITY 34. A reader in a deleted segment gets the right bytes, or continues at the log start; a
    restarted follower begins there. Then the files are deleted as well."""
    keys = {
        "log_retention_check_interval_ms": 100,
        "log_tail_cache_bytes": 0,
        "broker_session_timeout_ms": 3_000,
    }
    with local(nodes=2, data_dir=str(tmp_path), **keys) as cluster:
        fill(cluster)
        before = len(files_of(tmp_path))
        assert before > 20
        options = {
            "auto_offset_reset": "earliest",
            "max_partition_fetch_bytes": 60_000,
            "fetch_max_bytes": 60_000,
        }
        with cluster.admin() as admin, cluster.consumer("t", **options) as consumer:
            offsets = [record.offset for record in consumer.poll(60, max_records=3)]
            leader = admin.describe_topics("t")["t"].partitions[0].leader
            cluster.kill_node(2 - leader)
            admin.alter_configs({"t": {"retention.bytes": 3 * MIB}}).raise_for_errors()
            starts = []
            while offsets[-1] < COUNT - 1:
                records = consumer.poll(60, max_records=20)
                assert records, f"nothing after {offsets[-1]}"
                for record in records:
                    assert record.value == value_of(record.offset)
                offsets += [record.offset for record in records]
                starts.append(consumer.beginning_offsets(PLACE)[PLACE])
            assert offsets == sorted(set(offsets))
            assert starts == sorted(starts)
            wait_for(lambda: consumer.beginning_offsets(PLACE)[PLACE] > COUNT // 2, "segments were deleted")
            cluster.restart_node(2 - leader)
            wait_for(lambda: len(admin.describe_topics("t")["t"].partitions[0].isr) == 2, "both are in sync")
            wait_for(lambda: len(files_of(tmp_path)) <= 2 * 4, "the files are deleted")
            start = consumer.beginning_offsets(PLACE)[PLACE]
            consumer.seek_to_beginning(PLACE)
            (record,) = consumer.poll(60, max_records=1)
            assert (record.offset, record.value) == (start, value_of(start))


def test_deleted_records_stay_deleted(tmp_path: Path, command_line: CommandLine) -> None:
    """By the command and by the client, on all nodes; also after a crash of all of them."""
    with local(nodes=3, data_dir=str(tmp_path)) as cluster:
        fill(cluster)

        delete = ("topic", "delete-records", "t", "-p", "0", "--offset", "700", "--yes")
        deleted = command_line.at(cluster.bootstrap).json(*delete)
        assert deleted == [{"topic": "t", "partition": 0, "low_watermark": 700}]
        for index in range(3):
            cluster.kill_node(index)
        for index in range(3):
            cluster.restart_node(index)
        with cluster.admin() as admin, cluster.consumer("t", auto_offset_reset="earliest") as consumer:
            records = consumer.poll(60, max_records=2)
            assert [record.offset for record in records] == [700, 701]
            assert records[0].value == value_of(700)
            (error,) = admin.delete_records({PLACE: COUNT + 1}).errors.values()
            assert isinstance(error, errors.OffsetOutOfRangeError)
            wait_for(lambda: len(admin.describe_topics("t")["t"].partitions[0].isr) == 3, "all are in sync")
            assert admin.delete_records({PLACE: LATEST})[PLACE].low_watermark == COUNT
            with cluster.producer() as producer:
                assert producer.send("t", b"next").result(60).offset == COUNT
            admin.alter_configs({"t": {"cleanup.policy": "compact"}}).raise_for_errors()

            def is_refused() -> bool:
                (error,) = admin.delete_records({PLACE: COUNT}).errors.values() or (None,)
                return isinstance(error, errors.PolicyViolationError)

            wait_for(is_refused, "a compacted topic keeps its records")
        wait_for(lambda: len(files_of(tmp_path)) <= 3 * 2, "the files are deleted")
