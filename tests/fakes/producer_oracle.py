"""The producer state of a log, computed from all of its batches with a plain dictionary."""

from dataclasses import dataclass, field
from typing import Any

from fake_files import FakeFiles
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import EndTransaction, decode_control
from headrace.protocol.records.header import assigned_prefix, read_batch_header
from headrace.storage_node.log.guarded_files import guarded
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.markers import encode_marker
from headrace.storage_node.log.partition_folder import PartitionFolder
from headrace.storage_node.log.producer_recovery import snapshot_offsets
from log_rig import FOLDER, NOW, append, batch, open_log, read_all

SMALL_SEGMENTS = {"segment_bytes": 400, "index_interval_bytes": 60}


def idempotent(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **more: Any) -> bytes:
    """A producer's batch."""
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **more)


def transactional(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, **more: Any) -> bytes:
    """A producer's batch in a transaction."""
    return idempotent(producer_id, sequence, count, epoch=epoch, is_transactional=True, **more)


def verified(log: Log, data: bytes, *, bumps_epoch: bool = True) -> int:
    """Append a verified transactional batch; returns its base offset."""
    header = read_batch_header(data)
    guard = log.producers.states.begin_verification(
        header.producer_id, header.producer_epoch, header.base_sequence, NOW, bumps_epoch=bumps_epoch
    )
    return log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guard).base_offset


def end(
    log: Log,
    producer_id: int,
    *,
    epoch: int,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 2,
) -> int:
    """Append a marker; returns its offset."""
    data = marker_batch(producer_id, epoch, is_commit=is_commit, coordinator_epoch=coordinator_epoch)
    return log.append_as_leader(
        data, leader_epoch=0, wall_ms=NOW, internal=True, transaction_version=version
    ).base_offset


def follow(log: Log, data: bytes) -> None:
    """Append a batch as a follower."""
    prefix = assigned_prefix(log.log_end_offset, read_batch_header(data).batch_length, 0)
    log.append_as_follower(prefix + data[17:])


def marker_batch(producer_id: int, epoch: int, *, is_commit: bool, coordinator_epoch: int = 0) -> bytes:
    """A marker batch as replicated to followers."""
    return encode_marker(producer_id, epoch, EndTransaction(is_commit, coordinator_epoch), NOW)


@dataclass
class Known:
    """The expected state of one producer."""

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # first, last sequence, first offset
    coordinator_epoch: int = -1
    open_from: int = -1


@dataclass
class Truth:
    """The expected state of all producers and transactions."""

    producers: dict[int, Known] = field(default_factory=dict)
    ended: list[tuple[int, int, int, bool]] = field(default_factory=list)  # producer, first, marker, commit

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = [each.open_from for each in self.producers.values() if each.open_from >= 0]
        unstable += [first for _, first, marker, _ in self.ended if marker >= high_watermark]
        return min([high_watermark, *unstable])

    def first_open_offset(self, high_watermark: int) -> int:
        unstable = [each.open_from for each in self.producers.values() if each.open_from >= 0]
        return min([high_watermark, *unstable])

    def aborted_between(self, offset: int, upto: int) -> set[tuple[int, int]]:
        return {
            (producer_id, first)
            for producer_id, first, marker, is_commit in self.ended
            if not is_commit and marker >= offset and first < upto
        }


def truth_of(batches: list[bytes]) -> Truth:
    """The expected state, computed from all batches that were ever below the log end."""
    truth = Truth()
    for data in batches:
        header = read_batch_header(data)
        if header.producer_id < 0:
            continue
        known = truth.producers.setdefault(header.producer_id, Known())
        if header.producer_epoch != known.epoch:
            known.epoch, known.batches = header.producer_epoch, []
        if header.is_control:
            record = active_codec().decode(data)[0]
            marker = decode_control(record.key, record.value)
            assert isinstance(marker, EndTransaction)
            known.coordinator_epoch = marker.coordinator_epoch
            if known.open_from >= 0:
                truth.ended.append(
                    (header.producer_id, known.open_from, header.base_offset, marker.is_commit)
                )
                known.open_from = -1
            continue
        last = (header.base_sequence + header.last_offset_delta) % 2**31
        known.batches = [*known.batches[-4:], (header.base_sequence, last, header.base_offset)]
        if header.is_transactional and known.open_from < 0:
            known.open_from = header.base_offset
    return truth


def check_producers(log: Log, truth: Truth | None = None, *, was_loaded: bool = False) -> None:
    """The log's producer state equals the truth, except that a snapshot keeps only the last batch of a
    producer, and compaction may drop any but the last. After a load from a snapshot markers count as
    committed."""
    truth = truth_of(read_all(log)) if truth is None else truth
    assert {each.producer_id for each in log.producers.states.all()} == truth.producers.keys()
    for each in log.producers.states.all():
        known = truth.producers[each.producer_id]
        assert (each.epoch, each.coordinator_epoch, each.transaction_first_offset) == (
            known.epoch,
            known.coordinator_epoch,
            known.open_from,
        )
        found = [(batch.first_sequence, batch.last_sequence, batch.first_offset) for batch in each.batches]
        assert found[-1:] == known.batches[-1:]
        if log.compaction.has_gaps:
            assert set(found) <= set(known.batches)
        else:
            assert found == known.batches[len(known.batches) - len(found) :]
    stable = truth.last_stable_offset(log.high_watermark)
    if was_loaded:
        assert stable <= log.last_stable_offset <= truth.first_open_offset(log.high_watermark)
    else:
        assert log.last_stable_offset == stable
    _check_aborted(log, truth)


def _check_aborted(log: Log, truth: Truth) -> None:
    """Assert that exactly the aborted transactions with data are reported."""
    stable = log.last_stable_offset
    data = [
        (header.producer_id, header.base_offset)
        for header in map(read_batch_header, read_all(log))
        if header.is_transactional and header.record_count and not header.is_control
    ]
    places = ((at, upto) for at in range(log.log_start_offset, stable) for upto in (at + 1, at + 3, stable))
    for offset, upto in ((at, upto) for at, upto in places if upto <= stable):
        response = [
            # recovered after compaction, a transaction begins at its first remaining batch
            next(
                (producer, first)
                for producer, first, end, _ in truth.ended
                if producer == aborted_id and at < end
            )
            for aborted_id, at in log.reader.aborted_between(offset, upto)
        ]
        assert len(set(response)) == len(response)
        assert set(response) <= truth.aborted_between(offset, upto)
        for producer_id, first, marker, is_commit in truth.ended:
            is_there = any(writer == producer_id and first <= at < min(marker, upto) for writer, at in data)
            if is_there and not is_commit and marker >= offset:
                assert (producer_id, first) in response


def fill(log: Log) -> None:
    """Append idempotent batches, an aborted, a committed and an open transaction; several segments."""
    for number in range(3):
        append(log, idempotent(1, number))
    verified(log, transactional(2, 0))
    verified(log, transactional(3, 0))
    append(log, batch(2))
    end(log, 2, epoch=1, is_commit=False)
    append(log, idempotent(1, 3))
    end(log, 3, epoch=1)
    verified(log, transactional(2, 0, epoch=1))
    append(log, idempotent(1, 4))
    log.high_watermark = log.log_end_offset


def snapshots(files: FakeFiles) -> list[int]:
    """The offsets of the snapshots on disk."""
    return snapshot_offsets(PartitionFolder(guarded(files), FOLDER))


def reopened(files: FakeFiles, *, was_clean: bool = False, recovery_point: int = 0) -> Log:
    """A log that was filled by `fill` and opened again."""
    log = open_log(files, was_clean=was_clean, recovery_point=recovery_point, **SMALL_SEGMENTS)
    log.high_watermark = log.log_end_offset
    return log
