"""Transactions that the coordinator is verifying, by producer. Pure.

A leader appends the first batch of a transaction only after the coordinator has added the partition to it;
otherwise a late batch would open a transaction that is never ended. Each verification has a guard, which the
append must present: a marker in between voids the guard, and with it the coordinator's response.
Source: Kafka VerificationStateEntry.java, VerificationGuard.java; KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from ...protocol.errors import OutOfOrderSequenceNumberError

if TYPE_CHECKING:
    from .producer_state import Producer

# Bound: verifications of one log, pending or failed; the oldest are forgotten first.
MAX_VERIFICATIONS = 10_000
NO_GUARD = 0  # of a batch without a verification
UNCHECKED = -1  # of a batch that needs none
NO_TRANSACTION = -2  # of a request without a transactional id: its batches must not be transactional


@dataclass(slots=True)
class Verification:
    """One verification. The lowest sequence is kept: after a batch that could not be verified, later batches
    are not appended before it."""

    guard: int
    epoch: int
    lowest_sequence: int
    bumps_epoch: bool  # transaction version 2
    begun_ms: int

    def add_batch(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def check_sequence(self, producer: Producer | None, producer_id: int, first: int) -> None:
        """Errors: OutOfOrderSequenceNumberError."""
        is_unknown = producer is None or not producer.batches
        if self.bumps_epoch and first and is_unknown:
            raise OutOfOrderSequenceNumberError(
                f"producer {producer_id}: sequence {first}, the first batch must have sequence 0"
            )
        if first > self.lowest_sequence:
            raise OutOfOrderSequenceNumberError(
                f"producer {producer_id}: sequence {first} before {self.lowest_sequence}"
            )


class Verifications:
    """The verifications of one log."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self._guards = count(NO_GUARD + 1)

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def begin(self, producer_id: int, epoch: int, sequence: int, wall_ms: int, *, bumps_epoch: bool) -> int:
        """Start a verification, or join a pending one; the guard for the append."""
        found = self._by_producer.get(producer_id)
        if found is None:
            if len(self._by_producer) >= MAX_VERIFICATIONS:
                del self._by_producer[next(iter(self._by_producer))]
            found = Verification(next(self._guards), epoch, sequence, bumps_epoch, wall_ms)
            self._by_producer[producer_id] = found
        found.add_batch(epoch, sequence)
        return found.guard

    def wrote(self, producer_id: int, epoch: int, *, is_control: bool) -> None:
        """A transactional batch was appended: the verification is done, or void. But a marker of version 2
        with the epoch that is being verified ended the previous transaction."""
        found = self._by_producer.get(producer_id)
        if found is not None and not (is_control and found.bumps_epoch and epoch == found.epoch):
            del self._by_producer[producer_id]

    def expire(self, before_ms: int) -> None:
        for producer_id in [
            producer_id for producer_id, found in self._by_producer.items() if found.begun_ms <= before_ms
        ]:
            del self._by_producer[producer_id]
