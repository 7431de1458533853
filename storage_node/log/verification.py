"""Transactions that their coordinator is being asked about, by producer. Pure.

A leader takes the first batch of a transaction only once the coordinator knows that the partition is in it;
otherwise a batch that comes late would open a transaction that nobody ends. Each question gets a guard, which
the append must show: if meanwhile a marker came, the guard is void, and so is the coordinator's answer.
Source: Kafka VerificationStateEntry.java, VerificationGuard.java; KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from ...protocol.errors import OutOfOrderSequenceNumberError

if TYPE_CHECKING:
    from .producer_state import Producer

# Bound: producers of one log that are asked about, or were in vain; the oldest are forgotten first.
MAX_VERIFICATIONS = 10_000
NO_GUARD = 0  # shown by who has not asked
UNCHECKED = -1  # shown where nobody is to be asked
NO_TRANSACTION = -2  # shown by who has no transactional id: then no batch may be transactional


@dataclass(slots=True)
class Verification:
    """One question. The lowest sequence is kept, so that when a batch could not be verified, those that were
    sent behind it are not taken before it."""

    guard: int
    epoch: int
    lowest_sequence: int
    bumps_epoch: bool  # transaction version 2
    begun_ms: int

    def heard(self, epoch: int, sequence: int) -> None:
        """One more batch waits for the answer."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def check_sequence(self, producer: Producer | None, producer_id: int, first: int) -> None:
        """Errors: OutOfOrderSequenceNumberError."""
        is_unknown = producer is None or not producer.batches
        if self.bumps_epoch and first and is_unknown:
            raise OutOfOrderSequenceNumberError(
                f"producer {producer_id}: sequence {first}, its first batch has sequence 0"
            )
        if first > self.lowest_sequence:
            raise OutOfOrderSequenceNumberError(
                f"producer {producer_id}: sequence {first} before {self.lowest_sequence}"
            )


class Verifications:
    """The questions of one log."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self._guards = count(NO_GUARD + 1)

    def get(self, producer_id: int) -> Verification | None:
        """What is asked about this producer."""
        return self._by_producer.get(producer_id)

    def begin(self, producer_id: int, epoch: int, sequence: int, wall_ms: int, *, bumps_epoch: bool) -> int:
        """Ask, or ask on; the guard to be shown with the append."""
        found = self._by_producer.get(producer_id)
        if found is None:
            if len(self._by_producer) >= MAX_VERIFICATIONS:
                del self._by_producer[next(iter(self._by_producer))]
            found = Verification(next(self._guards), epoch, sequence, bumps_epoch, wall_ms)
            self._by_producer[producer_id] = found
        found.heard(epoch, sequence)
        return found.guard

    def wrote(self, producer_id: int, epoch: int, *, is_control: bool) -> None:
        """A transactional batch is in the log: the question is settled, or void. But a marker of version 2
        whose epoch is asked about ends the transaction before that one."""
        found = self._by_producer.get(producer_id)
        if found is not None and not (is_control and found.bumps_epoch and epoch == found.epoch):
            del self._by_producer[producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget what was asked before this time."""
        for producer_id in [
            producer_id for producer_id, found in self._by_producer.items() if found.begun_ms <= before_ms
        ]:
            del self._by_producer[producer_id]
