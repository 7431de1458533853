"""What a fake leader knows of producers with an id: epochs, and the last five batches of each."""

from __future__ import annotations

from collections import deque
from typing import Any

from headrace.protocol import errors

REMEMBERED = 5
MASK = 2**31 - 1


class FakeProducers:
    """One partition's. `check` a batch, then `wrote` it."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        self._batches: dict[int, deque[tuple[int, int, int]]] = {}  # (first, last sequence, base offset)

    def check(self, header: Any) -> int | None:
        """None: it may be appended; else where it was appended before.

        Errors: InvalidProducerEpochError, OutOfOrderSequenceNumberError.
        """
        if header.producer_id < 0:
            return None
        first = header.base_sequence
        last = (first + header.record_count - 1) & MASK
        known = self._epochs.get(header.producer_id)
        if known is None:
            return None  # a producer that is not known may begin anywhere
        if header.producer_epoch < known:
            raise errors.InvalidProducerEpochError(f"epoch {header.producer_epoch}, now {known}")
        if header.producer_epoch > known:
            if first:
                raise errors.OutOfOrderSequenceNumberError(f"{first} begins epoch {header.producer_epoch}")
            return None
        batches = self._batches[header.producer_id]
        for stored_first, stored_last, base in batches:
            if (stored_first, stored_last) == (first, last):
                return base
        follows = (batches[-1][1] + 1) & MASK
        if first != follows:
            raise errors.OutOfOrderSequenceNumberError(f"{first}, expected {follows}")
        return None

    def wrote(self, header: Any, base: int) -> None:
        if header.producer_id < 0:
            return
        if self._epochs.get(header.producer_id) != header.producer_epoch:
            self._epochs[header.producer_id] = header.producer_epoch
            self._batches[header.producer_id] = deque(maxlen=REMEMBERED)
        last = (header.base_sequence + header.record_count - 1) & MASK
        self._batches[header.producer_id].append((header.base_sequence, last, base))

    def forget(self) -> None:
        """As if it had expired."""
        self._epochs.clear()
        self._batches.clear()
