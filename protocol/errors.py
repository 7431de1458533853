"""Every error that headrace raises to a user or sends over the wire; those that no server sends are in
client_errors.py.

Wire errors have Kafka's codes and names. `retriable`: the same request may succeed later; `refresh_metadata`:
the client's metadata is stale. Source: Kafka Errors.java.
"""

from __future__ import annotations

from dataclasses import dataclass

from .client_errors import (
    ApiTimeoutError as ApiTimeoutError,
)
from .client_errors import (
    BatchRefusedError as BatchRefusedError,
)
from .client_errors import (
    BufferExhaustedError as BufferExhaustedError,
)
from .client_errors import (
    ClosedError as ClosedError,
)
from .client_errors import (
    CommitFailedError as CommitFailedError,
)
from .client_errors import (
    ConfigError as ConfigError,
)
from .client_errors import (
    DataLossError as DataLossError,
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
    KafkaError as KafkaError,
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
from .client_errors import (
    TransactionAbortedError as TransactionAbortedError,
)
from .client_errors import (
    WakeupError as WakeupError,
)
from .coordinator_errors import *  # noqa: F403 - all of them, under the one name that users know
from .quorum_errors import *  # noqa: F403 - as above
from .security_errors import *  # noqa: F403 - as above
from .share_errors import *  # noqa: F403 - as above

# --- wire errors, in the order of their codes ---------------------------------------------------------


class UnknownServerError(KafkaError):
    """Unexpected server error; the log of the server has details."""

    code = -1


class OffsetOutOfRangeError(KafkaError):
    """The offset is below the log start offset or above the log end offset."""

    code = 1


class CorruptMessageError(KafkaError):
    """The record batch fails its CRC or is cut short."""

    code = 2
    retriable = True


class UnknownTopicOrPartitionError(KafkaError):
    """The topic or partition does not exist on this node."""

    code = 3
    retriable = True
    refresh_metadata = True


class LeaderNotAvailableError(KafkaError):
    """The partition has no leader at present."""

    code = 5
    retriable = True
    refresh_metadata = True


class NotLeaderOrFollowerError(KafkaError):
    """This node is not the leader of the partition."""

    code = 6
    retriable = True
    refresh_metadata = True


class RequestTimedOutError(KafkaError):
    """The server did not finish the request within its timeout."""

    code = 7
    retriable = True
    # A replaced leader that is cut off waits for followers that fetch from another leader.
    refresh_metadata = True


class MessageTooLargeError(KafkaError):
    """The record batch is larger than max.message.bytes of its topic."""

    code = 10


class RecordBatchTooLargeError(KafkaError):
    """The record batch is larger than segment.bytes of its topic."""

    code = 18


class NetworkError(KafkaError):
    """The connection closed before the response."""

    code = 13
    retriable = True
    refresh_metadata = True


class InvalidTopicError(KafkaError):
    """The topic name is invalid."""

    code = 17


class NotEnoughReplicasError(KafkaError):
    """The ISR is smaller than min.insync.replicas; the records were not appended."""

    code = 19
    retriable = True


class NotEnoughReplicasAfterAppendError(KafkaError):
    """The records were appended, but the ISR has shrunk below min.insync.replicas."""

    code = 20
    retriable = True


class InvalidRequiredAcksError(KafkaError):
    """acks must be 0, 1 or all (-1)."""

    code = 21


@dataclass(eq=False)
class InvalidTimestampError(KafkaError):
    """A record's timestamp is outside the topic's bounds. `record_errors`: (index in the batch, message) of
    the invalid records (KIP-467)."""

    record_errors: tuple[tuple[int, str], ...] = ()

    code = 32


class UnsupportedVersionError(KafkaError):
    """The server does not support this version of the request."""

    code = 35


class TopicAlreadyExistsError(KafkaError):
    """A topic with this name exists, or one whose name collides with it in metrics."""

    code = 36


class InvalidPartitionsError(KafkaError):
    """The number of partitions is not allowed."""

    code = 37


class InvalidReplicationFactorError(KafkaError):
    """The replication factor is below 1 or above the number of usable nodes."""

    code = 38


class InvalidReplicaAssignmentError(KafkaError):
    """The replica assignment has unknown nodes, duplicates, or missing partitions."""

    code = 39


class InvalidConfigError(KafkaError):
    """A config key is unknown or its value is invalid."""

    code = 40


class NotControllerError(KafkaError):
    """This node is not the active controller."""

    code = 41
    retriable = True
    refresh_metadata = True


class InvalidRequestError(KafkaError):
    """The request is malformed or inconsistent."""

    code = 42


class PolicyViolationError(KafkaError):
    """A policy of the topic or the cluster forbids the request."""

    code = 44


class KafkaStorageError(KafkaError):
    """The log dir of the partition failed and is offline, or its disk is full."""

    code = 56
    retriable = True
    refresh_metadata = True


class FetchSessionIdNotFoundError(KafkaError):
    """The server does not know this fetch session; start a new one."""

    code = 70
    retriable = True


class InvalidFetchSessionEpochError(KafkaError):
    """The fetches of a session arrived out of order; start a new one."""

    code = 71
    retriable = True


class FencedLeaderEpochError(KafkaError):
    """The request has an older leader epoch than the node."""

    code = 74
    retriable = True
    refresh_metadata = True


class UnknownLeaderEpochError(KafkaError):
    """The request has a newer leader epoch than the node."""

    code = 75
    retriable = True
    refresh_metadata = True


class UnsupportedCompressionTypeError(KafkaError):
    """The compression codec of the batch is unknown."""

    code = 76


class StaleBrokerEpochError(KafkaError):
    """The node has registered again, so this broker epoch is stale."""

    code = 77


class OffsetNotAvailableError(KafkaError):
    """After an election, the leader's high watermark has not advanced to its own epoch yet."""

    code = 78
    retriable = True


class PreferredLeaderNotAvailableError(KafkaError):
    """The preferred leader is not in the ISR or not active."""

    code = 80
    retriable = True
    refresh_metadata = True


class EligibleLeadersNotAvailableError(KafkaError):
    """No replica is eligible as leader of the partition."""

    code = 83
    retriable = True
    refresh_metadata = True


class ElectionNotNeededError(KafkaError):
    """The partition already has the requested leader."""

    code = 84
    refresh_metadata = True


class NoReassignmentInProgressError(KafkaError):
    """The partition has no reassignment to cancel."""

    code = 85


@dataclass(eq=False)
class InvalidRecordError(KafkaError):
    """A record of the batch is malformed, or only servers may send it. `record_errors`: (index in the batch,
    message) of the invalid records (KIP-467), empty if the whole batch is invalid."""

    record_errors: tuple[tuple[int, str], ...] = ()

    code = 87


class ThrottlingQuotaExceededError(KafkaError):
    """The connection or the node has reached its limit of pending work, or a quota is exceeded."""

    code = 89
    retriable = True


class SnapshotNotFoundError(KafkaError):
    """The quorum leader does not have this metadata snapshot."""

    code = 98


class PositionOutOfRangeError(KafkaError):
    """The position is outside of the snapshot."""

    code = 99


class InvalidUpdateVersionError(KafkaError):
    """The partition has changed: the request has an older partition epoch."""

    code = 95


class ListenerNotFoundError(KafkaError):
    """The leader does not have the listener that the client used."""

    code = 72
    retriable = True
    refresh_metadata = True


class UnknownTopicIdError(KafkaError):
    """No topic has this id: it was deleted, re-created, or is not known to this node yet."""

    code = 100
    retriable = True
    refresh_metadata = True


class DuplicateBrokerRegistrationError(KafkaError):
    """Another live process is registered under this node id."""

    code = 101


class BrokerIdNotRegisteredError(KafkaError):
    """The node id is not registered."""

    code = 102


class InconsistentClusterIdError(KafkaError):
    """The disk or the request belongs to another cluster."""

    code = 104


class FetchSessionTopicIdError(KafkaError):
    """A fetch session mixes topic names and topic ids; start a new one."""

    code = 106
    retriable = True


class ReplicaNotAvailableError(KafkaError):
    """The node has no replica of the partition."""

    code = 9


class LogDirNotFoundError(KafkaError):
    """The node has no log dir of this name, or it is offline."""

    code = 57


class IneligibleReplicaError(KafkaError):
    """The replica may not join the ISR, or every log dir of the node is cordoned."""

    code = 107


class NewLeaderElectedError(KafkaError):
    """The change was made, and another node is leader of the partition now."""

    code = 108


class UnknownSubscriptionIdError(KafkaError):
    """The metrics subscription of the client has changed: it must request it again."""

    code = 117


class TelemetryTooLargeError(KafkaError):
    """A client pushed metrics above telemetry.max.bytes."""

    code = 118


class ResourceNotFoundError(KafkaError):
    """The requested resource does not exist."""

    code = 91


class DuplicateResourceError(KafkaError):
    """The request names a resource twice."""

    code = 92


ERRORS_BY_CODE: dict[int, type[KafkaError]] = {cls.code: cls for cls in KafkaError.__subclasses__()}
NO_ERROR = 0


def error_from_code(code: int, detail: str = "") -> KafkaError:
    """The error for a code from the wire; unknown codes become UnknownServerError."""
    cls = ERRORS_BY_CODE.get(code)
    if cls is None:
        return UnknownServerError(f"error code {code}: {detail}")
    return cls(detail)
