"""The laws of the controller quorum, checked after every event and at every commit. Laws of Kafka's
RaftEventSimulationTest have the same names. An event changes one controller only, so only that one is
checked."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.controller.quorum.roles import Role
from headrace.protocol.messages.quorum import RaftVoterResponse, VoteResponse
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import replay
from headrace.protocol.records.header import read_batch_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.controller.quorum.metadata_log import MetadataLog
    from headrace.controller.quorum.voters import ReplicaKey
    from quorum import SimController, SimQuorum


class _Batch(NamedTuple):
    """The identity of a batch; equal in all logs that have the batch."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int


class Laws:
    """The history of a run, and the laws that follow from it."""

    def __init__(self, cluster: SimQuorum) -> None:
        self._cluster = cluster
        self._leaders: dict[int, ReplicaKey] = {}  # by epoch
        self._votes: dict[tuple[ReplicaKey, int], Any] = {}
        self._epochs: dict[ReplicaKey, int] = {}
        self._high_watermarks: dict[tuple[ReplicaKey, int], int] = {}  # by voter key and process
        self._durable: dict[ReplicaKey, int] = {}
        self._seen_ends: dict[ReplicaKey, int] = {}  # log ends up to which logs were compared
        self._cuts: dict[ReplicaKey, int] = {}
        # by key: batches read so far that are not committed yet
        self._uncommitted: dict[ReplicaKey, deque[_Batch]] = defaultdict(deque)
        self._written: dict[tuple[int, int], tuple[_Batch, int]] = {}  # (epoch, offset): batch, epoch before
        self.marks: Counter[str] = Counter()  # marks of events that occurred in this run
        self.committed: dict[int, _Batch] = {}  # by base offset
        self.committed_end = 0
        self._images: dict[int, MetadataImage] = {0: MetadataImage()}  # by end offset

    # --- after every event --------------------------------------------------------------------------------

    def check(self, controller: SimController) -> None:
        """The laws that hold at any time."""
        raft = controller.raft
        if raft is None:
            return
        raft.check()  # SnapshotAtLogStart is one of these
        key, log = controller.key, controller.log
        self._durable[key] = log.flushed_offset
        epoch = raft.context.epoch
        assert epoch >= self._epochs.get(key, 0), f"MonotonicEpoch: {key} back to {epoch}"
        self._epochs[key] = epoch
        if raft.role is Role.LEADER:
            leader = self._leaders.setdefault(epoch, key)
            assert leader == key, f"SingleLeader: {leader} and {key} in epoch {epoch}"
        life = (key, controller.life)
        before = self._high_watermarks.get(life, 0)
        assert log.high_watermark >= before, f"MonotonicHighWatermark: {key} {before} {log.high_watermark}"
        self._high_watermarks[life] = log.high_watermark
        self._match_logs(controller)

    def _match_logs(self, controller: SimController) -> None:
        """LogMatching: batches with the same epoch and offset are equal in all logs, and so are all batches
        before them."""
        key, log = controller.key, controller.log
        start, end_offset = self._seen_ends.get(key, 0), log.end_offset
        cuts = log._log.reader.invalidations
        if cuts != self._cuts.get(key, 0):
            self._cuts[key], start = cuts, 0
            self._uncommitted[key].clear()
            self.marks["truncated"] += 1
        if start == end_offset:
            return
        start = max(min(start, end_offset), log.start_offset)
        epoch_before = log.epoch_of(start - 1) if start > log.start_offset else -1
        uncommitted = self._uncommitted[key]
        for batch in batches(log, start, end_offset):
            known, known_before = self._written.setdefault(
                (batch.epoch, batch.base_offset), (batch, epoch_before)
            )
            if known_before < 0:
                self._written[batch.epoch, batch.base_offset] = (known, epoch_before)
            assert known == batch, f"LogMatching: {key} has {batch}, others {known}"
            if epoch_before >= 0 <= known_before:
                assert known_before == epoch_before, f"LogMatching: {key} before {batch}"
            assert batch.epoch >= epoch_before, f"MonotonicEpoch: {key} has {batch} after {epoch_before}"
            epoch_before = batch.epoch
            uncommitted.append(batch)
        self._seen_ends[key] = end_offset

    # --- at events ----------------------------------------------------------------------------------------

    def on_start(self, controller: SimController) -> None:
        """Note the start of a process, whose high watermark may be lower than before."""
        key = controller.key
        self._seen_ends[key] = 0
        self._uncommitted[key].clear()
        self._cuts[key] = controller.log._log.reader.invalidations
        self.on_applied(controller)

    def on_death(self, controller: SimController) -> None:
        """Note the end of a process; its flushed records still count."""
        self.marks["died"] += 1

    def on_reply(self, controller: SimController, token: Any, body: Any) -> None:
        """VoteOnce: one vote per voter and epoch."""
        if isinstance(body, RaftVoterResponse):
            self.marks["voters changed" if body.error_code == 0 else "voters not changed"] += 1
        if isinstance(body, VoteResponse) and body.vote_granted:
            raft = controller.living
            if raft.context.voted is None or raft.context.voted.replica_id != token[0]:
                return  # a pre-vote does not bind the voter
            vote = self._votes.setdefault((controller.key, body.leader_epoch), raft.context.voted)
            assert vote == raft.context.voted, f"VoteOnce: {controller.key} for {vote} and another"

    def on_committed(self, controller: SimController, end_offset: int) -> None:
        """ConsistentCommittedData, MajorityReachedHighWatermark: a controller advances its high watermark."""
        self.marks["committed"] += 1
        log, raft = controller.log, controller.living
        for batch in self._committed_batches(controller, end_offset):
            known = self.committed.setdefault(batch.base_offset, batch)
            assert known == batch, f"ConsistentCommittedData: {controller.key} has {batch}, others {known}"
        if raft.role is Role.LEADER:
            voters = raft.context.voters
            self._durable[controller.key] = log.flushed_offset
            holders = [key for key in voters if self._durable.get(key, 0) >= end_offset]
            assert len(holders) > len(voters) // 2, (
                f"MajorityReachedHighWatermark: {end_offset} is durable on {holders} of {voters}"
            )
        self.committed_end = max(self.committed_end, end_offset)

    def _committed_batches(self, controller: SimController, end_offset: int) -> Iterator[_Batch]:
        """The batches from the end of the image to `end_offset`. Those that were read since they were
        appended are taken from `_uncommitted`; after a truncation, and while some are missing, all are
        read."""
        key, log, start = controller.key, controller.log, controller.image.offset + 1
        read = self._uncommitted[key]
        while read and read[0].base_offset < start:
            read.popleft()
        is_stale = log._log.reader.invalidations != self._cuts.get(key, 0)
        if is_stale or not read or read[0].base_offset > start or self._seen_ends[key] < end_offset:
            yield from batches(log, start, end_offset)
            return
        while read and read[0].next_offset <= end_offset:
            yield read.popleft()

    def on_applied(self, controller: SimController) -> None:
        """ConsistentCommittedData for images: equal offsets have equal images."""
        image = controller.image
        end_offset = image.offset + 1
        if end_offset not in self._images:
            self._extend_images(controller)
        assert self._images[end_offset] == image, f"ConsistentCommittedData: image of {controller.key}"

    def _extend_images(self, controller: SimController) -> None:
        """Replay records onto the newest image; the first controller that commits defines the next one."""
        known = max(self._images)
        image = self._images[known]
        for base_offset, records in controller.log.committed(known, controller.image.offset + 1):
            image, _ = replay(image, base_offset, records)
            self._images[image.offset + 1] = image

    def on_snapshot_loaded(self, controller: SimController) -> None:
        """LeaderNeverLoadsSnapshot; the snapshot must equal the committed image."""
        assert controller.living.role is not Role.LEADER, f"LeaderNeverLoadsSnapshot: {controller.key}"
        self.on_applied(controller)
        self.marks["snapshot loaded"] += 1

    def on_active(self, controller: SimController, epoch: int) -> None:
        """LeaderCompleteness: an active controller has applied all committed records."""
        self.marks["elected"] += 1
        applied = controller.image.offset + 1
        assert applied >= self.committed_end, (
            f"LeaderCompleteness: {controller.key} is active in epoch {epoch} at {applied}, "
            f"{self.committed_end} are committed"
        )

    def at_end(self) -> None:
        """Every acknowledged record is in the committed log at its offset."""
        for controller in self._cluster.controllers.values():
            if controller.is_alive:
                self.check(controller)
        last = max(self._cluster.acknowledged.values(), default=-1)
        assert last < self.committed_end
        for value, offset in self._cluster.acknowledged.items():
            assert offset in self.committed, f"acknowledged and lost: {value} at {offset}"


def batches(log: MetadataLog, offset: int, end_offset: int) -> Iterator[_Batch]:
    """The batches of a log between two offsets."""
    stored = log._log
    while offset < end_offset:
        read = stored.reader.read(offset, 1 << 20, upto_offset=end_offset)
        for buffer in read.data:
            position = 0
            while position < len(buffer):
                header = read_batch_header(buffer, position)
                yield _Batch(header.base_offset, header.next_offset, header.leader_epoch, header.crc)
                position += header.size_bytes
        assert read.next_offset > offset
        offset = read.next_offset
