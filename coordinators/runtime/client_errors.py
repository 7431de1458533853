"""Translates errors of a coordinator's log for its clients. Source: Kafka
CoordinatorOperationExceptionHelper."""

from __future__ import annotations

from ...protocol.errors import (
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordBatchTooLargeError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
    UnknownServerError,
)

_AS_SEEN: dict[type[KafkaError], type[KafkaError]] = {
    NotEnoughReplicasError: CoordinatorNotAvailableError,
    RequestTimedOutError: CoordinatorNotAvailableError,
    NotLeaderOrFollowerError: NotCoordinatorError,
    FencedLeaderEpochError: NotCoordinatorError,
    UnknownLeaderEpochError: NotCoordinatorError,
    KafkaStorageError: NotCoordinatorError,
    MessageTooLargeError: UnknownServerError,
    RecordBatchTooLargeError: UnknownServerError,
}


def client_error(error: KafkaError) -> KafkaError:
    """The error that a client gets for an append error."""
    for kind, seen in _AS_SEEN.items():
        if isinstance(error, kind):
            return seen(error.detail)
    return error
