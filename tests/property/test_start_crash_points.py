"""Kill and power loss in each operation while a log start offset advances. The workload deletes records,
applies retention, restarts a log inside a leader's batch, and removes files, in two processes. A journal has
the log start offsets that readers saw. After each fault the log starts no earlier than they saw and no later
than requested, and no record above is missing."""

import pytest
from fake_files import Crash, FakeFiles
from headrace.storage_node.log import names
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.log_manager import LogManager
from log_rig import NOW, TP, append, batch, keys_of, manager_of, read_all, split

TOPIC_ID = bytes(range(16))
POWER_LOSSES = ("none", "all", 1, 2, 3)
PARTS = 4
KEYS = {"file_delete_delay_ms": 0, "retention_ms": 1_000}


class Journal:
    """The log start offset that readers saw, the requested one, and the end of records."""

    def __init__(self) -> None:
        self.seen_start = self.wanted_start = 0
        self.written_end = self.flushed_end = 0
        self.is_cutting = False
        self.has_recovery_points = False  # without them recovery reads all segments, and none may be missing

    def append(self, log: Log, count: int = 1) -> None:
        data = batch(
            count, tag=str(log.log_end_offset), size=150 // count, timestamp=NOW + log.log_end_offset
        )
        append(log, data)
        self.written_end = log.log_end_offset

    def flush(self, log: Log) -> None:
        log.flush()
        self.flushed_end = self.written_end

    def move_start(self, manager: LogManager, offset: int) -> None:
        """Advance the log start offset like a node: request, checkpoint, publish."""
        self.wanted_start = offset
        manager.logs[TP].request_start_offset(offset)
        self.write(manager)

    def write(self, manager: LogManager) -> None:
        log = manager.logs[TP]
        self.wanted_start = log.start.pending_offset
        for task in manager.checkpoints.tasks(only_starts=True):
            task.run()
            for moved, start in task.pending_starts:
                moved.advance_log_start_offset(start)
        self.seen_start = log.log_start_offset

    def free(self, manager: LogManager) -> None:
        """Rename the segments below the log start, and delete their files."""
        log = manager.logs[TP]
        while log.drop_segments_below(log.log_start_offset, 2):
            if self.has_recovery_points:
                manager.checkpoint()
            self.flush(log)
        for removal in manager.retired.due(0):
            removal.run()

    def expire(self, manager: LogManager, wall_ms: int) -> None:
        log = manager.logs[TP]
        log.high_watermark = log.log_end_offset
        self.wanted_start = log.log_end_offset
        log.expire(wall_ms)
        self.write(manager)


def workload(files: FakeFiles, journal: Journal) -> None:
    """Two processes; one or two batches per segment."""
    manager = manager_of(files, **KEYS)
    log = manager.create(TP, TOPIC_ID, manager.defaults, is_new=True)
    for _ in range(6):
        journal.append(log)
    journal.flush(log)
    journal.move_start(manager, 3)
    journal.free(manager)
    journal.append(log)
    manager.checkpoint()
    journal.has_recovery_points = True
    journal.expire(manager, NOW + 1_005)
    journal.free(manager)
    for _ in range(3):
        journal.append(log)
    journal.expire(manager, NOW + 10_000)
    journal.free(manager)
    manager.shutdown(broker_epoch=1)
    manager = manager_of(files, **KEYS)
    log = manager.create(TP, TOPIC_ID, manager.defaults)
    journal.append(log, 2)
    journal.flush(log)
    journal.move_start(manager, log.log_end_offset - 1)
    journal.free(manager)
    manager.checkpoint()
    follow_from_the_middle(manager, journal)
    journal.append(log)
    journal.flush(log)
    manager.checkpoint()
    journal.move_start(manager, log.log_end_offset)
    journal.free(manager)
    manager.abandon()


def follow_from_the_middle(manager: LogManager, journal: Journal) -> None:
    """The follower's log restarts at the leader's log start offset: record 21, the second of its batch."""
    log = manager.logs[TP]
    log.high_watermark = journal.wanted_start = 21
    journal.is_cutting = True
    log.truncate_fully_and_start_at(21)
    journal.seen_start = journal.written_end = journal.flushed_end = 21
    journal.is_cutting = False
    leader = leaders_batch()
    assert log.start.is_inside(leader, log.log_end_offset)
    log.truncate_fully_and_start_at(20, log.log_start_offset)
    log.append_as_follower(leader)
    journal.written_end = log.log_end_offset


def leaders_batch() -> bytes:
    """Three records from offset 20 on."""
    files = FakeFiles()
    manager = manager_of(files)
    log = manager.create(TP, TOPIC_ID, manager.defaults, is_new=True)
    log.truncate_fully_and_start_at(20)
    append(log, batch(3, tag="20", size=20))
    (data,) = read_all(log)
    return data


def check(files: FakeFiles, journal: Journal, least_end: int) -> None:
    """The next process continues, is killed, and the one after it has the same state."""
    for is_again in (False, True):
        manager = manager_of(files, **KEYS)
        log = manager.create(TP, TOPIC_ID, manager.defaults)
        start, end = log.log_start_offset, log.log_end_offset
        if not is_again:
            least = 0 if journal.is_cutting else journal.seen_start
            assert least <= start <= journal.wanted_start
            assert end >= (0 if journal.is_cutting else least_end)
        assert not [name for name in files.listdir("/d/t-0") if name.endswith(names.DELETED)]
        offsets = [offset for offset, _ in keys_of(read_all(log)) if offset >= start]
        assert offsets == list(range(start, end))
        if not is_again:
            append(log, batch(tag="more"))
            before = (start, end + 1)
        else:
            assert (start, end) == before
        manager.abandon()
        files = files.restart()


def crashed(crash_at: int) -> tuple[FakeFiles, Journal]:
    files, journal = FakeFiles(), Journal()
    files.mkdir("/d")
    files.fsync_directory("/")
    files.operations.clear()
    files.crash_at, files.tear_bytes = crash_at, 50
    with pytest.raises(Crash):
        workload(files, journal)
    return files, journal


def count_operations() -> int:
    files = FakeFiles()
    files.mkdir("/d")
    files.operations.clear()
    workload(files, Journal())
    return len(files.operations)


OPERATIONS = count_operations()


@pytest.mark.parametrize("part", range(PARTS))
def test_fault_at_any_operation(part: int) -> None:
    """A kill loses no written record and restores no deleted one; a power loss no flushed one."""
    checked: set[tuple[bytes, str, int]] = set()  # many crashes leave the same disk with the same journal
    for crash_at in range(OPERATIONS * part // PARTS, OPERATIONS * (part + 1) // PARTS):
        files, journal = crashed(crash_at)
        left = [(files.restart(), journal.written_end)]
        left += [(files.power_loss(mode), journal.flushed_end) for mode in POWER_LOSSES]
        for survivors, least_end in left:
            place = (survivors.fingerprint(), repr(vars(journal)), least_end)
            if place not in checked:
                checked.add(place)
                check(survivors, journal, least_end)


def test_workload_reaches_every_operation() -> None:
    """A crash point that is never reached proves nothing."""
    files = FakeFiles()
    files.mkdir("/d")
    journal = Journal()
    workload(files, journal)
    assert journal.seen_start == journal.written_end == 24
    done = "\n".join(files.operations)
    for operation in ("rename /d/log-start", "rename /d/t-0/00000000000000000000.log", "remove /d/t-0/"):
        assert operation in done, operation
    assert len(split(leaders_batch())) == 1
