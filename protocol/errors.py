"""Every error that headrace raises to a user or sends over the wire; those that no server sends come from
client_errors.py.

Wire errors carry Kafka's error codes: the number never changes, the name is Kafka's. `retriable` says that
the same request may succeed later, `refresh_metadata` that the client's picture of the cluster is stale.
Source: Kafka Errors.java.
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

# --- wire errors, in the order of their codes ---------------------------------------------------------


class UnknownServerError(KafkaError):
    """The server failed in a way that has no code of its own; its log says more."""

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
    """The partition has no leader now."""

    code = 5
    retriable = True
    refresh_metadata = True


class NotLeaderOrFollowerError(KafkaError):
    """This node does not lead the partition."""

    code = 6
    retriable = True
    refresh_metadata = True


class RequestTimedOutError(KafkaError):
    """The server could not finish the request in the time it was given."""

    code = 7
    retriable = True
    # A leader that was replaced and cut off before it heard of it waits for followers that have left it.
    refresh_metadata = True


class MessageTooLargeError(KafkaError):
    """The record batch is larger than max.message.bytes of its topic."""

    code = 10


class RecordBatchTooLargeError(KafkaError):
    """The record batch is larger than segment.bytes of its topic."""

    code = 18


class NetworkError(KafkaError):
    """The connection closed before the answer came."""

    code = 13
    retriable = True
    refresh_metadata = True


class InvalidTopicError(KafkaError):
    """The topic name is not legal."""

    code = 17


class NotEnoughReplicasError(KafkaError):
    """Fewer in-sync replicas than min.insync.replicas; nothing was appended."""

    code = 19
    retriable = True


class NotEnoughReplicasAfterAppendError(KafkaError):
    """The records were appended, but fewer replicas than min.insync.replicas are in sync now."""

    code = 20
    retriable = True


class InvalidRequiredAcksError(KafkaError):
    """acks must be 0, 1 or all (-1)."""

    code = 21


@dataclass(eq=False)
class InvalidTimestampError(KafkaError):
    """A record's timestamp is outside the topic's bounds. `record_errors`: (index in the batch, message) of
    the wrong records (KIP-467)."""

    record_errors: tuple[tuple[int, str], ...] = ()

    code = 32


class UnsupportedVersionError(KafkaError):
    """The server does not speak this version of the request."""

    code = 35


class TopicAlreadyExistsError(KafkaError):
    """A topic of this name exists, or one that collides in metrics."""

    code = 36


class InvalidPartitionsError(KafkaError):
    """The number of partitions is not allowed."""

    code = 37


class InvalidReplicationFactorError(KafkaError):
    """The replication factor is below 1 or above the number of usable nodes."""

    code = 38


class InvalidReplicaAssignmentError(KafkaError):
    """The replica assignment names unknown nodes, repeats one, or leaves a gap."""

    code = 39


class InvalidConfigError(KafkaError):
    """A config key is unknown or its value is not allowed."""

    code = 40


class NotControllerError(KafkaError):
    """This node is not the active controller."""

    code = 41
    retriable = True
    refresh_metadata = True


class InvalidRequestError(KafkaError):
    """The request is malformed or contradicts itself."""

    code = 42


class PolicyViolationError(KafkaError):
    """A policy of the topic or of the cluster forbids it."""

    code = 44


class KafkaStorageError(KafkaError):
    """The disk under the partition failed, and its log dir is offline; or it is full."""

    code = 56
    retriable = True
    refresh_metadata = True


class FetchSessionIdNotFoundError(KafkaError):
    """The server does not know this fetch session; begin a new one."""

    code = 70
    retriable = True


class InvalidFetchSessionEpochError(KafkaError):
    """The fetches of a session came out of order; begin a new one."""

    code = 71
    retriable = True


class FencedLeaderEpochError(KafkaError):
    """The request carries an older leader epoch than the node's."""

    code = 74
    retriable = True
    refresh_metadata = True


class UnknownLeaderEpochError(KafkaError):
    """The request carries a newer leader epoch than the node knows."""

    code = 75
    retriable = True
    refresh_metadata = True


class UnsupportedCompressionTypeError(KafkaError):
    """The batch names a compression codec that does not exist."""

    code = 76


class StaleBrokerEpochError(KafkaError):
    """The broker epoch was replaced by a newer registration."""

    code = 77


class OffsetNotAvailableError(KafkaError):
    """The leader's high watermark has not caught up after an election."""

    code = 78
    retriable = True


class PreferredLeaderNotAvailableError(KafkaError):
    """The preferred leader is not in sync or not active."""

    code = 80
    retriable = True
    refresh_metadata = True


class EligibleLeadersNotAvailableError(KafkaError):
    """No replica may lead the partition now."""

    code = 83
    retriable = True
    refresh_metadata = True


class ElectionNotNeededError(KafkaError):
    """The partition has the leader that was asked for."""

    code = 84
    refresh_metadata = True


class NoReassignmentInProgressError(KafkaError):
    """There is no reassignment of the partition to cancel."""

    code = 85


@dataclass(eq=False)
class InvalidRecordError(KafkaError):
    """A record inside the batch is malformed, or a client sent what only servers may. `record_errors`:
    (index in the batch, message) of the wrong records (KIP-467), empty if the batch as a whole is wrong."""

    record_errors: tuple[tuple[int, str], ...] = ()

    code = 87


class ThrottlingQuotaExceededError(KafkaError):
    """The connection or the node has reached its limit of work under way."""

    code = 89
    retriable = True


class SnapshotNotFoundError(KafkaError):
    """The quorum's leader has no such snapshot of the metadata."""

    code = 98


class PositionOutOfRangeError(KafkaError):
    """The position is not inside the snapshot."""

    code = 99


class InvalidUpdateVersionError(KafkaError):
    """The partition has changed since: the request carries an older partition epoch."""

    code = 95


class ListenerNotFoundError(KafkaError):
    """The leader has no listener of the name that the client came over."""

    code = 72
    retriable = True
    refresh_metadata = True


class UnknownTopicIdError(KafkaError):
    """No topic has this id here: deleted, re-created, or not known yet."""

    code = 100
    retriable = True
    refresh_metadata = True


class DuplicateBrokerRegistrationError(KafkaError):
    """Another live process is registered under this node id."""

    code = 101


class BrokerIdNotRegisteredError(KafkaError):
    """The node id is not registered with the controller."""

    code = 102


class InconsistentClusterIdError(KafkaError):
    """The disk or the request belongs to another cluster."""

    code = 104


class FetchSessionTopicIdError(KafkaError):
    """A fetch session names topics by names and by ids; begin a new one."""

    code = 106
    retriable = True


class InvalidVoterKeyError(KafkaError):
    """The request names another voter, or this one with the directory of a disk that it has no more."""

    code = 125


class DuplicateVoterError(KafkaError):
    """A voter with this id exists; one with a lost disk must be removed first."""

    code = 126


class VoterNotFoundError(KafkaError):
    """No voter has this id and directory."""

    code = 127


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
    """The change was made, and with it another node leads the partition."""

    code = 108


class UnknownSubscriptionIdError(KafkaError):
    """What the client is to push of its metrics has changed: it asks for the subscription again."""

    code = 117


class TelemetryTooLargeError(KafkaError):
    """A client pushed more of its metrics at once than telemetry.max.bytes."""

    code = 118


class ResourceNotFoundError(KafkaError):
    """Nobody has what was asked for."""

    code = 91


class DuplicateResourceError(KafkaError):
    """A request names something twice."""

    code = 92


class SecurityDisabledError(KafkaError):
    """The cluster has no authorizer, so it has no ACLs."""

    code = 54


class DelegationTokenRequestNotAllowedError(KafkaError):
    """Delegation tokens are given over authenticated connections only."""

    code = 64


class IllegalSaslStateError(KafkaError):
    """A SASL request on a connection that does not use SASL."""

    code = 34


class UnsupportedSaslMechanismError(KafkaError):
    """The SASL mechanism is unknown, or its credentials cannot be stored."""

    code = 33


class UnacceptableCredentialError(KafkaError):
    """A SCRAM credential without a user name."""

    code = 93


ERRORS_BY_CODE: dict[int, type[KafkaError]] = {cls.code: cls for cls in KafkaError.__subclasses__()}
NO_ERROR = 0


def error_from_code(code: int, detail: str = "") -> KafkaError:
    """The exception for a code that came over the wire; unknown codes become UnknownServerError."""
    cls = ERRORS_BY_CODE.get(code)
    if cls is None:
        return UnknownServerError(f"error code {code}: {detail}")
    return cls(detail)
