"""A disk error in each operation of a storage node: EIO or ENOSPC.

The node has two disks and continues: rolls, new epochs, flushes, checkpoints, deleted and recreated topics, a
clean shutdown. After EIO the log dir is offline, whatever the operation was, and acknowledges nothing. After
ENOSPC it refuses appends until the next check of its space; only a failed sync is final.
"""

import contextlib
import copy
import errno
from typing import Any

import pytest
from core_rig import CoreRig
from fake_files import FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.metadata.records import FormatRecord, PartitionChangeRecord, RemoveTopicRecord
from node_rig import WALL_MS, batch, values_of

PARTS = 4
RESERVES = (0, 3_000)


class Life:
    """A node on `files`, and the acknowledgements of its producers."""

    def __init__(
        self, files: FakeFiles, reserve_bytes: int, records: tuple[Any, ...] = (FormatRecord("c"),)
    ) -> None:
        self.records: list[Any] = list(records)
        self.acked: dict[tuple[bytes, int], list[bytes]] = {}
        self.sent: dict[tuple[bytes, int], list[bytes]] = {}
        self.refused = 0
        self._number = 1_000 * len(self.records)
        self.rig = CoreRig(
            files,
            "/d,/e",
            list(self.records),
            log_message_timestamp_after_max_ms=2**62,
            log_dir_reserve_bytes=reserve_bytes,
        )

    def follow(self, *records: Any) -> None:
        self.records += records
        self.rig.metadata(*records)
        self.settle()

    def settle(self) -> None:
        """The shell's work: flush, free space, check the disk once a second."""
        for _ in range(2):
            self.rig.flush()
            with contextlib.suppress(KafkaStorageError):  # as on a thread whose result is not awaited
                self.rig.purge()
            self.rig.now_ms += 1_000
            self.rig.core.tick(self.rig.now_ms, WALL_MS)
            self.rig.check()

    def create(self, name: str) -> bytes:
        topic_id, records = self.rig.topic_records(name, 2, durability="fsync", segment_ms="5000")
        self.follow(*records)
        return topic_id

    def delete(self, topic_id: bytes) -> None:
        for partition in (0, 1):
            self.acked.pop((topic_id, partition), None)
        self.follow(RemoveTopicRecord(topic_id))

    def produce(self, topic_id: bytes, count: int) -> None:
        for _ in range(count):
            for partition in (0, 1):
                self._number += 1
                self._produce((topic_id, partition), b"%s-%d" % (topic_id, self._number))

    def _produce(self, key: tuple[bytes, int], value: bytes) -> None:
        """Retry until the value is acknowledged, or its disk is offline."""
        data = batch(value, timestamp_ms=WALL_MS + 2000 * self._number)
        self.sent.setdefault(key, []).append(value)
        for _ in range(4):
            request = self.rig.produce(key[0], data, partition=key[1], timeout_ms=60_000)
            for _ in range(3):
                if not request.is_answered:
                    self.settle()
            if request.answer is not None and request.first.error_code == 0:
                self.acked.setdefault(key, []).append(value)
                return
            self.refused += 1
            if not self.rig.core.table.partitions[key].is_online:
                return
            self.settle()
        raise AssertionError("every retry was refused")


def workload(files: FakeFiles, reserve_bytes: int = 0) -> Life:
    """Two processes of a node."""
    life = Life(files, reserve_bytes)
    first, second = life.create("first"), life.create("second")
    life.produce(first, 4)
    life.rig.manager.checkpoint()
    life.follow(PartitionChangeRecord(second, 0, leader=1))
    life.produce(second, 2)
    life.delete(first)
    again = life.create("first")
    life.produce(again, 2)
    life.rig.manager.checkpoint()
    life.rig.manager.shutdown(broker_epoch=1)
    return life


def count_operations(reserve_bytes: int) -> int:
    files = FakeFiles()
    workload(files, reserve_bytes)
    return len(files.operations)


OPERATIONS = {reserve_bytes: count_operations(reserve_bytes) for reserve_bytes in RESERVES}


def check_next(facts: tuple[Any, Any, Any], files: FakeFiles, reserve_bytes: int) -> None:
    """The next process, on the repaired disks, has all acknowledged records and continues."""
    records, acked_of, sent_of = facts
    life = Life(files, reserve_bytes, records)
    life.acked, life.sent = acked_of, sent_of
    rig = life.rig
    assert rig.manager.failed == {}
    assert rig.core.status(rig.now_ms)["offline_partitions"] == 0
    for topic in rig.image.topics.values():
        for index in range(len(topic.partitions)):
            key = (topic.topic_id, index)
            found, acked = everything(rig, *key), life.acked.get(key, [])
            assert [value for value in found if value in acked] == acked, f"lost of {topic.name}-{index}"
            assert set(found) <= set(life.sent.get(key, []))
        life.produce(topic.topic_id, 1)


def everything(rig: CoreRig, topic_id: bytes, partition: int) -> list[bytes]:
    rig.flush()
    values: list[bytes] = []
    while True:
        request = rig.fetch(topic_id, len(values), partition=partition)
        rig.read_cold()
        assert request.first.error_code == 0, request.first
        more = [value or b"" for _, value in values_of(request.answer_frames)]
        if not more:
            return values
        values += more


@pytest.mark.parametrize("reserve_bytes", RESERVES)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["bad", "full"])
def test_disk_error_in_every_operation(error: int, part: int, reserve_bytes: int) -> None:
    """Scenarios 25, 28 and 29: after any error no acknowledged record is lost, by a kill or a power loss, and
    the node serves its other disk. The reserve does not matter for a bad disk, and a full disk without a
    reserve is like a bad one: half of the operations are enough there."""
    checked: set[tuple[bytes, str]] = set()  # many errors leave the same disks with the same facts
    is_plain = (error == errno.EIO) == (reserve_bytes > 0)
    for number in range(part, OPERATIONS[reserve_bytes], 2 * PARTS if is_plain else PARTS):
        files = FakeFiles()
        files.error_at = (number, error)
        try:
            life = workload(files, reserve_bytes)
        except KafkaStorageError:
            # The error was at the first read of meta.properties, or the start needed both disks.
            assert number < OPERATIONS[reserve_bytes] // 4, files.operations[number]
            continue
        offline = life.rig.manager.dirs.offline
        assert len(offline) <= 1
        failed = files.operations[number]
        if error == errno.EIO:
            assert offline, f"{failed} failed, and its disk is online"
        elif not failed.startswith("fdatasync") and not failed.startswith("fsync"):
            is_needed = not reserve_bytes or failed.endswith((".lock", ".reserve", " /d", " /e"))
            assert not offline or is_needed, f"{failed} found no space, and its disk is offline"
        facts = (life.records, life.acked, life.sent)
        for survivors in (files.restart(), files.power_loss("none"), files.power_loss(number)):
            place = (survivors.fingerprint(), repr(facts))
            if place not in checked:
                checked.add(place)
                check_next(copy.deepcopy(facts), survivors, reserve_bytes)
