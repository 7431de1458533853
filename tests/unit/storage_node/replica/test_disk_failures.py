"""Full and failed disks under the partitions of a node."""

import errno

import pytest
from core_rig import CoreRig
from headrace.protocol.errors import KafkaStorageError
from headrace.storage_node.effects import SendHeartbeat
from headrace.storage_node.replica.disk_failures import DiskReport
from node_rig import WALL_MS, batch, values_of
from replica_rig import Replicas


def folders(rig: CoreRig, path: str = "/d") -> list[str]:
    return [name for name in rig.files.listdir(path) if rig.files.is_directory(f"{path}/{name}")]


def fill(rig: CoreRig, room: int = 0) -> None:
    rig.files.capacity_bytes = rig.files.used_bytes() + room


def make_room(rig: CoreRig) -> None:
    rig.files.capacity_bytes = None
    rig.tick()
    rig.check()


def test_full_disk_refuses_appends_and_serves_fetches(rig: CoreRig) -> None:
    """No log dir goes offline and no batch is torn; heartbeats report the full disk, and later that it has
    space."""
    topic_id = rig.topic("t")
    rig.produce(topic_id, batch(b"a"))
    fill(rig, 20)
    for _ in range(2):
        answer = rig.produce(topic_id, batch(b"b")).first
        assert answer.error_code == KafkaStorageError.code
    assert "the disk of /d is full: 0 bytes free" in answer.error_detail
    assert rig.values(topic_id) == [b"a"]
    news = rig.core.replicas.disks.report()
    assert (news.offline, news.full) == ((), ((topic_id, 0),))
    assert len(rig.pop(SendHeartbeat)) == 1
    assert rig.notes().count("no records are appended there until there is free space") == 1
    make_room(rig)
    assert len(rig.pop(SendHeartbeat)) == 1
    assert rig.core.replicas.disks.report().full == ()
    assert rig.produce(topic_id, batch(b"b")).first.base_offset == 1
    assert rig.values(topic_id) == [b"a", b"b"]
    assert not rig.ended()


def test_full_disk_concerns_only_its_partitions() -> None:
    """New partitions go to the other log dir."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t", partitions=2)
    rig.files.fail("pwrite", "/a/t-", errno.ENOSPC)
    codes = [rig.produce(topic_id, partition=partition).first.error_code for partition in range(2)]
    assert sorted(codes) == [0, KafkaStorageError.code]
    rig.topic("u", partitions=3)
    assert (len(folders(rig, "/a")), len(folders(rig, "/b"))) == (1, 4)


@pytest.mark.parametrize("operation", ["mkdir", "create", "pwrite", "rename"])
def test_partition_is_created_when_the_disk_has_space(rig: CoreRig, operation: str) -> None:
    """Until then it is offline, and reported as such."""
    rig.files.fail(operation, "/d/t-0", errno.ENOSPC)
    rig.files.fail(operation, "/d/t-0", errno.ENOSPC, 1)
    topic_id = rig.topic("t")
    assert rig.produce(topic_id).first.error_code == KafkaStorageError.code
    assert rig.core.replicas.disks.report().offline == ((topic_id, 0),)
    make_room(rig)
    rig.files.clear_faults()
    make_room(rig)
    assert rig.produce(topic_id).first.error_code == 0
    assert rig.core.replicas.disks.report() == DiskReport()
    assert CoreRig(rig.files.restart(), records=rig.records).produce(topic_id).first.base_offset == 1


def test_recovery_on_a_full_disk_is_repeated_when_it_has_space(rig: CoreRig) -> None:
    """The partition is offline until then; no restart is needed."""
    topic_id = rig.topic("t", segment_ms="5000")
    for number in range(3):
        rig.produce(topic_id, batch(b"%d" % number, timestamp_ms=WALL_MS + 10_000 * number))
    files = rig.files.restart()
    files.fail("pwrite", "/d/t-0", errno.ENOSPC)
    after = CoreRig(files, records=rig.records)
    assert after.fetch(topic_id).first.error_code == KafkaStorageError.code
    assert after.core.replicas.disks.report().offline == ((topic_id, 0),)
    make_room(after)
    assert after.core.replicas.disks.report() == DiskReport()
    found = after.fetch(topic_id, 1)
    after.read_cold()
    assert values_of(found.answer_frames)[0] == (1, b"1")
    assert after.produce(topic_id).first.base_offset == 3


def test_flush_is_repeated_after_a_full_disk(rig: CoreRig) -> None:
    """durability=fsync: the records are flushed but their epoch is not written; no acknowledgement."""
    topic_id = rig.topic("t", durability="fsync")
    rig.files.fail("pwrite", "leader-epoch-checkpoint", errno.ENOSPC)
    request = rig.produce(topic_id, batch(b"a"))
    rig.flush()
    assert not request.is_answered
    assert not rig.flush(), "no second try before there is room"
    make_room(rig)
    rig.flush()
    assert request.first.error_code == 0


def test_topic_can_be_deleted_on_a_full_disk() -> None:
    """This is how operators free space."""
    rig = CoreRig(log_dir_reserve_bytes=2_000)
    topic_id, other = rig.topic("t"), rig.topic("u")
    for _ in range(20):
        rig.produce(topic_id, batch(b"a" * 100))
    fill(rig)
    assert rig.produce(other).first.error_code == KafkaStorageError.code
    rig.remove(topic_id)
    rig.purge()
    assert folders(rig) == ["u-0"]
    rig.tick()
    rig.check()
    assert rig.produce(other).first.error_code == 0


def test_follower_on_a_full_disk_retries_and_catches_up() -> None:
    """Its log stays as it was until there is space."""
    cluster = Replicas()
    cluster.write(b"a")
    full = cluster.nodes[2]
    full.files.capacity_bytes = full.files.used_bytes() + 30
    cluster.produce(b"b", timeout_ms=60_000)
    cluster.pass_time(3_000)
    assert cluster.end(2) == 1
    assert "no records are appended there until there is free space" in full.notes()
    assert cluster.partition(2).is_online
    full.files.capacity_bytes = None
    full.tick()
    cluster.pass_time(3_000)
    assert cluster.end(2) == 2
    assert cluster.values(2) == [b"a", b"b"]


def test_full_follower_outside_the_isr_does_not_delay_producers() -> None:
    """It was caught up when its disk ran full, and is refused by the controller again and again."""
    cluster = Replicas(min_isr=2, node={"replica_lag_time_max_ms": 60_000})
    cluster.write(b"a")
    full = cluster.nodes[3]
    full.files.capacity_bytes = full.files.used_bytes() + 30
    cluster.full.add(3)
    cluster.change(isr=(1, 2))
    for number in range(5):
        request = cluster.produce(b"%d" % number, timeout_ms=60_000)
        cluster.pass_time(400)
        assert request.is_answered, f"record {number} waits for a node whose disk is full"
        assert request.first.error_code == 0
    full.files.capacity_bytes = None
    cluster.full.clear()
    cluster.pass_time(5_000)
    assert cluster.registration.isr == (1, 2, 3)


# --- bad disks ------------------------------------------------------------------------------------------


def test_later_errors_of_a_failed_disk_are_ignored() -> None:
    """Scenario 28: after the first error the log dir is offline: no acknowledgement, read or retry; the
    controller gets the report at once, and the other dir stays online."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t", partitions=2, durability="fsync")
    requests = [rig.produce(topic_id, batch(b"v"), partition=partition) for partition in (0, 1)]
    rig.files.fail("fdatasync", "/a/t-", errno.EIO)
    rig.files.fail("pwrite", "/a/", errno.ENOSPC)
    rig.files.fail("pread", "/a/", errno.EIO)
    rig.flush()
    codes = sorted(request.first.error_code for request in requests)
    assert codes == [0, KafkaStorageError.code]
    bad = next(n for n, request in enumerate(requests) if request.first.error_code)
    assert len(rig.pop(SendHeartbeat)) == 1
    assert rig.core.replicas.disks.report().offline == ((topic_id, bad),)
    done = list(rig.files.operations)
    assert rig.produce(topic_id, partition=bad).first.error_code == KafkaStorageError.code
    assert rig.fetch(topic_id, partition=bad).first.error_code == KafkaStorageError.code
    rig.core.tick(rig.now_ms + 5_000, 0)
    rig.core.flush_all()
    rig.check()
    rig.flush()
    assert [each for each in rig.files.operations[len(done) :] if "/a/" in each] == []
    good = rig.produce(topic_id, partition=1 - bad)
    rig.flush()
    assert good.first.base_offset == 1
    assert not rig.ended()


def test_follower_rejects_corrupt_batches_of_the_leader() -> None:
    """Scenario 27, each byte of a stored batch header: no follower appends it, no consumer gets it, and
    acknowledged records stay on the replicas that have them."""
    for byte in range(61):
        check_corrupt_byte(byte)


def check_corrupt_byte(byte: int) -> None:
    cluster = Replicas(nodes=2, min_isr=2, node={"log_tail_cache_bytes": 0})
    cluster.write(b"a")
    cluster.isolate(2)
    cluster.produce(b"b", acks=1)
    leader = cluster.nodes[1]
    log = leader.core.table.partitions[cluster.partition(1).key].log
    assert log is not None
    path = f"{log.folder.path}/{0:020d}.log"
    leader.files.flip_bit(path, log.size_bytes // 2 + byte, 1)
    cluster.heal()
    cluster.pass_time(2_000)
    held = cluster.values(2)
    assert held in ([b"a"], [b"a", b"b"]), byte
    if len(held) == 2:
        assert byte in range(12, 16), "only the leader epoch has no check of its own"


def test_restart_uses_a_repaired_log_dir() -> None:
    """Its partition had left the ISR; nothing is reported offline any more."""
    rig = CoreRig(dirs="/a,/b")
    topic_id = rig.topic("t", partitions=2)
    for partition in (0, 1):
        rig.produce(topic_id, batch(b"v"), partition=partition)
    rig.files.fail("pwrite", "/a/t-", errno.EIO)
    for partition in (0, 1):
        rig.produce(topic_id, partition=partition)
    assert len(rig.core.replicas.disks.report().offline) == 1
    again = CoreRig(rig.files.restart(), "/a,/b", rig.records)
    assert again.core.replicas.disks.report() == DiskReport()
    assert [again.values(topic_id, partition)[0] for partition in (0, 1)] == [b"v", b"v"]
