"""Every error that headrace raises to a user or sends over the wire; those that no server sends come from
client_errors.py.

Wire errors carry Kafka's error codes: the number never changes, the name is Kafka's. `retriable` says that
the same request may succeed later, `refresh_metadata` that the client's picture of the cluster is stale.
Source: Kafka Errors.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .client_errors import (
    ApiTimeoutError as ApiTimeoutError,
)
from .client_errors import (
    BufferExhaustedError as BufferExhaustedError,
)
from .client_errors import (
    ClosedError as ClosedError,
)
from .client_errors import (
    ConfigError as ConfigError,
)
from .client_errors import (
    DeliveryTimeoutError as DeliveryTimeoutError,
)
from .client_errors import (
    FlushTimeoutError as FlushTimeoutError,
)
from .client_errors import (
    HeadraceError as HeadraceError,
)
from .client_errors import (
    LogTruncationError as LogTruncationError,
)
from .client_errors import (
    NoClusterError as NoClusterError,
)
from .client_errors import (
    NoOffsetError as NoOffsetError,
)
from .client_errors import (
    SerializationError as SerializationError,
)


@dataclass(eq=False)
class KafkaError(HeadraceError):
    """An error with a Kafka error code, the same on the wire as in Apache Kafka."""

    code: ClassVar[int] = -1


# --- wire errors, in the order of their codes ---------------------------------------------------------


@dataclass(eq=False)
class UnknownServerError(KafkaError):
    """The server failed in a way that has no code of its own; its log says more."""

    code = -1


@dataclass(eq=False)
class OffsetOutOfRangeError(KafkaError):
    """The offset is below the log start offset or above the log end offset."""

    code = 1


@dataclass(eq=False)
class CorruptMessageError(KafkaError):
    """The record batch fails its CRC or is cut short."""

    code = 2
    retriable = True


@dataclass(eq=False)
class UnknownTopicOrPartitionError(KafkaError):
    """The topic or partition does not exist on this node."""

    code = 3
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class LeaderNotAvailableError(KafkaError):
    """The partition has no leader now."""

    code = 5
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class NotLeaderOrFollowerError(KafkaError):
    """This node does not lead the partition."""

    code = 6
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class RequestTimedOutError(KafkaError):
    """The server could not finish the request in the time it was given."""

    code = 7
    retriable = True
    # A leader that was replaced and cut off before it heard of it waits for followers that have left it.
    refresh_metadata = True


@dataclass(eq=False)
class MessageTooLargeError(KafkaError):
    """The record batch is larger than max.message.bytes of its topic."""

    code = 10


@dataclass(eq=False)
class NetworkError(KafkaError):
    """The connection closed before the answer came."""

    code = 13
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class InvalidTopicError(KafkaError):
    """The topic name is not legal."""

    code = 17


@dataclass(eq=False)
class NotEnoughReplicasError(KafkaError):
    """Fewer in-sync replicas than min.insync.replicas; nothing was appended."""

    code = 19
    retriable = True


@dataclass(eq=False)
class NotEnoughReplicasAfterAppendError(KafkaError):
    """The records were appended, but fewer replicas than min.insync.replicas are in sync now."""

    code = 20
    retriable = True


@dataclass(eq=False)
class InvalidRequiredAcksError(KafkaError):
    """acks must be 0, 1 or all (-1)."""

    code = 21


@dataclass(eq=False)
class InvalidTimestampError(KafkaError):
    """A record's timestamp is outside the topic's bounds."""

    code = 32


@dataclass(eq=False)
class UnsupportedVersionError(KafkaError):
    """The server does not speak this version of the request."""

    code = 35


@dataclass(eq=False)
class TopicAlreadyExistsError(KafkaError):
    """A topic of this name exists, or one that collides in metrics."""

    code = 36


@dataclass(eq=False)
class InvalidPartitionsError(KafkaError):
    """The number of partitions is not allowed."""

    code = 37


@dataclass(eq=False)
class InvalidReplicationFactorError(KafkaError):
    """The replication factor is below 1 or above the number of usable nodes."""

    code = 38


@dataclass(eq=False)
class InvalidReplicaAssignmentError(KafkaError):
    """The replica assignment names unknown nodes, repeats one, or leaves a gap."""

    code = 39


@dataclass(eq=False)
class InvalidConfigError(KafkaError):
    """A config key is unknown or its value is not allowed."""

    code = 40


@dataclass(eq=False)
class NotControllerError(KafkaError):
    """This node is not the active controller."""

    code = 41
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class InvalidRequestError(KafkaError):
    """The request is malformed or contradicts itself."""

    code = 42


@dataclass(eq=False)
class KafkaStorageError(KafkaError):
    """The disk under the partition failed, and its log dir is offline; or it is full."""

    code = 56
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class FetchSessionIdNotFoundError(KafkaError):
    """The server does not know this fetch session; begin a new one."""

    code = 70
    retriable = True


@dataclass(eq=False)
class InvalidFetchSessionEpochError(KafkaError):
    """The fetches of a session came out of order; begin a new one."""

    code = 71
    retriable = True


@dataclass(eq=False)
class FencedLeaderEpochError(KafkaError):
    """The request carries an older leader epoch than the node's."""

    code = 74
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class UnknownLeaderEpochError(KafkaError):
    """The request carries a newer leader epoch than the node knows."""

    code = 75
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class UnsupportedCompressionTypeError(KafkaError):
    """The batch names a compression codec that does not exist."""

    code = 76


@dataclass(eq=False)
class StaleBrokerEpochError(KafkaError):
    """The broker epoch was replaced by a newer registration."""

    code = 77


@dataclass(eq=False)
class OffsetNotAvailableError(KafkaError):
    """The leader's high watermark has not caught up after an election."""

    code = 78
    retriable = True


@dataclass(eq=False)
class PreferredLeaderNotAvailableError(KafkaError):
    """The preferred leader is not in sync or not active."""

    code = 80
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class EligibleLeadersNotAvailableError(KafkaError):
    """No replica may lead the partition now."""

    code = 83
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class ElectionNotNeededError(KafkaError):
    """The partition has the leader that was asked for."""

    code = 84
    refresh_metadata = True


@dataclass(eq=False)
class NoReassignmentInProgressError(KafkaError):
    """There is no reassignment of the partition to cancel."""

    code = 85


@dataclass(eq=False)
class InvalidRecordError(KafkaError):
    """A record inside the batch is malformed, or a client sent what only servers may."""

    code = 87


@dataclass(eq=False)
class ThrottlingQuotaExceededError(KafkaError):
    """The connection or the node has reached its limit of work under way."""

    code = 89
    retriable = True


@dataclass(eq=False)
class SnapshotNotFoundError(KafkaError):
    """The quorum's leader has no such snapshot of the metadata."""

    code = 98


@dataclass(eq=False)
class PositionOutOfRangeError(KafkaError):
    """The position is not inside the snapshot."""

    code = 99


@dataclass(eq=False)
class InvalidUpdateVersionError(KafkaError):
    """The partition has changed since: the request carries an older partition epoch."""

    code = 95


@dataclass(eq=False)
class UnknownTopicIdError(KafkaError):
    """No topic has this id here: deleted, re-created, or not known yet."""

    code = 100
    retriable = True
    refresh_metadata = True


@dataclass(eq=False)
class DuplicateBrokerRegistrationError(KafkaError):
    """Another live process is registered under this node id."""

    code = 101


@dataclass(eq=False)
class BrokerIdNotRegisteredError(KafkaError):
    """The node id is not registered with the controller."""

    code = 102


@dataclass(eq=False)
class InconsistentClusterIdError(KafkaError):
    """The disk or the request belongs to another cluster."""

    code = 104


@dataclass(eq=False)
class InvalidVoterKeyError(KafkaError):
    """The request names another voter, or this one with the directory of a disk that it has no more."""

    code = 125


@dataclass(eq=False)
class DuplicateVoterError(KafkaError):
    """A voter with this id exists; one with a lost disk must be removed first."""

    code = 126


@dataclass(eq=False)
class VoterNotFoundError(KafkaError):
    """No voter has this id and directory."""

    code = 127


@dataclass(eq=False)
class ReplicaNotAvailableError(KafkaError):
    """The node has no replica of the partition."""

    code = 9


@dataclass(eq=False)
class LogDirNotFoundError(KafkaError):
    """The node has no log dir of this name, or it is offline."""

    code = 57


@dataclass(eq=False)
class IneligibleReplicaError(KafkaError):
    """A replica that is fenced, shutting down, registered anew or without room may not be in the ISR; a
    cordoned log dir, or a node that has no other, gets no new replica."""

    code = 107


@dataclass(eq=False)
class NewLeaderElectedError(KafkaError):
    """The change was made, and with it another node leads the partition."""

    code = 108


def _wire_classes(base: type[KafkaError]) -> dict[int, type[KafkaError]]:
    return {cls.code: cls for cls in base.__subclasses__()}


ERRORS_BY_CODE: dict[int, type[KafkaError]] = _wire_classes(KafkaError)
NO_ERROR = 0


def error_from_code(code: int, detail: str = "") -> KafkaError:
    """The exception for a code that came over the wire; unknown codes become UnknownServerError."""
    cls = ERRORS_BY_CODE.get(code)
    if cls is None:
        return UnknownServerError(f"error code {code}: {detail}")
    return cls(detail)
