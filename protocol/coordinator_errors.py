"""Wire errors of group and transaction coordinators, and of producers with an id; errors.py gives them too.

Source: Kafka Errors.java.
"""

from __future__ import annotations

from .client_errors import KafkaError


class OffsetMetadataTooLargeError(KafkaError):
    """The metadata of a committed offset is longer than offset.metadata.max.bytes."""

    code = 12


class CoordinatorLoadInProgressError(KafkaError):
    """The coordinator is reading its log and answers when it has."""

    code = 14
    retriable = True


class CoordinatorNotAvailableError(KafkaError):
    """The coordinator's partition has no leader, is being made, or could not write."""

    code = 15
    retriable = True
    refresh_metadata = True


class NotCoordinatorError(KafkaError):
    """This node does not coordinate the group or transactional id."""

    code = 16
    retriable = True
    refresh_metadata = True


class IllegalGenerationError(KafkaError):
    """The member's generation is not the group's: it has missed a rebalance."""

    code = 22


class InconsistentGroupProtocolError(KafkaError):
    """The member shares no assignor, or not the protocol type, with the group."""

    code = 23


class InvalidGroupIdError(KafkaError):
    """A group id must not be empty here."""

    code = 24


class UnknownMemberIdError(KafkaError):
    """The group has no such member, or no longer."""

    code = 25


class InvalidSessionTimeoutError(KafkaError):
    """The session timeout is outside the bounds that the coordinator allows."""

    code = 26


class RebalanceInProgressError(KafkaError):
    """The group rebalances: the member must join again."""

    code = 27


class InvalidCommitOffsetSizeError(KafkaError):
    """The commit is larger than a batch of the offsets topic may be."""

    code = 28


class OutOfOrderSequenceNumberError(KafkaError):
    """The batch does not follow the producer's last one: something before it is missing."""

    code = 45


class DuplicateSequenceNumberError(KafkaError):
    """The batch was appended before, longer ago than its offset is remembered."""

    code = 46


class InvalidProducerEpochError(KafkaError):
    """A newer producer of the same id has written or ended this transaction."""

    code = 47


class InvalidTxnStateError(KafkaError):
    """The transaction is not in a state that allows this."""

    code = 48


class InvalidProducerIdMappingError(KafkaError):
    """The transactional id belongs to another producer id, or to none."""

    code = 49


class InvalidTransactionTimeoutError(KafkaError):
    """The transaction timeout is not positive or above transaction.max.timeout.ms."""

    code = 50


class ConcurrentTransactionsError(KafkaError):
    """The transaction before is being ended; this one waits for it."""

    code = 51
    retriable = True


class TransactionCoordinatorFencedError(KafkaError):
    """The marker comes from a coordinator that was replaced."""

    code = 52


class OperationNotAttemptedError(KafkaError):
    """Nothing was done here, because something else in the same request could not be."""

    code = 55


class UnknownProducerIdError(KafkaError):
    """The partition knows nothing of this producer: its records are gone or it was silent too long."""

    code = 59


class NonEmptyGroupError(KafkaError):
    """The group has members."""

    code = 68


class GroupIdNotFoundError(KafkaError):
    """There is no such group."""

    code = 69


class MemberIdRequiredError(KafkaError):
    """The member must join again with the id that it was given."""

    code = 79


class GroupMaxSizeReachedError(KafkaError):
    """The group has as many members as the coordinator allows."""

    code = 81


class FencedInstanceIdError(KafkaError):
    """Another member has taken this group instance id."""

    code = 82


class GroupSubscribedToTopicError(KafkaError):
    """The group reads this topic: its offsets cannot be deleted."""

    code = 86


class UnstableOffsetCommitError(KafkaError):
    """A transaction that is not ended yet has committed offsets for the partition."""

    code = 88
    retriable = True


class ProducerFencedError(KafkaError):
    """A newer producer with the same transactional id has taken over."""

    code = 90


class TransactionalIdNotFoundError(KafkaError):
    """There is no such transactional id."""

    code = 105


class FencedMemberEpochError(KafkaError):
    """The member's epoch is not the one that the group knows: it must join again."""

    code = 110


class UnreleasedInstanceIdError(KafkaError):
    """The group instance id is held by a member that has not left."""

    code = 111


class UnsupportedAssignorError(KafkaError):
    """The coordinator has no assignor of this name."""

    code = 112


class StaleMemberEpochError(KafkaError):
    """The member has moved to another epoch: ask again with that one."""

    code = 113


class TransactionAbortableError(KafkaError):
    """The transaction cannot go on, but it can be aborted."""

    code = 120


class InvalidRegularExpressionError(KafkaError):
    """The subscription's regular expression cannot be read."""

    code = 128
