"""The metadata log in a quorum: appended as follower, truncated, replaced by a snapshot, killed in every
operation."""

import pytest
from fake_files import Crash, FakeFiles
from headrace.controller.quorum.election_state import ElectionState
from headrace.controller.quorum.metadata_log import MetadataLog
from headrace.controller.quorum.record_batches import addressed, encode_control_batch
from headrace.controller.quorum.snapshots import SnapshotId, read_snapshot, write_snapshot
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import ConfigRecord
from headrace.protocol.metadata.replay import replay
from headrace.protocol.records.control import LeaderChange, encode_control
from metadata_rig import NOW
from quorum_rig import DIRECTORY, METADATA_DIR, batch, formatted, key, open_log, voters


def image_at(offset: int) -> MetadataImage:
    """The image of decisions "0", "1", ..."""
    image = MetadataImage()
    for number in range(offset + 1):
        image, _ = replay(image, number, [ConfigRecord(4, "", "key", str(number))])
    return image


def decisions(log: MetadataLog) -> list[str]:
    """The values of all decisions in the log, committed or not."""
    log.high_watermark = log.end_offset
    return [
        record.value for _, records in log.committed(log.start_offset, log.end_offset) for record in records
    ]


def test_control_record_only_advances_the_image_offset() -> None:
    """It has an offset like any other record, and is applied once committed."""
    log = open_log(formatted(1))
    assert log.append_control(LeaderChange(1, (1,), (1,)), 3, NOW) == 0
    assert log.append_batch(batch("a"), 3, NOW) == 1
    log.flush()
    with pytest.raises(AssertionError):
        list(log.committed(0, 2))
    log.high_watermark = 2
    image = MetadataImage()
    for base, records in log.committed(0, 2):
        image, _ = replay(image, base, records)
    assert (image.offset, image.configs[4, ""]) == (1, {"key": "a"})
    assert (log.last_epoch, log.epoch_of(0), log.end_offset_for_epoch(3)) == (3, 3, (3, 2))


def test_voter_set_follows_the_log() -> None:
    """Through format, append as leader and as follower, truncation and restart."""
    files = formatted(1, 2)
    log = open_log(files)
    assert log.voters.latest == voters(1, 2)
    log.append_control(voters(1, 2, 3), 1, NOW)
    control = addressed(encode_control_batch(*encode_control(voters(2, 3)), NOW), 1, 2)
    log.append_as_follower(addressed(batch("a"), 1, 1) and control + addressed(batch("a"), 2, 2))
    log.flush()
    assert log.voters.latest_keys == (key(2), key(3))
    assert open_log(files.restart()).voters.latest_keys == (key(2), key(3))
    log.truncate_to(1)
    assert log.voters.latest_keys == (key(1), key(2), key(3))
    assert open_log(files.restart()).voters.latest_keys == (key(1), key(2), key(3))


def test_snapshot_has_the_voter_set_at_its_offset() -> None:
    """Not the latest one; a start from the snapshot knows it although the log before is deleted."""
    files = formatted(1)
    log = open_log(files)
    log.append_batch(batch("0"), 1, NOW)
    log.append_control(voters(1, 2), 1, NOW)
    log.flush()
    log.high_watermark = 1
    log.write_snapshot(image_at(0), NOW)
    assert read_snapshot(files, DIRECTORY, SnapshotId(1, 1)) == (image_at(0), voters(1))
    with pytest.raises(AssertionError):
        log.save_snapshot(image_at(1), NOW)
    again = open_log(files.restart())
    assert (again.recovered, again.high_watermark) == (image_at(0), 1)
    assert again.voters.entries == ((0, voters(1)), (1, voters(1, 2)))


def test_flush_on_another_thread() -> None:
    """Records appended meanwhile are not durable; a snapshot added meanwhile deletes segments after the
    flush."""
    log = open_log(formatted(1), segment_bytes=200)
    for number in range(6):
        log.append_batch(batch(str(number)), 1, NOW)
    log.flush()
    log.high_watermark = 6
    log.write_snapshot(image_at(2), NOW)
    log.append_batch(batch("6"), 1, NOW)
    flush = log.start_flush()
    log.append_batch(batch("7"), 1, NOW)
    log.add_snapshot(log.save_snapshot(image_at(5), NOW))
    assert log.start_offset == 0
    assert flush is not None
    flush.sync()
    log.finish_flush(flush)
    assert log.flushed_offset == 7
    assert 0 < log.start_offset <= 3
    assert [snapshot.end_offset for snapshot in log.snapshots.ids] == [6, 3]


# --- killed in every operation -----------------------------------------------------------------------------


class Life:
    """One life of a follower, with what must survive: flushed records and the vote."""

    def __init__(self, files: FakeFiles) -> None:
        self.files = files
        self.kept: list[str] = []  # flushed decisions that nothing has cut
        self.may_have: list[list[str]] = [[]]  # logs that are possible from here
        self.epoch = 0

    def run(self) -> None:
        """A vote, appends, a truncation, appends, a snapshot from the leader, appends."""
        log = open_log(self.files, segment_bytes=250)
        self._vote(log, 1)
        self._append(log, [str(number) for number in range(6)], 0, 1)
        self._flush(log)
        log.checkpoint()
        self._vote(log, 2)
        self.may_have = [self.kept[:end] for end in range(3, 7)]  # the newest segments go first
        self.kept = self.kept[:3]
        log.truncate_to(3)
        self.may_have = [self.kept]
        self._append(log, ["3", "4"], 3, 2)
        self._flush(log)
        log.checkpoint()
        self._snapshot(log)
        self._append(log, ["10", "11"], 10, 4)
        self._flush(log)
        log.checkpoint()
        log.close()

    def _vote(self, log: MetadataLog, epoch: int) -> None:
        log.write_election_state(ElectionState("", -1, epoch, *key(2)))
        self.epoch = epoch

    def _append(self, log: MetadataLog, values: list[str], offset: int, epoch: int) -> None:
        self.may_have = [[*self.kept, *values[:count]] for count in range(len(values) + 1)]
        for index, value in enumerate(values):
            log.append_as_follower(addressed(batch(value), offset + index, epoch))

    def _flush(self, log: MetadataLog) -> None:
        flush = log.start_flush()
        if flush is not None:
            flush.sync()
        self.kept, self.may_have = self.may_have[-1], self.may_have[-1:]
        log.finish_flush(flush)

    def _snapshot(self, log: MetadataLog) -> None:
        other = FakeFiles()
        other.mkdir("/s")
        snapshot = write_snapshot(other, "/s", image_at(9), 4, NOW, voters(1, 2, 3))
        data = other.content(f"/s/{snapshot.file_name}")
        log.snapshots.receive(snapshot, 0, data[:200])
        log.snapshots.receive(snapshot, 200, data[200:])
        self.may_have = [self.kept, ["snapshot"]]
        log.install_snapshot(snapshot)
        self.kept, self.may_have = ["snapshot"], [["snapshot"]]


def seen(log: MetadataLog) -> list[str]:
    """What a start recovers; a snapshot at offset 10 as one word."""
    if log.recovered.offset >= 0:
        assert log.recovered == image_at(9)
        assert log.start_offset == 10
        assert log.voters.at(10) == voters(1, 2, 3)
        return ["snapshot", *decisions(log)]
    return decisions(log)


def _operations() -> list[str]:
    files = formatted(1)
    before = len(files.operations)
    Life(files).run()
    return files.operations[before:]


OPERATIONS = _operations()


@pytest.mark.parametrize("first", range(0, len(OPERATIONS), 10))
def test_kill_in_any_operation_loses_no_flushed_record(first) -> None:
    """Killed or without power, after a partial or a whole write: flushed decisions and the vote survive,
    truncated ones do not return, and there is the snapshot or the log before it."""
    for number in range(first, min(first + 10, len(OPERATIONS))):
        for torn in (0, 40, 1 << 20) if OPERATIONS[number].startswith("pwrite") else (0,):
            files = formatted(1)
            files.crash_at, files.tear_bytes = len(files.operations) + number, torn
            life = Life(files)
            with pytest.raises(Crash):
                life.run()
            for after in (files.restart(), *map(files.power_loss, ("none", "all", number))):
                log = open_log(after, segment_bytes=250)
                state = log.read_election_state()
                assert (state.leader_epoch if state else 0) >= life.epoch
                found = seen(log)
                assert found in life.may_have, f"{number} {OPERATIONS[number]} torn at {torn}: {found}"
                again = open_log(after.power_loss("none"), segment_bytes=250)
                assert seen(again) == found, "the state after a start is durable"


def test_formatting_is_durable(files: FakeFiles) -> None:
    """The voter set survives a power loss."""
    MetadataLog.format(files, METADATA_DIR, voters(1, 2, 3), NOW)
    assert open_log(files.power_loss("none")).voters.latest == voters(1, 2, 3)
