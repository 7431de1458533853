"""Error codes that older versions of an api do not know, and their substitutes. Pure.

Source: Kafka KafkaApis.scala, AddPartitionsToTxnManager.java, OffsetMetadataManager.java,
GroupCoordinatorService.java.
"""

from __future__ import annotations

from ...protocol import errors as e

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
OFFSET_COMMIT, HEARTBEAT, DESCRIBE_GROUPS, TXN_OFFSET_COMMIT = 8, 12, 15, 28
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN = 22, 24, 25, 26

_NEVER = 1_000

# api, first version that knows the code, the code, its substitute in older versions
_OLDER: tuple[tuple[int, int, int, int], ...] = (
    # The records may have been appended: the client has to send the batch again.
    (PRODUCE, _NEVER, e.ThrottlingQuotaExceededError.code, e.RequestTimedOutError.code),
    (PRODUCE, 4, e.KafkaStorageError.code, e.NotLeaderOrFollowerError.code),
    (PRODUCE, 11, e.TransactionAbortableError.code, e.InvalidTxnStateError.code),
    (FETCH, 6, e.KafkaStorageError.code, e.NotLeaderOrFollowerError.code),
    (LIST_OFFSETS, 5, e.OffsetNotAvailableError.code, e.LeaderNotAvailableError.code),
    (METADATA, 6, e.ListenerNotFoundError.code, e.LeaderNotAvailableError.code),
    (OFFSET_COMMIT, 9, e.StaleMemberEpochError.code, e.UnsupportedVersionError.code),
    (OFFSET_COMMIT, 9, e.GroupIdNotFoundError.code, e.IllegalGenerationError.code),
    # The member stays in the group while its coordinator loads; aiokafka ends at the other code.
    (HEARTBEAT, _NEVER, e.CoordinatorLoadInProgressError.code, e.NO_ERROR),
    (DESCRIBE_GROUPS, 6, e.GroupIdNotFoundError.code, e.NO_ERROR),  # the state field says it
    (INIT_PRODUCER_ID, 4, e.ProducerFencedError.code, e.InvalidProducerEpochError.code),
    (ADD_PARTITIONS, 2, e.ProducerFencedError.code, e.InvalidProducerEpochError.code),
    (ADD_OFFSETS, 2, e.ProducerFencedError.code, e.InvalidProducerEpochError.code),
    (END_TXN, 2, e.ProducerFencedError.code, e.InvalidProducerEpochError.code),
    (TXN_OFFSET_COMMIT, 2, e.CoordinatorLoadInProgressError.code, e.CoordinatorNotAvailableError.code),
    (TXN_OFFSET_COMMIT, _NEVER, e.ProducerFencedError.code, e.InvalidProducerEpochError.code),
    (TXN_OFFSET_COMMIT, 4, e.TransactionAbortableError.code, e.InvalidTxnStateError.code),
)


def substitutes(api_key: int, version: int) -> dict[int, int]:
    """The substitutes for this version, by code."""
    return {code: instead for api, knows, code, instead in _OLDER if api == api_key and version < knows}
