"""Producer id, epoch and sequence numbers of what an idempotent producer sends. Step shape, pure.

A batch gets its sequence when it is taken to be sent for the first time, and keeps it on retry: that is how
the leader tells a repeated batch from a new one. Batches of a partition are *under way* from then until they
have their outcome: the first of them and the four that were taken next, because a leader remembers five, and
must know the first when it comes again. One that has to go again goes when all before it have their outcome.
Until a leader has acknowledged the first batch, one is under way: a leader that does not know the producer
takes any sequence, so that a second batch could come in before a lost first one.

A batch that fails leaves its sequence *unsure*: a gap, or not, if it was stored all the same. No new batch
follows until a later one is acknowledged (no gap), or nothing is left, or the leader says to the first under
way that it is OUT_OF_ORDER_SEQUENCE. If an earlier attempt of that may be in the log, it fails too: a leader
may have forgotten it (Kafka's does when it is started again). Else there is a gap: the epoch is raised, and
what is under way is numbered anew from 0, once no request with it is out. So nothing that may be stored gets
another number. In a transaction nothing is numbered anew: it fails, and the next one has another epoch.

Invariant: a (producer id, epoch, sequence) of a partition stands for one record only.
Source: Kafka TransactionManager.java, TxnPartitionEntry.java; KIP-98, KIP-360, KAFKA-14034.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .batches import Identity, Stamp

if TYPE_CHECKING:
    from .batches import Batch, PartitionQueue

WINDOW = 5  # as many batches of a producer as a leader remembers
MAX_SEQUENCE = 2**31 - 1  # after it comes 0
MAX_EPOCH = 2**15 - 1


class Track:
    """One partition. Batches are counted on without end; a sequence is such a number modulo 2^31."""

    __slots__ = (
        "acked_end", "identity", "is_to_renumber", "next_number", "on_wire", "turn", "under_way",
        "unsure_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.under_way: list[Batch] = []  # in the order of their numbers
        self.on_wire = 0  # how many of them are in a request now
        self.turn = 0  # how many batches were taken so far
        self.is_to_renumber = False
        self.begin(None)

    def begin(self, identity: Identity | None) -> None:
        """Count from 0 on under this identity."""
        self.identity = identity
        self.next_number = 0
        self.acked_end = 0  # behind the last record that was acknowledged
        self.unsure_end: int | None = None  # behind the last batch that failed


class Sequences:
    """The sequences of one producer.

    `identity` None: one has to be asked for, see `on_identity`; nothing is sent before it is there.
    """

    def __init__(self, *, is_transactional: bool) -> None:
        self.identity: Identity | None = None
        self.is_transactional = is_transactional
        self.bumps = 0
        self._tracks: dict[PartitionQueue, Track] = {}
        self._to_renumber: dict[PartitionQueue, None] = {}  # an ordered set

    def on_identity(self, identity: Identity) -> list[PartitionQueue]:
        """Go on as this one. Gives the queues that this may concern: a transaction is over, for instance."""
        self.identity = identity
        return list(self._tracks)

    def holds_back(self, queue: PartitionQueue) -> bool:
        """Whether the first batch of the queue, or the one that would be, has to wait for others."""
        track = self._tracks.get(queue)
        if track is None:
            return False
        if track.is_to_renumber:
            return True
        under_way = track.under_way
        if queue.batches and queue.batches[0].stamp is not None:
            return under_way[0] is not queue.batches[0]
        if not under_way:
            return False
        window = WINDOW if track.acked_end else 1
        is_full = track.turn - under_way[0].turn >= window
        return is_full or track.unsure_end is not None or track.identity != self.identity

    def took(self, batch: Batch) -> None:
        """The batch goes into a request; the first time it gets its sequence."""
        track = self._tracks.get(batch.queue)
        if track is None:
            track = self._tracks[batch.queue] = Track()
        if batch.stamp is None:
            assert self.identity is not None, "nothing is sent without a producer id"
            if track.identity != self.identity:
                assert not track.under_way, "an epoch begins when nothing of the last one is under way"
                track.begin(self.identity)
            self._number(track, batch)
            batch.turn = track.turn
            track.turn += 1
            track.under_way.append(batch)
        track.on_wire += 1

    def came_back(self, batch: Batch) -> None:
        """The request with the batch is over, whatever came of it."""
        self._tracks[batch.queue].on_wire -= 1

    def is_first(self, batch: Batch) -> bool:
        """Whether no earlier batch is under way, so that what the leader says of its place counts."""
        return self._tracks[batch.queue].under_way[:1] == [batch]

    def acked(self, batch: Batch) -> None:
        """The batch is in the log, and so is every one before it."""
        track = self._tracks[batch.queue]
        end = batch.number + batch.count
        if batch in track.under_way:
            track.under_way.remove(batch)
            track.acked_end = max(track.acked_end, end)
            if track.unsure_end is not None and end >= track.unsure_end:
                track.unsure_end = None
        self._settle(batch.queue, track)

    def failed(self, batch: Batch) -> None:
        """The batch is given up; it may be in the log."""
        track = self._tracks[batch.queue]
        if batch in track.under_way:
            track.under_way.remove(batch)
            track.unsure_end = max(track.unsure_end or 0, batch.number + batch.count)
        self._settle(batch.queue, track)

    def has_gap(self, queue: PartitionQueue) -> None:
        """The leader lacks what comes before the first batch under way: number anew, as soon as possible."""
        self._tracks[queue].is_to_renumber = True
        self._to_renumber[queue] = None

    def split(self, batch: Batch, parts: list[Batch]) -> None:
        """The parts take the place of the batch and share its numbers."""
        track = self._tracks[batch.queue]
        place = track.under_way.index(batch)
        track.under_way[place : place + 1] = parts
        number = batch.number
        assert batch.stamp is not None
        for part in parts:
            part.number, part.turn = number, batch.turn
            part.stamp = batch.stamp._replace(base_sequence=number & MAX_SEQUENCE)
            number += part.count

    def shortened(self, batch: Batch, part: Batch) -> None:
        """`part`, the batch without refused records, takes its place and its first numbers.

        No attempt of the batch was stored, so no number stands for two records. If a later batch has its
        numbers already, a gap is left before it, which the leader finds when that batch comes.
        """
        assert not self.is_transactional, "a transaction with a refused record has failed"
        track = self._tracks[batch.queue]
        track.under_way[track.under_way.index(batch)] = part
        part.number, part.turn, part.stamp = batch.number, batch.turn, batch.stamp
        if track.next_number == batch.number + batch.count:
            track.next_number = part.number + part.count

    def renumber(self) -> list[PartitionQueue]:
        """Number anew what waits for it and can be. Gives the queues that this may concern."""
        done, before = [], self.identity
        for queue in list(self._to_renumber):
            track = self._tracks[queue]
            if track.on_wire:
                continue
            if track.identity == self.identity:
                self._bump()
            if self.identity is None:
                break
            del self._to_renumber[queue]
            track.is_to_renumber = False
            track.begin(self.identity)
            for batch in track.under_way:
                batch.is_in_doubt = False  # the first of them is not in the log, so none is
                self._number(track, batch)
            done.append(queue)
        return done if self.identity == before else list(self._tracks)

    def forget(self) -> None:
        """Everything is over; answers may still come."""
        for track in self._tracks.values():
            track.under_way.clear()
            track.unsure_end, track.is_to_renumber = None, False
        self._to_renumber.clear()

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for queue, track in self._tracks.items():
            numbers = [batch.number for batch in track.under_way]
            assert numbers == sorted(numbers), "under way in order"
            assert len(set(numbers)) == len(numbers), "one number, one batch"
            assert track.on_wire >= 0
            queued = [batch for batch in queue.batches if batch.stamp is not None]
            assert queued == list(queue.batches)[: len(queued)], "what was sent before comes first"
            assert queued == [batch for batch in track.under_way if batch in queued], "and in order"

    def _number(self, track: Track, batch: Batch) -> None:
        assert self.identity is not None
        batch.number = track.next_number
        sequence = track.next_number & MAX_SEQUENCE
        batch.stamp = Stamp(*self.identity, sequence, self.is_transactional)
        track.next_number += batch.count

    def _settle(self, queue: PartitionQueue, track: Track) -> None:
        """With nothing under way it is known whether there is a gap."""
        if track.under_way or track.unsure_end is None:
            return
        if self.is_transactional:
            return  # the transaction has failed; nothing is sent before the next epoch
        self.has_gap(queue)

    def _bump(self) -> None:
        """The next epoch; the producer's own to choose, as long as it is in no transaction (KIP-360)."""
        assert self.identity is not None
        self.bumps += 1
        producer_id, epoch = self.identity
        self.identity = Identity(producer_id, epoch + 1) if epoch < MAX_EPOCH else None
