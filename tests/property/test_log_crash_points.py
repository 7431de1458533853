"""Death and power loss at every operation of the file layer, those of recovery included. The workload goes
through two lives of a log manager: create, append, roll, flush, checkpoint, leader epoch, truncation, clean
shutdown, restart. A journal has the acknowledged batches. After each fault the log must have exactly these
(and at most the one batch in flight), byte for byte, and continue to work."""

import pytest
from fake_files import Crash, FakeFiles
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.log_manager import LogManager
from log_rig import NOW, TP, append, batch, check_dense, config

TOPIC_ID = bytes(range(16))
POWER_LOSSES = ("none", "all", 1, 2)
TEARS = (0, 1, 90, 10**6)
PARTS = 4
RECOVERED: dict[bytes, list[bytes]] = {}


class Journal:
    """The results of the workload: acknowledged batches, and how many of them are flushed."""

    def __init__(self) -> None:
        self.acked: list[bytes] = []
        self.under_way: bytes | None = None
        self.flushed_count = 0
        self.kept_count: int | None = None  # during a truncation: the number of batches that it keeps

    def append(self, log: Log, tag: str, *, epoch: int, count: int = 2) -> None:
        self.under_way = batch(count, tag=tag, size=40, timestamp=NOW + len(self.acked))
        append(log, self.under_way, epoch=epoch)
        self.acked.append(self.under_way)
        self.under_way = None

    def flush(self, log: Log) -> None:
        log.flush()
        self.flushed_count = len(self.acked)

    def truncate(self, log: Log, count: int) -> None:
        self.kept_count = count
        self.flushed_count = min(self.flushed_count, count)
        log.truncate_to(2 * count)
        del self.acked[count:]
        self.kept_count = None

    def check_killed(self, found: list[bytes]) -> None:
        """After a kill no written batch may be missing."""
        least = len(self.acked) if self.kept_count is None else self.kept_count
        self._check(found, least)

    def check_power_lost(self, found: list[bytes]) -> None:
        """After a power loss no flushed batch may be missing."""
        self._check(found, self.flushed_count)

    def _check(self, found: list[bytes], least: int) -> None:
        possible = [*self.acked, *([self.under_way] if self.under_way else [])]
        bodies = [data[17:] for data in found]
        assert bodies == [data[17:] for data in possible[: len(found)]], "a batch changed, or was never sent"
        assert least <= len(found) <= len(possible), f"{len(found)} batches, at least {least} were expected"


def start(files: FakeFiles) -> LogManager:
    """A node's start: lock, read, recover."""
    ids = iter(bytes([number]) * 16 for number in range(1, 200))
    keys = {"segment_bytes": 700, "index_interval_bytes": 100}
    manager = LogManager(files, ["/d"], defaults=config(**keys), new_uuid=lambda: next(ids))
    manager.open_dirs()
    manager.dirs.set_identity("cluster", 1)
    manager.load(NOW)
    return manager


def get(manager: LogManager) -> Log:
    """The partition's log, created if it does not exist, as a node does by its metadata."""
    log = manager.create(TP, TOPIC_ID, manager.defaults, wall_ms=NOW)
    assert log.topic_id == TOPIC_ID
    return log


def workload(files: FakeFiles, journal: Journal) -> None:
    """Two processes; 2 records per batch, about 4 batches per segment."""
    manager = start(files)
    log = get(manager)
    journal.append(log, "a0", epoch=0)
    journal.flush(log)
    for number in range(1, 7):
        journal.append(log, f"a{number}", epoch=0)
    manager.checkpoint()
    log.roll(NOW)
    journal.append(log, "b0", epoch=0)
    journal.flush(log)
    manager.checkpoint()
    log.assign_leader_epoch(3)
    for number in range(14):
        journal.append(log, f"c{number:x}", epoch=3)
    log.roll(NOW)
    journal.append(log, "d0", epoch=3)
    log.high_watermark = log.log_end_offset
    journal.flush(log)
    manager.checkpoint()
    journal.truncate(log, 10)
    for number in range(14):
        journal.append(log, f"e{number:x}", epoch=4)
    manager.shutdown(broker_epoch=7)
    journal.flushed_count = len(journal.acked)
    manager = start(files)
    log = get(manager)
    for number in range(4):
        journal.append(log, f"f{number}", epoch=5)
    journal.flush(log)
    journal.append(log, "g0", epoch=5)
    manager.checkpoint()
    manager.abandon()


def empty_disk() -> FakeFiles:
    files = FakeFiles()
    files.mkdir("/d")
    files.fsync_directory("/")
    files.operations.clear()
    return files


def crashed(crash_at: int, tear_bytes: int) -> tuple[FakeFiles, Journal] | None:
    """The disk and the journal after the workload died in that operation; None if it has fewer."""
    files, journal = empty_disk(), Journal()
    files.crash_at, files.tear_bytes = crash_at, tear_bytes
    try:
        workload(files, journal)
    except Crash:
        return files, journal
    return None


def recovered(files: FakeFiles) -> list[bytes]:
    """The batches after a restart, computed once for equal disks: many crashes leave the same one."""
    disk = files.fingerprint()
    if disk not in RECOVERED:
        RECOVERED[disk] = recover(files)
    return RECOVERED[disk]


def recover(files: FakeFiles) -> list[bytes]:
    """The batches after a restart. The node must also be able to append, be killed, be stopped, and have the
    same batches again.

    The batch appended after the recovery has the size of those in the workload: a remaining end of a
    truncated log would follow it in the file without a gap.
    """
    manager = start(files)
    log = get(manager)
    found = check_dense(log)
    epochs = [int.from_bytes(data[12:16], "big") for data in found]
    assert epochs == sorted(epochs)
    assert log.epochs.latest_epoch >= max(epochs, default=-1)
    append(log, batch(2, tag="h0", size=40), epoch=max(log.epochs.latest_epoch, 0))
    files = files.restart()
    manager = start(files)
    log = get(manager)
    after_kill = check_dense(log)
    assert after_kill[:-1] == found, "the batch after the recovery is the last one"
    manager.shutdown(broker_epoch=8)
    manager = start(files)
    log = get(manager)
    assert check_dense(log) == after_kill
    assert log.recovery.faults == []
    manager.abandon()
    return found


def count_operations() -> int:
    files = empty_disk()
    workload(files, Journal())
    return len(files.operations)


OPERATIONS = count_operations()


@pytest.mark.parametrize("part", range(PARTS))
def test_fault_at_any_operation_loses_nothing(part: int) -> None:
    """Scenario 25: kill -9 in each operation, writes torn at different lengths: all acknowledged batches are
    there. Scenario 32: so are all flushed ones after a power loss, whatever unsynced sectors survive."""
    for crash_at in range(OPERATIONS * part // PARTS, OPERATIONS * (part + 1) // PARTS):
        for tear_bytes in TEARS:
            state = crashed(crash_at, tear_bytes)
            assert state is not None
            files, journal = state
            journal.check_killed(recovered(files.restart()))
            for mode in POWER_LOSSES if tear_bytes in (0, 10**6) else ():
                journal.check_power_lost(recovered(files.power_loss(mode)))
            if not files.operations[crash_at].startswith("pwrite"):
                break  # only writes can be torn


@pytest.mark.parametrize("part", range(3))
def test_crash_during_recovery_loses_nothing(part: int) -> None:
    """Scenario 30: a crash, a second one in each operation of the recovery, then a power loss. A
    clean-shutdown marker or a recovery point that survives the first crash would show here."""
    for crash_at in range(part * 7, OPERATIONS, 21):
        state = crashed(crash_at, 50)
        assert state is not None
        files, journal = state
        for second in range(10**6):
            again = files.restart()
            again.crash_at = second
            try:
                start(again)
            except Crash:
                journal.check_killed(recovered(again.restart()))
                journal.check_power_lost(recovered(again.power_loss(second)))
            else:
                break


def test_workload_reaches_every_operation() -> None:
    """A crash point that is never reached proves nothing."""
    files = empty_disk()
    workload(files, Journal())
    kinds = {operation.split()[0] for operation in files.operations}
    assert kinds >= {
        "pwrite",
        "create",
        "truncate",
        "fdatasync",
        "fsync_directory",
        "rename",
        "remove",
        "mkdir",
    }
    for name in (
        ".log",
        ".index",
        ".timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "meta.properties",
    ):
        assert any(name in operation for operation in files.operations), name
