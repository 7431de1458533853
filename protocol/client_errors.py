"""The base of all errors, and those that exist only in a client. Everybody has them from errors.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(eq=False)
class HeadraceError(Exception):
    """Base of every error of headrace. Survives pickling (and so Ray) with its fields."""

    detail: str = ""

    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.detail or (type(self).__doc__ or type(self).__name__).splitlines()[0]

    def __repr__(self) -> str:
        facts = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{type(self).__name__}({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(eq=False)
class KafkaError(HeadraceError):
    """An error with a Kafka error code, the same on the wire as in Apache Kafka."""

    code: ClassVar[int] = -1


def _rebuild(cls: type[HeadraceError], facts: dict[str, Any]) -> HeadraceError:
    return cls(**facts)


@dataclass(eq=False)
class ConfigError(HeadraceError, ValueError):
    """A configuration key is unknown, or its value is out of range."""


@dataclass(eq=False)
class NoClusterError(ConfigError):
    """No cluster was named and none was found, or nobody answers at its addresses."""


@dataclass(eq=False)
class ClosedError(HeadraceError):
    """The client, connection or cluster was closed."""


@dataclass(eq=False)
class SerializationError(HeadraceError, ValueError):
    """A key or value could not be turned into bytes, or back.

    `field` is "key" or "value". For one that was read, `partition` and `offset` say where it lies (-1 where a
    value was to be written), and `record` is the record as it came, with its bytes.
    """

    topic: str = ""
    field: str = ""
    partition: int = -1
    offset: int = -1
    record: Any = None


@dataclass(eq=False)
class BufferExhaustedError(HeadraceError, TimeoutError):
    """The producer's buffer stayed full for max.block.ms."""

    retriable = True


@dataclass(eq=False)
class DeliveryTimeoutError(HeadraceError, TimeoutError):
    """A record was not acknowledged within delivery.timeout.ms; it may or may not be in the log."""


@dataclass(eq=False)
class TransactionAbortedError(HeadraceError):
    """The transaction was aborted before the record was acknowledged."""


@dataclass(eq=False)
class BatchRefusedError(HeadraceError):
    """The record is not wrong itself: it was not stored because other records of its batch were refused, and
    it could not safely be sent without them (a transaction, or an earlier attempt that may be stored)."""


@dataclass(eq=False)
class FlushTimeoutError(HeadraceError, TimeoutError):
    """`flush` ran out of time; `remaining` records are still on their way."""

    remaining: int = 0


@dataclass(eq=False)
class ApiTimeoutError(HeadraceError, TimeoutError):
    """A call did not finish within its timeout."""


@dataclass(eq=False)
class NoOffsetError(HeadraceError):
    """A partition has no position and auto.offset.reset is 'none'."""


@dataclass(eq=False)
class DataLossError(HeadraceError):
    """Records that a planned read has to have are not there any more."""


@dataclass(eq=False)
class LogTruncationError(HeadraceError):
    """Records that were read are no longer in the log, and auto.offset.reset is 'none'.

    What was read before `position` is the log's only up to `divergent_offset` (-1: not known); seek there.
    """

    topic: str = ""
    partition: int = -1
    position: int = -1
    divergent_offset: int = -1


@dataclass(eq=False)
class CommitFailedError(HeadraceError):
    """The offsets were not committed: their partitions are not this consumer's any more.

    Others may have read on from an earlier offset.
    """


@dataclass(eq=False)
class WakeupError(HeadraceError):
    """`wakeup` ended the `poll` that was going on."""
