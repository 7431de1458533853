"""The laws of replication, checked after every event.

Laws of the TLA+ models of Kafka's replication have the same names. An event changes one node only, so only
that node is checked, and only its partitions whose state differs from the last check (watches.py).
New metadata changes no log: after it, the laws that compare partitions with metadata are checked. Every
`FULL_EVERY` checks, and at the end of a run, all laws are checked for all partitions.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

from cluster_losses import is_unclean
from headrace.protocol.metadata.image import RECOVERED, MetadataImage
from headrace.storage_node.embedded.contract import COORDINATOR_TOPICS
from history import Outcome
from log_contents import Stored, buffers, stored, value_at, values_of
from watches import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster import SimCluster
    from headrace.protocol.metadata.image import PartitionRegistration
    from headrace.storage_node.log.log import Log
    from headrace.storage_node.replica.partition import Partition, PartitionKey
    from sim_node import SimNode

Key = tuple[str, int]  # topic, partition
COMPACTED = "c"  # the compacted topic, whose offsets have gaps
ANSWER_MS = 5_000  # a node responds to every request within this time
FULL_EVERY = 256  # after this many checks of nodes, one check covers all partitions
FOLLOWING_EVERY = 8  # after this many, one check covers the fetchers and the moves between disks


class _Seen:
    """Recorded state of one partition in one run of a node's process."""

    __slots__ = (
        "batches",
        "cuts",
        "end",
        "epochs",
        "has_loss",
        "high_watermark",
        "is_leader",
        "matched",
        "partition",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.high_watermark = self.matched = 0
        self.epochs = (-1, -1)  # leader, partition
        self.end, self.cuts = -1, 0
        self.is_leader = self.has_loss = False
        self.batches: deque[Stored] = deque()  # up to `end`; not committed at the last check


class Laws:
    """The history of a run so far, and the laws that every later state must keep."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.marks: Counter[str] = Counter()
        self._compacted = {COMPACTED, *(COORDINATOR_TOPICS if cluster.plan.compacts else ())}
        self.image = MetadataImage()  # the newest committed image
        self.committed: dict[Key, dict[int, Stored]] = defaultdict(dict)
        self.ends: dict[Key, int] = defaultdict(int)  # the highest high watermark that a leader has had
        self._lost_ends: dict[Key, int] = defaultdict(int)  # `ends` before power losses lowered it
        self._ends_in: dict[Key, dict[int, int]] = defaultdict(dict)  # by leader epoch
        self.acknowledged: dict[Key, dict[int, bytes]] = defaultdict(dict)
        self._leaders: dict[tuple[PartitionKey, int], str] = {}
        self._written: dict[tuple[PartitionKey, int, int], Stored] = {}
        self._seen: dict[tuple[str, Key], _Seen] = {}
        self._watches: dict[str, dict[PartitionKey, Watch]] = defaultdict(dict)  # by node
        # by node: offsets of the committed image and of its own one at the last check; they never decrease
        self._offsets: dict[str, tuple[int, int]] = {}
        self._images: dict[str, MetadataImage] = {}
        self.unclean_epochs: dict[Key, int] = {}  # leader epoch of the newest unclean election
        self._accepted_epochs: dict[Key, int] = {}  # that epoch, once its leader was checked
        # acknowledged, and maybe truncated by an unclean election
        self.at_risk: dict[Key, dict[int, bytes]] = defaultdict(dict)
        self.final: dict[Key, dict[int, bytes]] = {}  # the records in the log at the end of the run
        self.starts: dict[Key, int] = defaultdict(int)  # the highest log start offset of any replica
        self._starts: dict[tuple[str, PartitionKey], int] = {}  # log start offset by node
        self._may_start: dict[Key, int] = defaultdict(int)  # the highest offset of DeleteRecords requests
        self._is_retaining = False
        self._checks = 0
        # by node: number of partitions and image at the last check
        self._held: dict[str, tuple[int, MetadataImage]] = {}

    # --- after every event --------------------------------------------------------------------------------

    def check(self, node: SimNode) -> None:
        """The laws that hold after every event, for the partitions of this node."""
        if node.core is None:
            return
        self._checks += 1
        table, watches = node.core.table, self._watches[node.name]
        if self._checks % FULL_EVERY == 0:
            watches.clear()
        offsets = (self.image.offset, table.image.offset)
        is_of_new_image = self._offsets.get(node.name) != offsets
        self._offsets[node.name] = offsets
        for key, partition in table.partitions.items():
            watch = watches.get(key)
            if watch is None or watch.log is not partition.log or watch.partition is not partition:
                if partition.log is None:
                    continue
                watch = watches[key] = Watch(partition, partition.log)
            state = watch.state_now()
            if state != watch.state:
                watch.state = state
                if watch.is_online:
                    partition.check()
                    self._check_partition(node, partition, watch.log)
            elif is_of_new_image and partition.in_sync is not None and watch.is_online:
                self._check_superset(partition, node)
                self._check_low_watermark(partition, watch.log)
        held = (len(table.partitions), table.image)
        last_held = self._held.get(node.name)
        if node.core.table.is_caught_up and (
            last_held is None or last_held[0] != held[0] or last_held[1] is not held[1]
        ):
            self._held[node.name] = held
            node.manager.registry.check()
            gone = [k for k in self._starts if k[0] == node.name and k[1] not in table.partitions]
            for place in gone:
                del self._starts[place]
        if self._checks % FOLLOWING_EVERY == 0:
            _check_parts(node)
        self._check_image(node, table.image)

    def _check_image(self, node: SimNode, image: MetadataImage) -> None:
        """MetadataLogMatching: nodes that applied the metadata up to the same offset have equal images."""
        if self._images.get(node.name) is image:
            return
        before = self._images.get(node.name)
        assert before is None or before.offset <= image.offset, f"MetadataLogMatching: {node.name} went back"
        self._images[node.name] = image
        known = self._cluster.laws._images.get(image.offset + 1)
        assert known is None or known == image, f"MetadataLogMatching: {node.name} at {image.offset}"

    def _check_partition(self, node: SimNode, partition: Partition, log: Log) -> None:
        key: Key = tuple(partition.topic_partition)
        seen = self._seen.get((node.name, key))
        is_first = seen is None or seen.partition is not partition  # it may have been removed and added
        if seen is None or is_first:
            seen = self._seen[node.name, key] = _Seen(partition)
        epochs = (partition.leader_epoch, partition.partition_epoch)
        where = f"{key} on {node.name}"
        assert epochs >= seen.epochs, f"MonotonicEpoch: {where} from {seen.epochs} back to {epochs}"
        is_new_leader = partition.is_leader and (not seen.is_leader or epochs[0] != seen.epochs[0])
        seen.epochs, seen.is_leader = epochs, partition.is_leader
        log.check()
        was_cut = log.reader.invalidations != seen.cuts
        self._check_start(seen, node, key, partition, log)
        if key[0] not in self._compacted:  # each replica compacts its own log, see compacting.py
            self._check_log(seen, key, log, where)
        seen.cuts = log.reader.invalidations
        if is_new_leader:
            self._check_new_leader(node, key, partition, log)
        watermark = partition.high_watermark
        if not partition.is_leader and self.ends[key] < watermark <= self._lost_ends[key]:
            return  # a high watermark from before a power loss: the current leader may not have these records
        had_loss, seen.has_loss = seen.has_loss, log.recovery.has_loss
        if was_cut and had_loss and not seen.has_loss:  # the log was replaced by a new copy of the leader's
            seen.high_watermark = seen.matched = watermark
        if key in self.unclean_epochs and not partition.is_leader:
            if is_first:  # its checkpointed watermark may cover records that the unclean leader does not have
                seen.high_watermark = seen.matched = watermark
            elif was_cut:
                seen.high_watermark = min(seen.high_watermark, watermark)
                seen.matched = min(seen.matched, watermark)
        assert watermark >= seen.high_watermark, (
            f"MonotonicHighWatermark: {where} from {seen.high_watermark} back to {watermark}"
        )
        if watermark > seen.high_watermark:
            seen.high_watermark = watermark
            if not seen.has_loss:  # a log that lost records is not read: it will be replaced by a copy
                self._check_watermark(seen, node, key, partition, log)
        if partition.in_sync is not None:
            self._check_superset(partition, node)

    def _check_start(self, seen: _Seen, node: SimNode, key: Key, partition: Partition, log: Log) -> None:
        """MonotonicLogStart: a log start offset never decreases, also across restarts. OnlyAskedDeleted: it
        advances only by DeleteRecords or retention. OnlyCommittedDeleted: never beyond the high watermark."""
        place, start = (node.name, partition.key), log.log_start_offset
        if log.recovery.has_loss:
            return  # the log lost records and will be copied from the leader again
        if log.reader.invalidations == seen.cuts:
            before = self._starts.get(place, 0)
            assert start >= before, f"MonotonicLogStart: {key} on {node.name} from {before} back to {start}"
        self._starts[place] = start
        if key[0] not in self._cluster.topics:
            return
        end = self.ends[key]
        assert start <= end, (
            f"OnlyCommittedDeleted: {key} on {node.name} starts at {start}, committed is {end}"
        )
        assert self._is_retaining or start <= self._may_start[key], (
            f"OnlyAskedDeleted: {key} on {node.name} starts at {start}, not {self._may_start[key]}"
        )
        self.starts[key] = max(self.starts[key], start)
        self.marks["started later"] += start > 0
        if partition.in_sync is not None:
            self._check_low_watermark(partition, log)

    def _check_low_watermark(self, partition: Partition, log: Log) -> None:
        """LowWatermark: no live follower's log starts below the leader's low watermark, which DeleteRecords
        waits for. A follower whose process restarted since its last fetch is not compared."""
        key: Key = tuple(partition.topic_partition)
        if log.log_start_offset <= 0 or log.recovery.has_loss or key[0] not in self._cluster.topics:
            return  # no log start offset is below 0
        low = partition.low_watermark()
        assert partition.in_sync is not None
        for node_id, progress in partition.in_sync.followers.items():
            other = self._cluster.nodes[node_id]
            log = other.log_of(key)
            is_counted = partition.context.is_alive(node_id)
            if log is not None and is_counted and progress.broker_epoch == other.broker_epoch:
                assert log.log_start_offset >= low, (
                    f"LowWatermark: {key} on node {node_id} starts at {log.log_start_offset}, not {low}"
                )

    def _check_log(self, seen: _Seen, key: Key, log: Log, where: str) -> None:
        """OffsetsDense: no gaps between batches. MonotonicEpoch: leader epochs never decrease along a log.
        LogMatching: batches with the same epoch and base offset are equal in all logs."""
        if log.reader.invalidations != seen.cuts:
            self.marks["truncated"] += seen.end >= 0
            seen.end = -1
            seen.batches.clear()
        if log.log_end_offset == seen.end:
            return
        # a log that starts inside a batch may not have fetched that batch yet
        start = min(log.log_start_offset, log.log_end_offset) if seen.end < 0 else seen.end
        expected, epoch = start, -1
        for batch in stored(log, start, log.log_end_offset):
            is_cut = batch.base_offset < expected == log.log_start_offset < batch.next_offset
            assert batch.base_offset == expected or is_cut, f"OffsetsDense: {where} {batch} after {expected}"
            assert batch.epoch >= epoch, f"MonotonicEpoch: {where} {batch} after epoch {epoch}"
            known = self._written.setdefault((seen.partition.key, batch.epoch, batch.base_offset), batch)
            assert known == batch, f"LogMatching: {where} has {batch}, others {known}"
            expected, epoch = batch.next_offset, batch.epoch
            seen.batches.append(batch)
        assert expected == log.log_end_offset, f"OffsetsDense: {where} ends at {expected}"
        seen.end = expected

    def _check_new_leader(self, node: SimNode, key: Key, partition: Partition, log: Log) -> None:
        epoch = partition.leader_epoch
        leader = self._leaders.setdefault((partition.key, epoch), node.name)
        assert leader == node.name, f"SingleLeader: {leader} and {node.name} lead {key} in epoch {epoch}"
        self.marks["led"] += 1
        if epoch < self.unclean_epochs.get(key, -1):
            return
        if self._is_pending(key):
            self._accept_unclean_leader(key, partition, log)
        # A node may get the metadata of its election late: its log must have the records committed by earlier
        # leaders.
        before = max((end for at, end in self._ends_in[key].items() if at < epoch), default=0)
        end = log.log_end_offset
        assert end >= before, (
            f"LeaderCompleteness: {node.name} leads {key} in epoch {epoch} up to {end}, not {before}"
        )
        if key[0] in self._compacted:
            return
        here = {batch.base_offset: batch for batch in stored(log, log.log_start_offset, before)}
        for base_offset, batch in self.committed[key].items():
            assert not log.log_start_offset <= base_offset < before or here.get(base_offset) == batch, (
                f"LeaderCompleteness: {node.name} leads {key} in epoch {epoch} without {batch}"
            )
        self._check_producers(node, key, log, before)

    def _check_producers(self, node: SimNode, key: Key, log: Log, before: int) -> None:
        """ProducersKnown: a leader has the last committed sequence of each producer, also of a batch that was
        deleted since. Otherwise it would append a retried batch twice, or after later ones."""
        last: dict[int, Stored] = {}
        for base_offset, batch in self.committed[key].items():
            newest = last.get(batch.producer_id, batch)
            if batch.last_sequence >= 0 and newest.base_offset <= base_offset < before:
                last[batch.producer_id] = batch
        self.marks["producers known"] += bool(last) and min(last.values()).base_offset < log.log_start_offset
        for producer_id, batch in last.items():
            producer = log.producers.states.get(producer_id)
            known = (-1, -1) if producer is None else (producer.epoch, producer.last_sequence)
            assert known >= (batch.producer_epoch, batch.last_sequence), (
                f"ProducersKnown: {node.name} leads {key}, knows {known} of a producer, committed is {batch}"
            )

    def _check_watermark(self, seen: _Seen, node: SimNode, key: Key, partition: Partition, log: Log) -> None:
        """LogMatching below the high watermark: all replicas have the same committed batches.
        HighWatermarkInSync: every member of the ISR that the leader counts has them."""
        if partition.leader_epoch < self.unclean_epochs.get(key, -1) or self._is_pending(key):
            return  # the node does not have the metadata of the newer leader epoch yet
        watermark, committed = partition.high_watermark, self.committed[key]
        start = watermark if key[0] in self._compacted else max(seen.matched, log.log_start_offset)
        for batch in _committed_batches(seen, log, start, watermark):
            known = committed.setdefault(batch.base_offset, batch)
            assert known == batch, (
                f"LogMatching: below the high watermark {node.name} has {batch}, not {known}"
            )
        seen.matched = watermark
        if watermark > self.ends[key]:
            assert partition.is_leader, f"{node.name} follows {key}: its high watermark is above its leader's"
            self.ends[key] = self._ends_in[key][partition.leader_epoch] = watermark
            self.marks["committed"] += 1
            self._check_candidates(key)
            if partition.in_sync is not None:
                # Without followers that restarted since their last fetch: the leader may not know that yet.
                received = {n: f.broker_epoch for n, f in partition.in_sync.followers.items()}
                members = tuple(
                    n
                    for n in partition.in_sync.maximal
                    if received.get(n) == self._cluster.nodes[n].broker_epoch
                )
                self._check_held(key, members, watermark, "HighWatermarkInSync")

    def _check_superset(self, partition: Partition, node: SimNode) -> None:
        """ReplicationQuorumSuperset: the ISR that a leader waits for includes the ISR that the controller
        elects from."""
        key: Key = tuple(partition.topic_partition)
        registration = registration_of(self.image, key)
        if registration is None or registration.leader_epoch != partition.leader_epoch:
            return
        if self.image.topics[key[0]].topic_id != partition.key[0]:
            return  # a deleted topic of the same name
        assert partition.in_sync is not None
        maximal = set(partition.in_sync.maximal)
        if registration.partition_epoch >= partition.partition_epoch:
            assert maximal.issuperset(registration.isr), (
                f"ReplicationQuorumSuperset: {key} on {node.name} waits for {sorted(maximal)}, committed is "
                f"{registration}"
            )

    def _check_candidates(self, key: Key) -> None:
        """LeaderCandidateCompleteness: each member of the ISR and the ELR has all committed records."""
        registration = registration_of(self.image, key)
        if registration is not None:
            members = (*registration.isr, *registration.elr)
            self._check_held(key, members, self.ends[key], "LeaderCandidateCompleteness")

    def _check_held(self, key: Key, members: tuple[int, ...], end: int, law: str) -> None:
        if self._is_pending(key):
            return
        for node_id in members:
            node = self._cluster.nodes[node_id]
            log = None if node.is_lossy else node.log_of(key)
            if log is not None:
                assert log.log_end_offset >= end, (
                    f"{law}: {node.name} has {key} up to {log.log_end_offset}, {end} are committed"
                )

    # --- unclean elections --------------------------------------------------------------------------------

    def _note_election(self, key: Key, old: PartitionRegistration, new: PartitionRegistration) -> None:
        """UncleanElection: a replica outside of the ISR and the ELR is elected only where the topic allows
        unclean elections, and then its registration is marked as recovering."""
        if new.leader in (-1, old.leader, *old.isr, *old.elr) or new.leader_recovery_state == RECOVERED:
            return
        self.marks["unclean election"] += 1
        is_copied = self._cluster.plan.replication > 1 and key[0] in self._cluster.topics
        # By KIP-966 the last known leader may be elected if no other is left: for a partition that never had
        # min ISR, which cannot lose records, and after a power loss of all nodes.
        has_records = self.ends[key] > 0 and not self.marks["blackout"]
        is_allowed = is_unclean(key) or (new.leader in old.last_known_elr and not has_records)
        assert is_allowed or not is_copied, f"UncleanElection: {key} from {old} to {new}"
        if is_unclean(key):
            self.unclean_epochs[key] = new.leader_epoch

    def _is_pending(self, key: Key) -> bool:
        """Whether the log of the leader of the newest unclean election was not checked yet."""
        return self.unclean_epochs.get(key, -1) > self._accepted_epochs.get(key, -1)

    def _accept_unclean_leader(self, key: Key, partition: Partition, log: Log) -> None:
        """Take the log of this unclean leader as the committed records; acknowledged records that it does not
        have may be lost."""
        here = {batch.base_offset: batch for batch in stored(log, log.log_start_offset, log.log_end_offset)}
        before, watermark = self.committed[key], partition.high_watermark
        missing = [offset for offset, batch in before.items() if here.get(offset) != batch]
        cut = min(missing, default=log.log_end_offset)
        acknowledged = self.acknowledged[key]
        for offset in [offset for offset in acknowledged if offset >= cut]:
            self.at_risk[key][offset] = acknowledged.pop(offset)
        self.committed[key] = {
            offset: batch
            for offset, batch in here.items()
            if batch.next_offset <= watermark or before.get(offset) == batch
        }
        self.ends[key] = watermark
        self._ends_in[key] = {partition.leader_epoch: watermark}
        self._accepted_epochs[key] = self.unclean_epochs[key]

    def _is_led_with(self, key: Key, offset: int, value: bytes) -> bool:
        """Whether the leader since the newest unclean election has the value at the offset."""
        for node in self._cluster.nodes.values():
            log = node.log_of(key)
            if log is None or not log.log_start_offset <= offset < log.log_end_offset:
                continue
            partition = next(p for p in node.running.table.partitions.values() if p.log is log)
            if partition.is_leader and partition.leader_epoch >= self.unclean_epochs[key]:
                return value_at(log, offset) == value
        return False

    # --- at events ----------------------------------------------------------------------------------------

    def on_acknowledged(self, key: Key, values: dict[int, bytes]) -> None:
        """AckedIsCommitted: acknowledged records are below the high watermark."""
        if key in self.unclean_epochs:
            # The acknowledgement may be of the leader before the unclean election.
            is_accepted = not self._is_pending(key)
            for offset, value in values.items():
                is_safe = is_accepted and self._is_led_with(key, offset, value)
                (self.acknowledged if is_safe else self.at_risk)[key][offset] = value
            return
        last = max(values)
        assert last < self.ends[key], (
            f"AckedIsCommitted: {key} at {last}, only {self.ends[key]} are committed"
        )
        self.acknowledged[key].update(values)

    def on_erase(self, key: Key, offset: int) -> None:
        """A client sends DeleteRecords up to an offset, -1: up to the high watermark."""
        self._may_start[key] = 1 << 62 if offset < 0 else max(self._may_start[key], offset)

    def on_retention(self) -> None:
        """Allow retention to delete segments from now on."""
        self._is_retaining = True

    def on_loss(self, node: SimNode) -> None:
        """Note that one or all disks of the node were replaced by empty ones."""
        self._starts = {place: start for place, start in self._starts.items() if place[0] != node.name}

    def on_metadata(self, image: MetadataImage) -> None:
        """A controller has applied committed records of the metadata log."""
        if image.offset <= self.image.offset:
            return
        before, self.image = self.image, image
        if self._cluster.access is not None:
            self._cluster.access.on_metadata()
        for name, topic in image.topics.items():
            for number, registration in enumerate(topic.partitions):
                key = (name, number)
                old = registration_of(before, key)
                is_new = name not in before.topics or before.topics[name].topic_id != topic.topic_id
                if is_new or old == registration:
                    continue
                if old is not None:
                    assert registration.leader_epoch >= old.leader_epoch, f"MonotonicEpoch: {key}"
                    assert registration.partition_epoch > old.partition_epoch, f"MonotonicEpoch: {key}"
                    self._note_election(key, old, registration)
                self.marks["leader changed"] += old is not None and old.leader != registration.leader
                self.marks["ISR shrunk"] += old is not None and len(old.isr) > len(registration.isr)
                self.marks["ELR"] += bool(registration.elr)
                self._check_candidates(key)

    def on_start(self, node: SimNode) -> None:
        """Note the start of a node's process."""
        self.marks["started"] += 1

    def on_death(self, node: SimNode) -> None:
        """A node's process ends: the state in its memory is lost."""
        self.marks["died"] += 1
        for key in [key for key in self._seen if key[0] == node.name]:
            del self._seen[key]
        self._images.pop(node.name, None)
        self._watches.pop(node.name, None)
        self._offsets.pop(node.name, None)
        self._held.pop(node.name, None)

    def on_blackout(self) -> None:
        """All nodes lose power. With durability=fsync no acknowledged record may be lost; with async only
        records that some member of the ISR had not flushed."""
        self.marks["blackout"] += 1
        if self._cluster.plan.durability == "fsync":
            return
        floors = {key: self._flushed_everywhere(key) for key in list(self.ends)}
        for key, floor in floors.items():
            self._lost_ends[key] = max(self._lost_ends[key], self.ends[key])
            self.marks["may be lost"] += self.ends[key] > floor
            self.marks["must survive"] += floor > 0
            self.ends[key] = min(self.ends[key], floor)
            self._ends_in[key] = {epoch: min(end, floor) for epoch, end in self._ends_in[key].items()}
            self.committed[key] = {
                offset: batch for offset, batch in self.committed[key].items() if batch.next_offset <= floor
            }
            acknowledged = self.acknowledged[key]
            self.acknowledged[key] = {
                offset: acknowledged[offset] for offset in acknowledged if offset < floor
            }
        for op in self._cluster.history.ops:
            if any(send.offset is not None and send.offset >= floors.get(send.key, 0) for send in op.sends):
                op.outcome = Outcome.INFO

    def _flushed_everywhere(self, key: Key) -> int:
        registration = registration_of(self.image, key)
        assert registration is not None
        logs = [self._cluster.nodes[node].log_of(key) for node in registration.isr]
        return min((log.recovery_point if log is not None else 0 for log in logs), default=0)

    # --- the end ------------------------------------------------------------------------------------------

    def at_end(self) -> None:
        """All replicas are equal byte for byte, and have every acknowledged record at its offset.
        AnsweredOnce: no request has waited for longer than `ANSWER_MS`."""
        self.check_everything()
        for name in self._cluster.checked_topics:
            for number, registration in enumerate(self.image.topics[name].partitions):
                self._check_same((name, number), registration)
        for node in self._cluster.nodes.values():
            for request in node.requests:
                waited_ms = self._cluster.world.now_ms - request.at_ms
                assert request.is_answered or waited_ms < ANSWER_MS, (
                    f"AnsweredOnce: {node.name} has not answered {request.api.name} for {waited_ms} ms: "
                    f"{request.body}"
                )

    def check_everything(self) -> None:
        """All laws, for all partitions of all nodes."""
        self._watches.clear()
        for node in self._cluster.nodes.values():
            self.check(node)
            if node.core is not None:
                _check_parts(node)

    def _check_same(self, key: Key, registration: PartitionRegistration) -> None:
        logs = {node_id: self._cluster.nodes[node_id].log_of(key) for node_id in registration.replicas}
        found = {node_id: log for node_id, log in logs.items() if log is not None}
        assert len(found) == len(logs), f"{key} is not on all of {sorted(logs)}"
        start = max(log.log_start_offset for log in found.values())  # each replica applies retention itself
        contents = {
            node_id: b"".join(map(bytes, buffers(log, start, log.log_end_offset)))
            for node_id, log in found.items()
        }
        first = contents[registration.replicas[0]]
        for node_id, data in contents.items():
            assert data == first, f"{key} differs on node {node_id}: {len(data)} bytes, not {len(first)}"
        here = self.final[key] = values_of(first)
        for offset, value in self.at_risk[key].items():
            self.marks["acknowledged lost"] += here.get(offset) != value
        for offset, value in self.acknowledged[key].items():
            if offset < start:
                continue
            now = here.get(offset)
            assert now == value, f"AcknowledgedLost: {key} at {offset} has {now!r}, not {value!r}"


def _check_parts(node: SimNode) -> None:
    """Assert the invariants of parts that are not specific to a partition."""
    node.manager.registry.check()
    node.running.replicas.fetchers.check()
    node.running.replicas.moves.check()


def _committed_batches(seen: _Seen, log: Log, start: int, end: int) -> Iterator[Stored]:
    """The batches of a log from `start` to `end`. Those that were read since they were appended are taken
    from `seen`, which forgets them; the others are read."""
    batches = seen.batches
    while batches and batches[0].base_offset < start:
        batches.popleft()
    if not batches or batches[0].base_offset > start or seen.end < end:
        yield from stored(log, start, end)
        return
    while batches and batches[0].next_offset <= end:
        yield batches.popleft()
    assert not batches or batches[0].base_offset >= end, f"LogReadable: a batch reaches across {end}"


def registration_of(image: MetadataImage, key: Key) -> PartitionRegistration | None:
    """The registration of a partition in an image, None if it has none."""
    topic = image.topics.get(key[0])
    if topic is None or key[1] >= len(topic.partitions):
        return None
    return topic.partitions[key[1]]
