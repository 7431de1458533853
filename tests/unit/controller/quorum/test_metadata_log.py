"""The metadata log on a healthy, full, failing or damaged disk; crash points are in tests/property."""

import errno

import pytest
from fake_files import FakeFiles
from headrace.controller.quorum.election_state import FILE_NAME as QUORUM_STATE
from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import FormatRecord, NoOpRecord
from headrace.storage_node.log import names
from metadata_rig import DIRECTORY, NOW, Voter, a_config, topic


def written(count: int = 5, **facts) -> tuple[FakeFiles, MetadataImage]:
    """A disk with `count` durable decisions, and their image."""
    files = FakeFiles()
    voter = Voter(files, **facts)
    voter.decide(FormatRecord("c"))
    for number in range(count - 1):
        voter.decide(*topic(number))
    voter.flush()
    voter.log.close()
    return files, voter.image


def test_restart_recovers_every_decision() -> None:
    """Image and end offset are the same, and the epoch is a new one."""
    files, image = written()
    voter = Voter(files)
    assert voter.image == image
    assert voter.log.end_offset == image.offset + 1
    assert voter.epoch == 2
    assert Voter(files.restart()).epoch == 3


def test_decision_is_one_batch_with_the_controller_epoch() -> None:
    """In an ordinary log, which can be dumped and read like any other."""
    from headrace.protocol.records.header import read_batch_header
    from log_rig import check_dense, open_log

    files, _ = written(3)
    headers = [read_batch_header(batch) for batch in check_dense(open_log(files, DIRECTORY))]
    assert [(h.base_offset, h.record_count, h.leader_epoch) for h in headers] == [
        (0, 1, 1),
        (1, 2, 1),
        (3, 2, 1),
    ]


def test_empty_disk_gives_an_empty_image() -> None:
    """The first start of a controller."""
    voter = Voter(FakeFiles())
    assert voter.image == MetadataImage()
    assert (voter.epoch, voter.log.end_offset) == (1, 0)


@pytest.mark.parametrize("rotten", [b"rot", None])
def test_lost_vote_is_rejected_with_the_remedy(rotten: bytes | None) -> None:
    """quorum-state is damaged or missing: the log has the epochs, but not the vote in the last one."""
    files, _ = written()
    path = f"{DIRECTORY}/{QUORUM_STATE}"
    files.remove(path)
    if rotten:
        files.put(path, rotten)
    with pytest.raises(KafkaStorageError, match=r"empty /metadata and start with .*auto.join.*log dump"):
        Voter(files)
    # What the message says for a controller that is the only one.
    files = files.restart()
    files.put(path, b'{"clusterId":"","leaderId":-1,"leaderEpoch":7}')
    assert Voter(files).epoch == 8


def test_snapshots_advance_the_log_start_and_two_are_kept(files: FakeFiles) -> None:
    """Small segments and a snapshot after every ten decisions: older segments and snapshots are deleted."""
    voter = Voter(files, segment_bytes=300)
    voter.decide(FormatRecord("c"))
    for number in range(40):
        voter.decide(*topic(number))
        if number % 10 == 9:
            voter.flush()
            voter.log.write_snapshot(voter.image, NOW)
            assert voter.log.bytes_since_snapshot == 0
    checkpoints = [name for name in files.listdir(DIRECTORY) if name.endswith(".checkpoint")]
    assert len(checkpoints) == 2
    older = voter.log.snapshots.ids[-1].end_offset
    assert 0 < voter.log.start_offset <= older, "the log reaches back to the older snapshot"
    again = Voter(files.restart(), segment_bytes=300)
    assert again.image == voter.image
    assert [s.end_offset for s in again.log.snapshots.ids] == [s.end_offset for s in voter.log.snapshots.ids]


@pytest.mark.parametrize("count", [1, 2])
def test_damaged_snapshot_falls_back_to_the_previous_one(files: FakeFiles, count) -> None:
    """Together with the log it gives the same image. If both are damaged and the log before them is deleted,
    the start fails."""
    voter = Voter(files, segment_bytes=300)
    voter.decide(FormatRecord("c"))
    for number in range(30):
        voter.decide(*topic(number))
        if number in (9, 19):
            voter.flush()
            voter.log.write_snapshot(voter.image, NOW)
    voter.log.close()
    for snapshot in voter.log.snapshots.ids[:count]:
        files.flip_bit(f"{DIRECTORY}/{snapshot.file_name}", 150, 3)
    if count == 1:
        again = Voter(files, segment_bytes=300)
        assert again.image == voter.image
        assert len(again.log.snapshots.damaged) == 1
        assert len(again.log.snapshots.ids) == 1
    else:
        with pytest.raises(KafkaStorageError, match="neither in a valid"):
            Voter(files, segment_bytes=300)


def test_damaged_log_is_rejected() -> None:
    """A bit flips in a durable decision that no snapshot has: later decisions may be missing."""
    files, image = written(5)
    files.flip_bit(f"{DIRECTORY}/{names.segment_name(0, names.LOG)}", 150, 0)
    with pytest.raises(KafkaStorageError, match=f"up to offset {image.offset + 1} was durable"):
        Voter(files)


def test_damaged_log_continues_after_its_snapshot(files: FakeFiles) -> None:
    """The snapshot has all decisions: nothing is lost."""
    voter = Voter(files)
    voter.decide(FormatRecord("c"))
    voter.decide(*topic(1))
    voter.flush()
    voter.log.write_snapshot(voter.image, NOW)
    voter.log.close()
    files.flip_bit(f"{DIRECTORY}/{names.segment_name(0, names.LOG)}", 100, 0)
    again = Voter(files)
    assert again.image == voter.image
    again.decide(*topic(2))
    again.flush()
    again.log.close()
    assert Voter(files.restart()).image == again.image


@pytest.mark.parametrize(("operation", "part"), [("pwrite", ".log"), ("fdatasync", ".log")])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_writes_after_a_disk_failure_raise(files: FakeFiles, operation, part, error) -> None:
    """The disk fails once: this write and all later ones raise. A restart recovers the records flushed
    before."""
    voter = Voter(files)
    voter.decide(FormatRecord("c"))
    voter.flush()
    before = voter.image
    files.fail(operation, part, error)

    def decide_and_flush() -> None:
        voter.decide(NoOpRecord())
        voter.flush()

    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            decide_and_flush()
    voter.log.close()
    assert Voter(files.power_loss("none")).image == before


def test_full_disk_fails_a_snapshot_and_spares_the_log(files: FakeFiles) -> None:
    """The next process recovers every decision, and no partial snapshot."""
    voter = Voter(files)
    voter.decide(FormatRecord("c"))
    voter.flush()
    files.capacity_bytes = files.used_bytes() + 10
    with pytest.raises(KafkaStorageError):
        voter.log.write_snapshot(voter.image, NOW)
    after = files.restart()
    after.capacity_bytes = None
    again = Voter(after)
    assert again.image == voter.image
    assert not again.log.snapshots.ids


def test_checkpoint_is_written_only_after_a_change() -> None:
    """An idle controller does not write to the disk."""
    files, _ = written()
    voter = Voter(files)
    voter.log.checkpoint()
    count = len(files.operations)
    voter.log.checkpoint()
    assert len(files.operations) == count


def test_damaged_checkpoint_is_ignored() -> None:
    """The log is recovered as without a checkpoint."""
    files, image = written()
    files.put(f"{DIRECTORY}/{names.RECOVERY_POINTS}", b"0\n9\n")
    assert Voter(files).image == image


def test_metadata_log_config() -> None:
    """The log accepts the largest decision."""
    config = a_config(64 * 2**20)
    assert config.segment_bytes >= config.max_message_bytes
