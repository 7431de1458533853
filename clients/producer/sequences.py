"""Producer id, epoch and sequence numbers of the batches of an idempotent producer. Step shape, pure.

A batch gets its sequence before its first attempt, and keeps it on retries: so the leader recognises a
duplicate. From then until its outcome the batch is *in flight*. A partition has at most five batches in
flight, because a leader remembers five, and must remember the first one when it is sent again. A retry waits
until all earlier batches have their outcome. Until the leader has acknowledged a first batch, only one is in
flight: a leader without producer state accepts any sequence, and could append a second batch before a lost
first one.

A batch that fails leaves its sequence *unresolved*: it is missing in the log, unless the batch was stored all
the same. No new batch is sent until a later one is acknowledged (nothing is missing), or none is in flight,
or the leader answers the first one in flight with OUT_OF_ORDER_SEQUENCE. If an earlier attempt of that batch
may be in the log, it fails too: the leader may have lost its producer state (Kafka's does on restart).
Otherwise a sequence is missing: the epoch is raised, and the batches in flight are renumbered from 0, once
they are in no request. So a batch that may be stored is never renumbered. In a transaction no batch is
renumbered: the transaction fails, and the next one has another epoch.

Invariant: a (producer id, epoch, sequence) of a partition stands for one record only.
Source: Kafka TransactionManager.java, TxnPartitionEntry.java; KIP-98, KIP-360, KAFKA-14034.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .batches import Identity, Stamp

if TYPE_CHECKING:
    from .batches import Batch, PartitionQueue

WINDOW = 5  # batches of a producer that a leader remembers
MAX_SEQUENCE = 2**31 - 1  # after it comes 0
MAX_EPOCH = 2**15 - 1


class Track:
    """One partition. `next_number` counts records without limit; a sequence is a number modulo 2^31."""

    __slots__ = (
        "acked_end",
        "identity",
        "in_flight",
        "needs_renumbering",
        "next_number",
        "on_wire",
        "turn",
        "unresolved_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.in_flight: list[Batch] = []  # by number
        self.on_wire = 0  # how many of them are in a request
        self.turn = 0  # how many batches were sent so far
        self.needs_renumbering = False
        self.begin(None)

    def begin(self, identity: Identity | None) -> None:
        """Restart the numbers at 0 under this identity."""
        self.identity = identity
        self.next_number = 0
        self.acked_end = 0  # after the last acknowledged record
        self.unresolved_end: int | None = None  # after the last failed batch


class Sequences:
    """The sequences of one producer. Without `identity` no batch is sent; see `on_identity`."""

    def __init__(self, *, is_transactional: bool) -> None:
        self.identity: Identity | None = None
        self.is_transactional = is_transactional
        self.bumps = 0
        self._tracks: dict[PartitionQueue, Track] = {}
        self._renumbering: dict[PartitionQueue, None] = {}  # an ordered set

    def on_identity(self, identity: Identity) -> list[PartitionQueue]:
        """Use this producer id and epoch. Gives the queues whose first batch may be sent now."""
        self.identity = identity
        return list(self._tracks)

    def must_wait(self, queue: PartitionQueue) -> bool:
        """Whether the first batch of the queue, or a new one, has to wait for others."""
        track = self._tracks.get(queue)
        if track is None:
            return False
        if track.needs_renumbering:
            return True
        in_flight = track.in_flight
        if queue.batches and queue.batches[0].stamp is not None:
            return in_flight[0] is not queue.batches[0]
        if not in_flight:
            return False
        window = WINDOW if track.acked_end else 1
        is_full = track.turn - in_flight[0].turn >= window
        return is_full or track.unresolved_end is not None or track.identity != self.identity

    def taken(self, batch: Batch) -> None:
        """The batch goes into a request. Before its first attempt it gets its sequence."""
        track = self._tracks.get(batch.queue)
        if track is None:
            track = self._tracks[batch.queue] = Track()
        if batch.stamp is None:
            assert self.identity is not None, "no batch is sent without a producer id"
            if track.identity != self.identity:
                assert not track.in_flight, "an epoch begins without batches of the last one in flight"
                track.begin(self.identity)
            self._number(track, batch)
            batch.turn = track.turn
            track.turn += 1
            track.in_flight.append(batch)
        track.on_wire += 1

    def request_ended(self, batch: Batch) -> None:
        """The request of the batch has ended."""
        self._tracks[batch.queue].on_wire -= 1

    def is_first(self, batch: Batch) -> bool:
        """Whether no earlier batch is in flight, so that OUT_OF_ORDER_SEQUENCE means a missing sequence."""
        return self._tracks[batch.queue].in_flight[:1] == [batch]

    def acked(self, batch: Batch) -> None:
        """The batch is in the log, and so are all earlier ones."""
        track = self._tracks[batch.queue]
        end = batch.number + batch.count
        if batch in track.in_flight:
            track.in_flight.remove(batch)
            track.acked_end = max(track.acked_end, end)
            if track.unresolved_end is not None and end >= track.unresolved_end:
                track.unresolved_end = None
        self._settle(batch.queue, track)

    def failed(self, batch: Batch) -> None:
        """The batch has failed; it may be in the log."""
        track = self._tracks[batch.queue]
        if batch in track.in_flight:
            track.in_flight.remove(batch)
            track.unresolved_end = max(track.unresolved_end or 0, batch.number + batch.count)
        self._settle(batch.queue, track)

    def has_gap(self, queue: PartitionQueue) -> None:
        """A sequence before the first batch in flight is missing in the log: renumber as soon as possible."""
        self._tracks[queue].needs_renumbering = True
        self._renumbering[queue] = None

    def split(self, batch: Batch, parts: list[Batch]) -> None:
        """Replace the batch by its parts, with its numbers."""
        track = self._tracks[batch.queue]
        place = track.in_flight.index(batch)
        track.in_flight[place : place + 1] = parts
        number = batch.number
        assert batch.stamp is not None
        for part in parts:
            part.number, part.turn = number, batch.turn
            part.stamp = batch.stamp._replace(base_sequence=number & MAX_SEQUENCE)
            number += part.count

    def shortened(self, batch: Batch, part: Batch) -> None:
        """Replace the batch by `part`, the batch without rejected records, with its first numbers.

        No attempt of the batch was stored, so no number stands for two records. If a later batch has its
        numbers already, the numbers between are missing, which the leader reports for that batch.
        """
        assert not self.is_transactional, "a transaction with a rejected record has failed"
        track = self._tracks[batch.queue]
        track.in_flight[track.in_flight.index(batch)] = part
        part.number, part.turn, part.stamp = batch.number, batch.turn, batch.stamp
        if track.next_number == batch.number + batch.count:
            track.next_number = part.number + part.count

    def renumber(self) -> list[PartitionQueue]:
        """Renumber the partitions that need it and have no batch in a request. Gives the queues whose first
        batch may be sent now."""
        done, before = [], self.identity
        for queue in list(self._renumbering):
            track = self._tracks[queue]
            if track.on_wire:
                continue
            if track.identity == self.identity:
                self._bump()
            if self.identity is None:
                break
            del self._renumbering[queue]
            track.needs_renumbering = False
            track.begin(self.identity)
            for batch in track.in_flight:
                batch.is_in_doubt = False  # the first one is not in the log, so none is
                self._number(track, batch)
            done.append(queue)
        return done if self.identity == before else list(self._tracks)

    def forget(self) -> None:
        """The producer has ended; responses may still arrive."""
        for track in self._tracks.values():
            track.in_flight.clear()
            track.unresolved_end, track.needs_renumbering = None, False
        self._renumbering.clear()

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for queue, track in self._tracks.items():
            numbers = [batch.number for batch in track.in_flight]
            assert numbers == sorted(numbers), "in flight in order"
            assert len(set(numbers)) == len(numbers), "one number, one batch"
            assert track.on_wire >= 0
            queued = [batch for batch in queue.batches if batch.stamp is not None]
            assert queued == list(queue.batches)[: len(queued)], "retries come first"
            assert queued == [batch for batch in track.in_flight if batch in queued], "and in order"

    def _number(self, track: Track, batch: Batch) -> None:
        assert self.identity is not None
        batch.number = track.next_number
        sequence = track.next_number & MAX_SEQUENCE
        batch.stamp = Stamp(*self.identity, sequence, self.is_transactional)
        track.next_number += batch.count

    def _settle(self, queue: PartitionQueue, track: Track) -> None:
        """Without batches in flight an unresolved sequence is taken for missing."""
        if track.in_flight or track.unresolved_end is None:
            return
        if self.is_transactional:
            return  # the transaction has failed; no batch is sent before the next epoch
        self.has_gap(queue)

    def _bump(self) -> None:
        """Raise the epoch, which a producer without transactions may do itself (KIP-360)."""
        assert self.identity is not None
        self.bumps += 1
        producer_id, epoch = self.identity
        self.identity = Identity(producer_id, epoch + 1) if epoch < MAX_EPOCH else None
