"""The laws of groups and transactions in a simulated cluster, and the clients that exercise them.

- OneOwner: in one generation of a group a partition has one owner.
- OffsetsKept: OffsetFetch returns no offset below an acknowledged commit.
- AllOrNothing: a committed transaction is visible with all its records, an aborted one with none.
- HangingTransaction: after the faults have healed every transaction ends.
- NotCopied, ExactlyOnce: the copy of a topic has each of its records once and in order.
- CoordinatorState: a coordinator's state equals the replay of its log.

The history finds reads of aborted records, wrong orders and duplicates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from headrace.clients.group.states import MemberState
from headrace.coordinators.assembly import CODEC
from headrace.coordinators.group.consumer_group import ConsumerGroup
from headrace.coordinators.runtime.hosted_shard import ShardState
from headrace.coordinators.runtime.loading import digest
from headrace.coordinators.txn.shard import TransactionShard
from headrace.coordinators.txn.states import ENDING
from headrace.protocol.model import READ_COMMITTED, TopicPartition
from history import Outcome
from log_contents import buffers
from sim_clients import SimConsumer
from sim_members import COPY_OF, READERS, Copier, CopyingApp, OffsetPoller, SimMember
from sim_streams import StreamsLaws, state_of
from sim_transactions import COPY, SOURCE, TransactionalApp

if TYPE_CHECKING:
    from collections.abc import Collection

    from cluster import SimCluster
    from headrace.protocol.messages.groups import CommittedOffset
    from history import Op
    from sim_members import Reads
    from sim_node import SimNode


class Watcher(SimConsumer):
    """A consumer with read_committed that reads all partitions and keeps their values."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        super().__init__(cluster, name, may_seek=False, isolation=READ_COMMITTED)
        self.topics = [SOURCE, COPY]
        self.records: dict[tuple[str, int], list[bytes]] = defaultdict(list)  # in the order of reads
        self._taken_ops = 0  # operations whose reads are in it

    def _take(self) -> None:
        super()._take()
        polls = self.process.ops[self._taken_ops :]
        self._taken_ops += len(polls)
        for poll in (poll for op in polls for poll in op.polls):
            self.records[poll.key].extend(value for _, value in poll.reads)  # type: ignore[index]


class Groups:
    """The clients of groups and transactions, and the history that their laws compare with."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}
        self._floors: dict[tuple[str, TopicPartition], int] = {}
        self._asked: dict[tuple[str, TopicPartition], Counter[int]] = defaultdict(Counter)
        self._read: dict[int, set[bytes]] = defaultdict(set)  # by partition, by members without transactions
        self._ops: list[Op] = []
        self.watcher = Watcher(cluster, "watcher")
        self.apps = [TransactionalApp(cluster, "x0"), TransactionalApp(cluster, "x1")]
        self.copiers = [CopyingApp(cluster, "y0"), CopyingApp(cluster, "y1")]
        is_streams = cluster.plan.groups == "streams"
        self.readers = [SimMember(cluster, f"r{n}", READERS) for n in range(3 if is_streams else 2)]
        self.streams = StreamsLaws(cluster) if is_streams else None
        self.may_die = True  # threads of streams applications
        self.offset_poller = OffsetPoller(cluster)

    @property
    def clients(self) -> list[Any]:
        """The clients that the cluster starts."""
        return [self.watcher, *self.apps, *self.copiers, *self.readers, self.offset_poller]

    def names(self) -> list[str]:
        """The names of all live clients."""
        producers = [each for app in (*self.apps, *self.copiers) for each in app.producers]
        members = [each.member for each in producers if isinstance(each, Copier)]
        living = [each for each in producers if not each.has_ended]
        return [
            client.name for client in (self.watcher, *self.readers, self.offset_poller, *living, *members)
        ]

    def _members(self) -> list[SimMember]:
        producers = [each for app in self.copiers for each in app.producers]
        return [*self.readers, *(each.member for each in producers if isinstance(each, Copier))]

    # --- during the run -----------------------------------------------------------------------------------

    def begun(self, op: Op) -> None:
        """Note the begin of a transaction."""
        self._ops.append(op)

    def check_owners(self, member: SimMember) -> None:
        """OneOwner: in one generation a partition belongs to one member."""
        self._check_assigned()
        if self.streams is not None:
            self.streams.check(self._members())
        core = member.core
        # In any other state a classic member may still own partitions of an earlier generation. In mixed runs
        # an empty group may be replaced by one of the other protocol, whose generations start again.
        is_mixed = self._cluster.plan.groups == "mixed"
        if is_mixed or not core.is_member or core.state is not MemberState.STABLE:
            return
        # a static member may rejoin with another member id
        member_name = core.config.group_instance_id or core.member_id
        for tp in core.owned:
            owner = self._owners.setdefault((member.group, core.generation_id, tp), member_name)
            assert owner == member_name, (
                f"OneOwner: {owner} and {member_name} own {tp} in generation {core.generation_id}"
            )

    def _check_assigned(self) -> None:
        """OneOwner in the state of coordinators of the new protocol: a partition that one member has not
        revoked yet is assigned to no other."""
        for node in self._cluster.nodes.values():
            for hosted in _hosted(node):
                for group in getattr(hosted._shard, "groups", {}).values():
                    if isinstance(group, ConsumerGroup):
                        _check_group(group)

    def asked(self, member: SimMember, offsets: tuple[CommittedOffset, ...]) -> None:
        """Note an OffsetCommit of a member outside of a transaction; the request may arrive late."""
        for each in offsets:
            self._asked[member.group, TopicPartition(each.topic, each.partition)][each.offset] += 1

    def committed(self, group: str, offsets: tuple[CommittedOffset, ...]) -> None:
        """Note the acknowledgement of an OffsetCommit, which will not be retried."""
        for each in offsets:
            key = (group, TopicPartition(each.topic, each.partition))
            self._floors[key] = max(self._floors.get(key, -1), each.offset)
            self._asked[key][each.offset] -= 1

    def floor(self, group: str, tp: TopicPartition) -> int:
        """The highest acknowledged offset of the group, -1 if there is none."""
        return self._floors.get((group, tp), -1)

    def check_fetched(self, group: str, tp: TopicPartition, offset: int, floor: int) -> None:
        """OffsetsKept: not below an acknowledged offset, unless an older request arrived late."""
        is_late = self._asked[group, tp][offset] > 0
        assert offset >= floor or is_late, f"OffsetsKept: {group} is at {offset} of {tp}, not {floor}"
        self._cluster.rules.marks["offsets fetched"] += offset > 0

    def read_by(self, reads: Reads) -> None:
        """Note the records that a member of a group without transactions has read."""
        for tp, records in reads.items():
            self._read[tp.partition].update(value for _, value in records)

    # --- the end ------------------------------------------------------------------------------------------

    def is_watched(self) -> bool:
        """Whether the read_committed watcher has reached the end of all logs, so that no transaction is
        open."""
        topics = self._cluster.rules.image.topics
        keys = [(name, n) for name in (SOURCE, COPY) for n in range(len(topics[name].partitions))]
        return self._cluster.have_read((self.watcher, key) for key in keys)

    def is_copied(self) -> bool:
        """Whether every record was copied, and read by the readers."""
        if not self.is_watched():
            return False
        values = self.watcher.records
        for (topic, number), records in values.items():
            if topic != SOURCE:
                continue
            if len(values.get((COPY, number), ())) < len(records):
                return False
            if not self._read[number].issuperset(records):
                return False
        return True

    def end(self) -> None:
        """Check the laws after the faults have healed. Errors: AssertionError for a broken law."""
        cluster, patience_ms = self._cluster, self._cluster.plan.patience_ms
        for app in self.apps:
            app.is_sending = False
        cluster.require(
            patience_ms, lambda: all(app.is_done for app in self.apps), "HangingTransaction: a producer"
        )
        cluster.require(patience_ms, self.is_watched, f"HangingTransaction: {self.watcher.positions()}")
        self._check_aborted()
        cluster.require(patience_ms, self.is_copied, "NotCopied")
        self.may_die = False
        cluster.require(patience_ms, self._is_assigned, "AllAssigned")
        for app in self.copiers:
            app.is_sending = False
        cluster.require(
            patience_ms, lambda: all(app.is_done for app in self.copiers), "a copier waits for ever"
        )
        cluster.require(patience_ms, self.is_watched, f"HangingTransaction: {self.watcher.positions()}")
        for reader in (*self.readers, self.offset_poller):
            reader.stop()
        self._check_aborted()
        self._check_whole()
        self._check_copies()

    def _is_assigned(self) -> bool:
        """AllAssigned, for streams groups."""
        count = len(self._cluster.rules.image.topics[SOURCE].partitions)
        readers = [each for each in self._members() if each.group == READERS]
        return self.streams is None or self.streams.all_assigned(readers, READERS, count)

    def _check_aborted(self) -> None:
        """AllOrNothing, for transactions with a known outcome: no aborted record was read."""
        seen = {value for records in self.watcher.records.values() for value in records}
        for op in self._ops:
            there = [send.value for send in op.sends if send.value in seen]
            assert op.outcome is not Outcome.FAIL or not there, f"AllOrNothing: {there} were aborted"

    def _check_whole(self) -> None:
        """AllOrNothing: the reads agree with the producer's outcome; if that is unknown, all records or
        none."""
        seen = {value for records in self.watcher.records.values() for value in records}
        for op in self._ops:
            values = [send.value for send in op.sends]
            there = [value for value in values if value in seen]
            if op.outcome is Outcome.OK:
                assert there == values, f"AllOrNothing: of a committed transaction only {there} of {values}"
            elif op.outcome is not Outcome.FAIL:
                assert there in ([], values), f"AllOrNothing: {there} of {values}"

    def are_settled(self) -> bool:
        """Whether all coordinators are loaded, and no decided transaction waits for its markers."""
        shards = [hosted for node in self._cluster.nodes.values() for hosted in _hosted(node)]
        return all(hosted.state is ShardState.ACTIVE for hosted in shards) and not any(
            transaction.state in ENDING
            for hosted in shards
            if isinstance(hosted._shard, TransactionShard)
            for transaction in hosted._shard.transactions.values()
        )

    def check_coordinators(self) -> None:
        """CoordinatorState: a coordinator's state equals the state replayed from its log."""
        for node in self._cluster.nodes.values():
            coordinators: Any = node.running.coordinators._coordinators
            for hosted in coordinators._shards.values():
                assert hosted.state is ShardState.ACTIVE, f"CoordinatorState: {hosted.name} {hosted.state}"
                log = node.log_of(tuple(hosted.name))
                assert log is not None
                again = coordinators._makers[hosted.name.topic](hosted.name.partition, hosted)
                data = list(buffers(log, log.log_start_offset, log.log_end_offset))
                for item in digest(data, CODEC.decode).replayed:
                    if item.record is None:
                        again.replay_marker(item.producer, is_commit=item.is_commit, offset=item.offset)
                    else:
                        again.replay(item.record, item.offset, item.producer)
                here, there = _state_of(hosted._shard), _state_of(again)
                assert here == there, f"CoordinatorState: {hosted.name} has {here}, its log {there}"
                marks = self._cluster.rules.marks
                marks["coordinator checked"] += len(here) > 0
                marks["coordinator log cleaned"] += bool(log.compaction.cleaner_offset)

    def _check_copies(self) -> None:
        """ExactlyOnce: the copy has the records of the source, in order."""
        values = self.watcher.records
        for (topic, number), records in list(values.items()):
            if topic == SOURCE:
                copied = [value.split(COPY_OF)[1] for value in values.get((COPY, number), ())]
                assert copied == records, (
                    f"ExactlyOnce: {number}: {len(copied)} copies of {len(records)}: {copied} {records}"
                )


def _hosted(node: SimNode) -> Collection[Any]:
    """The coordinators on a node."""
    coordinators: Any = None if node.core is None else node.core.coordinators._coordinators
    return () if coordinators is None else coordinators._shards.values()


def _check_group(group: ConsumerGroup) -> None:
    owners: dict[tuple[bytes, int], str] = {}
    for name, member in group.members.items():
        for topic, numbers in (*member.assigned.items(), *member.pending.items()):
            for number in numbers:
                owner = owners.setdefault((topic, number), name)
                assert owner == name, f"OneOwner: {owner} and {name} are both assigned partition {number}"


def _state_of(shard: Any) -> dict[Any, Any]:
    """The state that a coordinator's responses use: transactions, or offsets and group names."""
    if isinstance(shard, TransactionShard):
        return {name: transaction.value for name, transaction in shard.transactions.items()}
    offsets = {group: dict(each) for group, each in shard.store._committed.items() if each}
    held = {producer: each.offsets for producer, each in shard.store._transactions.items()}
    groups = {name: state_of(group) for name, group in sorted(shard.groups.items())}
    return {"offsets": offsets, "held": held, "groups": groups} if offsets else {}
