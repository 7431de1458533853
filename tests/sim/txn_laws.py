"""The laws of groups and transactions in a simulated cluster, and the clients under which they are tried.

During the run: in one generation of a group a partition has one owner; who asks for committed offsets gets
none from before what was acknowledged, and none that nobody committed. At the end: transactions are visible
whole or not at all, as their producers were told; nothing hangs; what was copied is there exactly once and in
order; and each coordinator's state is what its log says. Reads of aborted records, orders and duplicates are
the history's to find.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from headrace.clients.consumer.requests import READ_COMMITTED
from headrace.clients.group.states import MemberState
from headrace.coordinators.assembly import CODEC
from headrace.coordinators.group.consumer_group import ConsumerGroup
from headrace.coordinators.runtime.hosted_shard import ShardState
from headrace.coordinators.runtime.loading import digest
from headrace.coordinators.txn.shard import TransactionShard
from headrace.protocol.model import TopicPartition
from history import Outcome
from log_contents import buffers
from sim_clients import SimConsumer
from sim_members import COPY_OF, READERS, Asker, Copier, CopierSeat, SimMember
from sim_transactions import COPY, SOURCE, Seat

if TYPE_CHECKING:
    from cluster import SimCluster
    from headrace.protocol.messages.groups import CommittedOffset
    from history import Op
    from sim_members import Reads


class Watcher(SimConsumer):
    """Reads along, only what is committed."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        super().__init__(cluster, name, may_seek=False, isolation=READ_COMMITTED)
        self.topics = [SOURCE, COPY]
        self.found: dict[tuple[str, int], list[bytes]] = defaultdict(list)  # all that was read, in order
        self._told = 0  # operations that are in it

    def _take(self) -> None:
        super()._take()
        polls = self.process.ops[self._told :]
        self._told += len(polls)
        for poll in (poll for op in polls for poll in op.polls):
            self.found[poll.key].extend(value for _, value in poll.reads)  # type: ignore[index]


class Groups:
    """The clients, and what was seen of them."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}
        self._floors: dict[tuple[str, TopicPartition], int] = {}
        self._asked: dict[tuple[str, TopicPartition], Counter[int]] = defaultdict(Counter)
        self._read: dict[tuple[str, TopicPartition], set[bytes]] = defaultdict(set)
        self._ops: list[Op] = []
        self.watcher = Watcher(cluster, "watcher")
        self.seats = [Seat(cluster, "x0"), Seat(cluster, "x1")]
        self.copiers = [CopierSeat(cluster, "y0"), CopierSeat(cluster, "y1")]
        self.readers = [SimMember(cluster, f"r{n}", READERS) for n in range(2)]
        self.asker = Asker(cluster)

    @property
    def clients(self) -> list[Any]:
        """All who are to begin."""
        return [self.watcher, *self.seats, *self.copiers, *self.readers, self.asker]

    def names(self) -> list[str]:
        """Of all who are there now."""
        producers = [each for seat in (*self.seats, *self.copiers) for each in seat.producers]
        members = [each.member for each in producers if isinstance(each, Copier)]
        living = [each for each in producers if not each.has_ended]
        return [client.name for client in (self.watcher, *self.readers, self.asker, *living, *members)]

    # --- what happens -------------------------------------------------------------------------------------

    def begun(self, op: Op) -> None:
        """A transaction."""
        self._ops.append(op)

    def check_owners(self, member: SimMember) -> None:
        """OneOwner: in one generation a partition belongs to one member."""
        self._check_assigned()
        core = member.core
        # In any other state a classic member may still have what an earlier generation gave it. An empty
        # group of one protocol makes room for one of the other, which counts generations anew.
        is_mixed = self._cluster.plan.groups == "mixed"
        if is_mixed or not core.is_member or core.state is not MemberState.STABLE:
            return
        who = core.config.group_instance_id or core.member_id  # a static member comes back under another id
        for tp in core.owned:
            owner = self._owners.setdefault((member.group, core.generation_id, tp), who)
            assert owner == who, f"OneOwner: {owner} and {who} own {tp} in generation {core.generation_id}"

    def _check_assigned(self) -> None:
        """OneOwner, as the coordinators of the new protocol have it: what one still has, no other has."""
        for node in self._cluster.nodes.values():
            coordinators: Any = None if node.core is None else node.core.coordinators._coordinators
            for hosted in () if coordinators is None else coordinators._shards.values():
                for group in getattr(hosted._shard, "groups", {}).values():
                    if isinstance(group, ConsumerGroup):
                        _check_group(group)

    def asked(self, member: SimMember, offsets: tuple[CommittedOffset, ...]) -> None:
        """A member asks to commit these, outside of a transaction; the request may come late."""
        for each in offsets:
            self._asked[member.group, TopicPartition(each.topic, each.partition)][each.offset] += 1

    def committed(self, group: str, offsets: tuple[CommittedOffset, ...]) -> None:
        """They were told to be safe; the request will not come again."""
        for each in offsets:
            key = (group, TopicPartition(each.topic, each.partition))
            self._floors[key] = max(self._floors.get(key, -1), each.offset)
            self._asked[key][each.offset] -= 1

    def floor(self, group: str, tp: TopicPartition) -> int:
        """Up to where the group has committed, at least."""
        return self._floors.get((group, tp), -1)

    def check_fetched(self, group: str, tp: TopicPartition, offset: int, floor: int) -> None:
        """OffsetsKept: not lower than what was acknowledged before, unless an older request came late."""
        is_late = self._asked[group, tp][offset] > 0
        assert offset >= floor or is_late, f"OffsetsKept: {group} is at {offset} of {tp}, not {floor}"
        self._cluster.rules.marks["offsets fetched"] += offset > 0

    def read_by(self, member: SimMember, reads: Reads) -> None:
        """A member of a group without transactions has these."""
        for tp, found in reads.items():
            self._read[member.group, tp].update(value for _, value in found)

    # --- the end ------------------------------------------------------------------------------------------

    def is_watched(self) -> bool:
        """Whether who reads what is committed has come to the end of all logs: nothing is open any more."""
        image = self._cluster.rules.image
        positions = self.watcher.positions()
        keys = [(name, n) for name in (SOURCE, COPY) for n in range(len(image.topics[name].partitions))]
        return all(positions.get(key, 0) >= self._cluster.end_of(key) for key in keys)

    def is_copied(self) -> bool:
        """Whether all has been copied, and read by the readers."""
        if not self.is_watched():
            return False
        values = self.watcher.found
        for (topic, number), found in values.items():
            if topic != SOURCE:
                continue
            if len(values.get((COPY, number), ())) < len(found):
                return False
            if not self._read_of(number).issuperset(found):
                return False
        return True

    def _read_of(self, number: int) -> set[bytes]:
        return {value for (_, tp), found in self._read.items() if tp.partition == number for value in found}

    def end(self) -> None:
        """After everything is healed. Errors: AssertionError for what does not end, or is wrong."""
        cluster, patience_ms = self._cluster, self._cluster.plan.patience_ms
        for seat in self.seats:
            seat.is_sending = False
        cluster.require(
            patience_ms, lambda: all(seat.is_done for seat in self.seats), "HangingTransaction: a producer"
        )
        cluster.require(patience_ms, self.is_watched, f"HangingTransaction: {self.watcher.positions()}")
        self._check_aborted()
        cluster.require(patience_ms, self.is_copied, "NotCopied")
        for seat in self.copiers:
            seat.is_sending = False
        cluster.require(
            patience_ms, lambda: all(seat.is_done for seat in self.copiers), "a copier waits for ever"
        )
        cluster.require(patience_ms, self.is_watched, f"HangingTransaction: {self.watcher.positions()}")
        for reader in (*self.readers, self.asker):
            reader.stop()
        self._check_aborted()
        self._check_whole()
        self._check_copies()

    def _check_aborted(self) -> None:
        """AllOrNothing, as far as it is known already: nothing that was aborted is there."""
        seen = {value for found in self.watcher.found.values() for value in found}
        for op in self._ops:
            there = [send.value for send in op.sends if send.value in seen]
            assert op.outcome is not Outcome.FAIL or not there, f"AllOrNothing: {there} were aborted"

    def _check_whole(self) -> None:
        """AllOrNothing: as the producer was told, and if it was told nothing, whole or not at all."""
        seen = {value for found in self.watcher.found.values() for value in found}
        for op in self._ops:
            values = [send.value for send in op.sends]
            there = [value for value in values if value in seen]
            if op.outcome is Outcome.OK:
                assert there == values, f"AllOrNothing: of a committed transaction only {there} of {values}"
            elif op.outcome is not Outcome.FAIL:
                assert there in ([], values), f"AllOrNothing: {there} of {values}"

    def check_coordinators(self) -> None:
        """CoordinatorState: what a coordinator goes by is what its log says, however it came to know it."""
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
        """ExactlyOnce: the copy is the source."""
        values = self.watcher.found
        for (topic, number), found in list(values.items()):
            if topic == SOURCE:
                copied = [value.split(COPY_OF)[1] for value in values.get((COPY, number), ())]
                assert copied == found, (
                    f"ExactlyOnce: {number}: {len(copied)} copies of {len(found)}: {copied} {found}"
                )


def _check_group(group: ConsumerGroup) -> None:
    owners: dict[tuple[bytes, int], str] = {}
    for name, member in group.members.items():
        for topic, numbers in (*member.assigned.items(), *member.pending.items()):
            for number in numbers:
                owner = owners.setdefault((topic, number), name)
                assert owner == name, f"OneOwner: {owner} and {name} are to have partition {number}"


def _state_of(shard: Any) -> dict[Any, Any]:
    """What a coordinator's answers rest on: transactions, or offsets and the names of groups."""
    if isinstance(shard, TransactionShard):
        return {name: transaction.value for name, transaction in shard.transactions.items()}
    offsets = {group: dict(found) for group, found in shard.store._committed.items() if found}
    held = {producer: each.offsets for producer, each in shard.store._transactions.items()}
    return {"offsets": offsets, "held": held, "groups": sorted(shard.groups)} if offsets else {}
