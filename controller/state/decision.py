"""What a decision is: the records to append, and the reply that waits until they are durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ...protocol.metadata.records import MetadataRecord


class Decision(NamedTuple):
    """The records of one decision stand or fall together: they become one record batch."""

    records: tuple[MetadataRecord, ...]
    reply: Any  # the response struct of the request


class Randomness(Protocol):
    """What placement and ids need of a generator; `random.Random` and `SystemRandom` have it."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to `stop` - 1."""

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""
