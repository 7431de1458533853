"""Wire errors of group and transaction coordinators, and of idempotent producers. Import them from errors.py.

Source: Kafka Errors.java.
"""

from __future__ import annotations

from .client_errors import KafkaError


class OffsetMetadataTooLargeError(KafkaError):
    """The metadata of a committed offset is longer than offset.metadata.max.bytes."""

    code = 12


class CoordinatorLoadInProgressError(KafkaError):
    """The coordinator is loading its log: retry."""

    code = 14
    retriable = True


class CoordinatorNotAvailableError(KafkaError):
    """The coordinator's partition has no leader, is being created, or rejected the append: retry."""

    code = 15
    retriable = True
    refresh_metadata = True


class NotCoordinatorError(KafkaError):
    """This node is not the coordinator of the group or transactional id: find it again."""

    code = 16
    retriable = True
    refresh_metadata = True


class IllegalGenerationError(KafkaError):
    """The member's generation is not the group's current one: it missed a rebalance."""

    code = 22


class InconsistentGroupProtocolError(KafkaError):
    """The group and the member have no common assignor, or different protocol types."""

    code = 23


class InvalidGroupIdError(KafkaError):
    """The group id is empty or too long."""

    code = 24


class UnknownMemberIdError(KafkaError):
    """The group does not have this member, or removed it."""

    code = 25


class InvalidSessionTimeoutError(KafkaError):
    """The session timeout is outside the bounds of the coordinator's configuration."""

    code = 26


class RebalanceInProgressError(KafkaError):
    """The group is rebalancing: the member must rejoin."""

    code = 27


class InvalidCommitOffsetSizeError(KafkaError):
    """The commit exceeds the maximum batch size of the offsets topic."""

    code = 28


class OutOfOrderSequenceNumberError(KafkaError):
    """The batch does not follow the producer's last one: an earlier batch is missing."""

    code = 45


class DuplicateSequenceNumberError(KafkaError):
    """The batch was appended before, but its offset is no longer known."""

    code = 46


class InvalidProducerEpochError(KafkaError):
    """A producer with the same id and a newer epoch has written or ended this transaction."""

    code = 47


class InvalidTxnStateError(KafkaError):
    """The state of the transaction does not allow this request."""

    code = 48


class InvalidProducerIdMappingError(KafkaError):
    """The transactional id belongs to another producer id, or has none."""

    code = 49


class InvalidTransactionTimeoutError(KafkaError):
    """The transaction timeout is not positive or above transaction.max.timeout.ms."""

    code = 50


class ConcurrentTransactionsError(KafkaError):
    """The previous transaction is still ending: retry."""

    code = 51
    retriable = True


class TransactionCoordinatorFencedError(KafkaError):
    """The marker is from a replaced coordinator."""

    code = 52


class OperationNotAttemptedError(KafkaError):
    """The request was not attempted because another part of it failed."""

    code = 55


class UnknownProducerIdError(KafkaError):
    """The partition has no state of this producer: its records were deleted, or it was idle too long."""

    code = 59


class NonEmptyGroupError(KafkaError):
    """The group has members."""

    code = 68


class GroupIdNotFoundError(KafkaError):
    """The group does not exist."""

    code = 69


class MemberIdRequiredError(KafkaError):
    """The member must rejoin with the member id of this response."""

    code = 79


class GroupMaxSizeReachedError(KafkaError):
    """The group has reached its maximum size."""

    code = 81


class FencedInstanceIdError(KafkaError):
    """Another member has taken over this group instance id."""

    code = 82


class GroupSubscribedToTopicError(KafkaError):
    """A member is subscribed to this topic, so its offsets cannot be deleted."""

    code = 86


class UnstableOffsetCommitError(KafkaError):
    """An open transaction has pending offsets for the partition."""

    code = 88
    retriable = True


class ProducerFencedError(KafkaError):
    """A newer producer uses the same transactional id."""

    code = 90


class TransactionalIdNotFoundError(KafkaError):
    """The transactional id does not exist."""

    code = 105


class FencedMemberEpochError(KafkaError):
    """The member's epoch is not the group's: it must rejoin."""

    code = 110


class UnreleasedInstanceIdError(KafkaError):
    """The group instance id belongs to a member that has not left."""

    code = 111


class UnsupportedAssignorError(KafkaError):
    """The coordinator has no assignor of this name."""

    code = 112


class StaleMemberEpochError(KafkaError):
    """The member has moved to another epoch: retry with the new one."""

    code = 113


class TransactionAbortableError(KafkaError):
    """The transaction cannot continue, but it can be aborted."""

    code = 120


class InvalidRegularExpressionError(KafkaError):
    """The regular expression of the subscription is invalid."""

    code = 128


class StreamsInvalidTopologyError(KafkaError):
    """The topology of a streams group is invalid."""

    code = 130
