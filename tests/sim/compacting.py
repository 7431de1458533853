"""A compacted topic in a simulated cluster: its producer, its consumer, and its laws.

Each replica cleans its log independently, so the bytes of the logs differ.
- CompactedTable: all replicas have the same last value of each key, and a consumer that never lags for longer
  than delete.retention.ms has the same table, deletions included.
- CompactedLost: the last acknowledged value of each key, or a later one, is in the log at its offset.
- CompactedRead, CompactedOrder: offsets increase, in reads and in the log.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster_laws import COMPACTED
from headrace.protocol.records.codec import active_codec
from sim_clients import SimConsumer, SimProducer

if TYPE_CHECKING:
    from cluster import SimCluster
    from headrace.clients.producer.effects import Resolve
    from headrace.storage_node.log.log import Log

TOPIC = COMPACTED
KEYS = 8
AWAY_MS = 2_000
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "15000",
}
Table = dict[bytes, tuple[int, bytes | None]]  # key: offset and value of its last record


class _Sent(NamedTuple):
    key: bytes
    value: bytes | None


class KeyedProducer(SimProducer):
    """Sends values and tombstones of a few keys with acks=all."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster, "keyed", -1, cluster.plan.send_gap_ms)
        self.topics = [TOPIC]
        self.safe: dict[int, Table] = defaultdict(dict)  # by partition

    def _send(self, topic: str) -> None:
        count = len(self.view.topics[topic].partitions)
        queue = self.accumulator.set_topic(topic, count).queues[self.random.randrange(count)]
        if queue.open is None and not self.accumulator.open_batch(queue, self.world.now_ms):
            return
        value = None if self.random.random() < 0.2 else b"%d" % self.sent
        sent = _Sent(b"key-%d" % self.random.randrange(KEYS), value)
        if self.accumulator.try_append(queue, self.world.wall_ms, *sent, ()) < 0:
            return
        self.sent += 1
        (queue.open or queue.batches[-1]).delivery.append(sent)

    def _resolve(self, resolved: Resolve) -> None:
        if resolved.error is not None:
            return
        table = self.safe[resolved.batch.queue.partition]
        for index, sent in enumerate(resolved.batch.delivery):
            self.acknowledged += 1
            offset = resolved.base_offset + index
            if offset >= table.get(sent.key, (-1, None))[0]:
                table[sent.key] = offset, sent.value


class Mirror(SimConsumer):
    """A consumer with pauses that keeps the last value of each key in a table."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster, "mirror", may_seek=False)
        self.topics = [TOPIC]
        self.tables: dict[int, Table] = defaultdict(dict)
        self._away_until_ms = 0

    def _poll(self) -> None:
        """Poll, and sometimes pause for `AWAY_MS`, which is less than delete.retention.ms."""
        now_ms = self.world.now_ms
        if now_ms >= self._away_until_ms and self.random.random() < 0.02:
            self._away_until_ms = now_ms + AWAY_MS
        if now_ms >= self._away_until_ms:
            super()._poll()
        else:
            self._poll_in(self._away_until_ms)

    def _take(self) -> None:
        for tp, state in self.fetcher.states.items():
            assert state.error is None, f"CompactedRead: {state.error!r}"
            while state.batches:
                batch, table = state.batches[0], self.tables[tp.partition]
                for record in active_codec().decode(batch.data):
                    if record.offset >= (state.position or 0):
                        before = table.get(record.key or b"", (-1, None))[0]
                        assert record.offset > before, f"CompactedRead: {record.offset} after {before}"
                        table[record.key or b""] = record.offset, record.value
                self.fetcher.batch_consumed(batch)


def table_of(log: Log) -> Table:
    """The last record of each key in a log."""
    read = log.reader.read(log.log_start_offset, 1 << 30, upto_offset=log.log_end_offset)
    found: Table = {}
    offset = -1
    for buffer in read.data:
        view = memoryview(buffer)
        while len(view):
            size = 12 + int.from_bytes(view[8:12], "big")
            for record in active_codec().decode(view[:size]):
                assert record.offset > offset, f"CompactedOrder: {record.offset} after {offset}"
                offset = record.offset
                found[record.key or b""] = offset, record.value
            view = view[size:]
    assert read.next_offset == log.log_end_offset, "CompactedOrder: not all of it is readable"
    return found


def check(cluster: SimCluster, producer: KeyedProducer, mirror: Mirror) -> None:
    """At the end: assert that the tables of all replicas, the consumer and the producer are equal."""
    for number, registration in enumerate(cluster.rules.image.topics[TOPIC].partitions):
        seen = _living(mirror.tables[number])
        for node_id in registration.replicas:
            log = cluster.nodes[node_id].log_of((TOPIC, number))
            assert log is not None, f"{TOPIC}-{number} is not on node {node_id}"
            where, table = f"{TOPIC}-{number} on node {node_id}", table_of(log)
            assert _living(table) == seen, f"CompactedTable: {where} has {_living(table)}, readers {seen}"
            for key, (offset, value) in producer.safe[number].items():
                found = table.get(key)
                if found is None:
                    assert value is None, f"CompactedLost: {where} has no record of {key!r}"
                else:
                    assert found[0] > offset or found == (offset, value), f"CompactedLost: {where} {found}"
            cluster.rules.marks["gaps"] += log.segments[0].size_bytes > 0 and _has_gap(log)


def _living(table: Table) -> Any:
    return {key: at for key, at in table.items() if at[1] is not None}


def _has_gap(log: Log) -> bool:
    return bool(log.compaction.cleaner_offset) and sum(1 for _ in table_of(log)) < log.log_end_offset
