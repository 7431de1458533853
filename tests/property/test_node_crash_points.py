"""Kill and power loss in each operation of a storage node.

The workload: topics of both durabilities, produce requests, rolls, checkpoints, a topic that is deleted and
recreated, a clean shutdown, a second process. The metadata log is the controller's and survives; the node may
have applied any part of it. After each fault the next process must have the acknowledged records in their
topics, and continue.
"""

from typing import Any

import pytest
from core_rig import CoreRig
from fake_files import Crash, FakeFiles
from headrace.protocol.metadata.records import FormatRecord, RemoveTopicRecord
from node_rig import WALL_MS, batch, values_of

POWER_LOSSES = ("none", "all", 1, 2)
PARTS = 4


class History:
    """The controller's decisions, and the responses of producers."""

    def __init__(self) -> None:
        self.records: list[Any] = [FormatRecord("c")]
        self.acked: dict[tuple[bytes, int], list[bytes]] = {}
        self.sent: dict[tuple[bytes, int], list[bytes]] = {}
        self.durable: set[bytes] = set()
        self._number = 0

    def follow(self, rig: CoreRig, *records: Any) -> None:
        """The controller's log has the records before the node reads them."""
        self.records += records
        rig.metadata(*records)

    def create(self, rig: CoreRig, name: str, durability: str) -> bytes:
        topic_id, records = rig.topic_records(name, 2, durability=durability, segment_ms="5000")
        if durability == "fsync":
            self.durable.add(topic_id)
        self.follow(rig, *records)
        rig.flush()
        return topic_id

    def delete(self, rig: CoreRig, topic_id: bytes) -> None:
        for partition in (0, 1):
            self.acked.pop((topic_id, partition), None)
        self.follow(rig, RemoveTopicRecord(topic_id))
        rig.purge()

    def produce(self, rig: CoreRig, topic_id: bytes, count: int) -> None:
        for _ in range(count):
            for partition in (0, 1):
                self._number += 1
                value = b"%s-%d-%d" % (topic_id, partition, self._number)
                self.sent.setdefault((topic_id, partition), []).append(value)
                data = batch(value, timestamp_ms=WALL_MS + 2000 * self._number)
                request = rig.produce(topic_id, data, partition=partition)
                rig.flush()
                assert request.first.error_code == 0
                self.acked.setdefault((topic_id, partition), []).append(value)

    def text(self) -> str:
        """Everything in it."""
        return repr((self.records, self.acked, self.sent, self.durable, self._number))

    def check(self, rig: CoreRig, *, power_was_lost: bool) -> None:
        """Check the records that a consumer reads from the next process."""
        for topic in rig.image.topics.values():
            for index in range(len(topic.partitions)):
                key = (topic.topic_id, index)
                found = everything(rig, *key)
                assert found == self.sent.get(key, [])[: len(found)], "changed, or another topic's"
                if not power_was_lost or topic.topic_id in self.durable:
                    acked = self.acked.get(key, [])
                    assert found[: len(acked)] == acked, f"lost of {topic.name}-{index}"


def everything(rig: CoreRig, topic_id: bytes, partition: int) -> list[bytes]:
    rig.flush()
    values: list[bytes] = []
    while True:
        request = rig.fetch(topic_id, len(values), partition=partition)
        rig.read_cold()  # after a start, the indexes of sealed segments are not in memory
        assert request.first.error_code == 0, request.first
        more = values_of(request.answer_frames)
        if not more:
            return values
        assert [offset for offset, _ in more] == list(range(len(values), len(values) + len(more)))
        values += [value or b"" for _, value in more]


def workload(files: FakeFiles, history: History) -> None:
    """Two processes."""
    rig = CoreRig(files, "/d,/e", list(history.records), log_message_timestamp_after_max_ms=2**62)
    safe = history.create(rig, "safe", "fsync")
    fast = history.create(rig, "fast", "async")
    history.produce(rig, safe, 4)
    history.produce(rig, fast, 3)
    rig.manager.checkpoint()
    history.delete(rig, safe)
    again = history.create(rig, "safe", "fsync")
    history.produce(rig, again, 2)
    history.delete(rig, fast)
    history.create(rig, "fast", "async")
    rig.manager.shutdown(broker_epoch=1)
    rig = CoreRig(files, "/d,/e", list(history.records), log_message_timestamp_after_max_ms=2**62)
    history.produce(rig, again, 3)
    rig.core.flush_all()
    rig.check()
    rig.flush()
    rig.manager.checkpoint()
    history.produce(rig, again, 1)


def count_operations() -> int:
    files = FakeFiles()
    workload(files, History())
    return len(files.operations)


OPERATIONS = count_operations()
# (a disk, the history of its node): many crashes leave the same
CHECKED: set[tuple[bytes, str]] = set()


def is_new(files: FakeFiles, history: History) -> bool:
    """Whether no crash of this test has left this disk with this history."""
    place = (files.fingerprint(), history.text())
    if place in CHECKED:
        return False
    CHECKED.add(place)
    return True


@pytest.fixture(autouse=True)
def nothing_checked() -> None:
    CHECKED.clear()


def operations(part: int) -> range:
    """The crash points of a part: neighbours often leave the same disk."""
    return range(OPERATIONS * part // PARTS, OPERATIONS * (part + 1) // PARTS)


def run_until(crash_at: int, tear_bytes: int) -> tuple[FakeFiles, History]:
    files, history = FakeFiles(), History()
    files.crash_at, files.tear_bytes = crash_at, tear_bytes
    with pytest.raises(Crash):
        workload(files, history)
    return files, history


def next_node(files: FakeFiles, history: History) -> CoreRig:
    rig = CoreRig(files, "/d,/e", list(history.records), log_message_timestamp_after_max_ms=2**62)
    assert rig.manager.failed == {}
    assert rig.core.status(rig.now_ms)["offline_partitions"] == 0
    return rig


@pytest.mark.parametrize("part", range(PARTS))
def test_kill_in_every_operation(part: int) -> None:
    """Scenario 25: no acknowledged record is missing, with either durability; also after the node continues
    and is killed again without having written its checkpoints."""
    for crash_at in operations(part):
        files, history = run_until(crash_at, tear_bytes=7)
        files = files.restart()
        if not is_new(files, history):
            continue
        rig = next_node(files, history)
        history.check(rig, power_was_lost=False)
        topics = [topic.topic_id for topic in rig.image.topics.values() if len(topic.partitions) == 2]
        for topic_id in topics:
            for partition in (0, 1):  # an unacknowledged batch may be there, too
                key = (topic_id, partition)
                history.sent[key] = everything(rig, *key)
                history.acked[key] = [*history.sent[key]]
            history.produce(rig, topic_id, 2)
        history.check(next_node(files.restart(), history), power_was_lost=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_power_loss_in_every_operation(part: int) -> None:
    """Scenario 32: records acknowledged with durability=fsync are stored; no wrong record is shown."""
    for crash_at in operations(part):
        files, history = run_until(crash_at, tear_bytes=0)
        for mode in POWER_LOSSES:
            left = files.power_loss(mode)
            if is_new(left, history):
                history.check(next_node(left, history), power_was_lost=True)


def test_only_existing_partitions_have_folders() -> None:
    """After the workload and a purge there are folders of existing topics only."""
    files, history = FakeFiles(), History()
    workload(files, history)
    rig = next_node(files.restart(), history)
    for purge in rig.manager.loader.purge_tasks():
        purge()
    folders = [
        name
        for path in ("/d", "/e")
        for name in rig.files.listdir(path)
        if rig.files.is_directory(f"{path}/{name}")
    ]
    assert sorted(folders) == ["fast-0", "fast-1", "safe-0", "safe-1"]
