"""Which partition a record goes to.

With a key: murmur2 of its bytes, modulo the number of partitions, the same as the Java client, so that a
key lands on the same partition whichever client wrote it. Without: uniform sticky, which stays on one
partition for batch.size bytes and then picks the next at random. Source: KIP-480, KIP-794.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidPartitionsError
from ...protocol.records.codec import active_codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...runtime.random_source import RandomSource

# (topic, key bytes, number of partitions) -> partition, or None for the sticky choice
Partitioner = Callable[[str, bytes | None, int], int | None]


def positive_hash(key: bytes) -> int:
    """murmur2 without its sign bit, as Kafka's toPositive."""
    return active_codec().murmur2(key) & 0x7FFFFFFF


def murmur2_sticky(_topic: str, key: bytes | None, partition_count: int) -> int | None:
    """The default partitioner: by key where there is one, sticky otherwise."""
    return None if key is None else positive_hash(key) % partition_count


def partition_number(given: object) -> int:
    """The partition argument as an int. Errors: TypeError for another type."""
    try:
        return index(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"partition= is a whole number or None, not {type(given).__name__} {given!r}"
        ) from None


def choice_of(own: Partitioner | None, *, ignore_keys: bool) -> Partitioner:
    """Key and partition count to a partition by the caller's own partitioner, checked; None: the default one.

    Errors: InvalidPartitionsError for a partition that the topic does not have; what `own` raises.
    """

    def by_key(_topic: str, key: bytes | None, count: int) -> int | None:
        return None if key is None or ignore_keys else positive_hash(key) % count

    def by_own(topic: str, key: bytes | None, count: int) -> int | None:
        assert own is not None
        chosen = own(topic, key, count)
        if chosen is not None and not 0 <= chosen < count:
            raise InvalidPartitionsError(f"the partitioner chose {chosen} of {count} partitions of {topic!r}")
        return chosen

    return by_key if own is None else by_own


class StickyChoice:
    """The sticky partition of one topic.

    Every partition gets the same number of bytes over time, or, with `adaptive`, more where queues are
    shorter. Partitions without a leader are left out while others have one.
    """

    __slots__ = ("_bytes_left", "_random", "_stick_bytes", "partition")

    def __init__(self, stick_bytes: int, random: RandomSource) -> None:
        self._stick_bytes, self._bytes_left, self._random = stick_bytes, 0, random
        self.partition = -1

    def produced(self, partition: int, size_bytes: int) -> bool:
        """Count bytes batched for a partition; True when it is time to `switch`."""
        if partition == self.partition:
            self._bytes_left -= size_bytes
        return self._bytes_left <= 0

    def switch(
        self, partition_count: int, available: Sequence[int], queue_lengths: Sequence[int] | None
    ) -> int:
        """Choose the next partition. `queue_lengths` matches `available`; None chooses uniformly."""
        self._bytes_left = self._stick_bytes
        if not available:
            self.partition = self._random.randrange(partition_count)
        elif queue_lengths is None or len(available) == 1:
            self.partition = available[self._random.randrange(len(available))]
        else:
            # A queue one longer than the longest has weight 0: invert lengths into weights, then accumulate.
            longest = max(queue_lengths) + 1
            weights = list(accumulate(longest - length for length in queue_lengths))
            self.partition = available[bisect_right(weights, self._random.randrange(weights[-1]))]
        return self.partition
