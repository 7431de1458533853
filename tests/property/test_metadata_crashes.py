"""A controller dies in each operation on its disk: no answered decision is lost."""

import errno

import pytest
from fake_files import Crash, FakeFiles
from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import FormatRecord, RemoveTopicRecord
from headrace.protocol.metadata.replay import replay
from metadata_rig import NOW, Voter, topic

SEGMENT_BYTES = 300


class Life:
    """One controller from its first start to its end; `answered`: the newest image that must survive."""

    def __init__(self, files: FakeFiles) -> None:
        self.files = files
        self.history: list[MetadataImage] = [MetadataImage()]
        self.answered = 0  # index into history: this image and all before it were answered
        self.epoch = 0

    def run(self) -> None:
        """Two starts with groups of decisions, snapshots and checkpoints. Raises Crash where it dies."""
        self._start([[FormatRecord("c")], topic(0), topic(1)], snapshot_after=(1,))
        self._start([topic(2), [RemoveTopicRecord((0).to_bytes(16, "big"))], topic(3), topic(4)], (0, 3))

    def _start(self, decisions, snapshot_after) -> None:
        voter = Voter(self.files, SEGMENT_BYTES)
        self.epoch = voter.epoch
        for index, records in enumerate(decisions):
            # Noted before its write begins: a crash may leave it on the disk as a whole.
            self.history.append(replay(voter.image, voter.image.offset + 1, records)[0])
            voter.decide(*records)
            if index % 2:
                continue  # two decisions share a flush
            voter.flush()
            self.answered = len(self.history) - 1
            if index in snapshot_after or index + 1 in snapshot_after:
                voter.log.write_snapshot(voter.image, NOW)
            voter.log.checkpoint()
        voter.log.close()
        self.answered = len(self.history) - 1


def _operations() -> list[str]:
    files = FakeFiles()
    Life(files).run()
    return files.operations


OPERATIONS = _operations()


def _points() -> list[tuple[int, int]]:
    """Each operation; each write also half done, and done without a return."""
    points = [(number, 0) for number in range(len(OPERATIONS))]
    writes = [number for number, operation in enumerate(OPERATIONS) if operation.startswith("pwrite")]
    return points + [(number, torn) for number in writes for torn in (40, 1 << 20)]


@pytest.mark.parametrize("number", range(0, len(OPERATIONS), 10))
def test_answered_decisions_survive_a_crash(number) -> None:
    """Scenario 25: the process is killed, or the machine loses power, in one operation; ten operations per
    test. The next process has every answered decision, no decision in part, and no others; it continues in a
    higher epoch."""
    for crash_at, tear_bytes in _points():
        if not number <= crash_at < number + 10:
            continue
        life = _life_until(crash_at, tear_bytes)
        possible = life.history[life.answered :]
        for files in (life.files.restart(), *map(life.files.power_loss, ("none", "all", crash_at))):
            voter = Voter(files, SEGMENT_BYTES)
            assert voter.image in possible, f"crash at {crash_at} {OPERATIONS[crash_at]} torn at {tear_bytes}"
            assert voter.epoch > life.epoch or voter.image == MetadataImage()
            _goes_on(voter, files)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["bad", "full"])
def test_a_disk_error_ends_the_process(error: int) -> None:
    """Scenarios 28 and 29 for a metadata log: a full disk is an error like any other, since a controller that
    cannot write must not decide. No answered decision is lost, and the next process continues when the disk
    works."""
    for number, operation in enumerate(OPERATIONS):
        files = FakeFiles()
        files.error_at = (number, error)
        life = Life(files)
        with pytest.raises(KafkaStorageError):
            life.run()
        possible = life.history[life.answered :]
        for after in (files.restart(), files.power_loss("none"), files.power_loss(number)):
            voter = Voter(after, SEGMENT_BYTES)
            assert voter.image in possible, f"error in {number} {operation}"
            _goes_on(voter, after)


def _life_until(crash_at: int, tear_bytes: int) -> Life:
    files = FakeFiles()
    files.crash_at, files.tear_bytes = crash_at, tear_bytes
    life = Life(files)
    with pytest.raises(Crash):
        life.run()
    return life


def _goes_on(voter: Voter, files: FakeFiles) -> None:
    """One more decision and a clean shutdown: it survives a power loss."""
    if not voter.image.cluster_id:
        voter.decide(FormatRecord("c"))
    voter.decide(*topic(99))
    voter.flush()
    again = Voter(files.power_loss("none"), SEGMENT_BYTES)
    assert again.image == voter.image
    assert again.epoch > voter.epoch


def test_crash_during_recovery() -> None:
    """Scenario 30: a crash with half a decision written, and another in each operation of the recovery."""
    write = max(
        n for n, operation in enumerate(OPERATIONS) if operation.startswith("pwrite") and ".log" in operation
    )
    life = _life_until(write, 40)
    probe = life.files.restart()
    Voter(probe, SEGMENT_BYTES)
    for crash_at in range(len(probe.operations)):
        files = life.files.restart()
        files.crash_at = crash_at
        with pytest.raises(Crash):
            Voter(files, SEGMENT_BYTES)
        for mode in ("none", "all", crash_at):
            assert Voter(files.power_loss(mode), SEGMENT_BYTES).image in life.history[life.answered :]
