"""The base classes of all errors, and errors that only clients raise. Import them from errors.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(eq=False)
class HeadraceError(Exception):
    """Base of every error of headrace. Pickling (and so Ray) keeps its fields."""

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
    """An error with a Kafka error code."""

    code: ClassVar[int] = -1


def _rebuild(cls: type[HeadraceError], facts: dict[str, Any]) -> HeadraceError:
    return cls(**facts)


@dataclass(eq=False)
class ConfigError(HeadraceError, ValueError):
    """A configuration key is unknown, or its value is out of range."""


@dataclass(eq=False)
class NoClusterError(ConfigError):
    """No cluster was named and none was found, or no node answers at its addresses."""


@dataclass(eq=False)
class ClosedError(HeadraceError):
    """The client, connection or cluster was closed."""


@dataclass(eq=False)
class SerializationError(HeadraceError, ValueError):
    """A key or value could not be serialized or deserialized.

    `field` is "key" or "value". For a record that was read, `partition` and `offset` give its position (-1
    for a record to be sent), and `record` is the record with its bytes.
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
    """The transaction was aborted before this record was acknowledged."""


@dataclass(eq=False)
class BatchRefusedError(HeadraceError):
    """The record is valid, but other records of its batch were rejected, and it could not safely be sent
    without them: in a transaction, or after an earlier attempt that may have been stored."""


@dataclass(eq=False)
class FlushTimeoutError(HeadraceError, TimeoutError):
    """`flush` timed out with `remaining` unacknowledged records."""

    remaining: int = 0


@dataclass(eq=False)
class ApiTimeoutError(HeadraceError, TimeoutError):
    """A call did not finish within its timeout."""


@dataclass(eq=False)
class NoOffsetError(HeadraceError):
    """A partition has no position and auto.offset.reset is 'none'."""


@dataclass(eq=False)
class DataLossError(HeadraceError):
    """Records of a planned read have been deleted."""


@dataclass(eq=False)
class LogTruncationError(HeadraceError):
    """Records that were read are no longer in the log, and auto.offset.reset is 'none'.

    The log matches the records read before `position` only up to `divergent_offset` (-1: unknown); seek
    there.
    """

    topic: str = ""
    partition: int = -1
    position: int = -1
    divergent_offset: int = -1


@dataclass(eq=False)
class CommitFailedError(HeadraceError):
    """The offsets were not committed: the consumer no longer owns their partitions.

    Another member may have read from an earlier offset.
    """


@dataclass(eq=False)
class WakeupError(HeadraceError):
    """`wakeup` interrupted the current `poll`."""
