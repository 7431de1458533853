"""AlterUserScramCredentials and DescribeUserScramCredentials. Pure.

Source: Kafka ScramControlManager.java, ScramImage.java; KIP-554.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import (
    DuplicateResourceError,
    InvalidRequestError,
    KafkaError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from ...protocol.messages import security as s
from ...protocol.messages.control import ItemError
from ...protocol.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ...protocol.security.scram import (
    MAXIMUM_ITERATIONS,
    MINIMUM_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    credential_of,
)
from .decision import Decision

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage

# Bound: credentials in all, which are part of every snapshot: 50,000 of 200 bytes are 10 MB.
MAX_CREDENTIALS = 50_000
MAX_CHANGES = 10_000  # Bound: of one request
MAX_NAME = 500  # Bound: characters of a user name
MAX_SALT = 1_024  # Bound: bytes of a salt, and of a salted password

_Record = UserScramCredentialRecord | RemoveUserScramCredentialRecord


def decide_scram(image: MetadataImage, request: s.AlterUserScramCredentialsRequest) -> Decision:
    """Each user succeeds or fails on its own. Errors: InvalidRequestError for too many."""
    changes: tuple[s.ScramDeletion | s.ScramUpsertion, ...] = (*request.deletions, *request.upsertions)
    if len(changes) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(changes)} credentials, at most {MAX_CHANGES} are allowed")
    records: dict[str, _Record] = {}
    errors: dict[str, KafkaError] = {}
    new = 0
    for change in changes:
        if change.user in errors:
            continue
        try:
            if records.pop(change.user, None) is not None:
                raise DuplicateResourceError("A user credential cannot be altered twice in the same request")
            record = _change(image, change)
            new += (change.user, change.mechanism) not in image.scram_credentials
            if new and len(image.scram_credentials) + new > MAX_CREDENTIALS:
                raise InvalidRequestError(f"there are {MAX_CREDENTIALS} credentials already")
        except KafkaError as error:
            errors[change.user] = error
        else:
            records[change.user] = record
    results = tuple(_result(user, errors.get(user)) for user in dict.fromkeys(each.user for each in changes))
    reply = s.AlterUserScramCredentialsResponse(results, image.offset + len(records))
    return Decision(tuple(records.values()), reply)


def _result(user: str, error: KafkaError | None) -> ItemError:
    return ItemError(user) if error is None else ItemError(user, error.code, error.detail)


def describe_scram(image: MetadataImage, request: s.DescribeUserScramCredentialsRequest) -> Decision:
    """The mechanisms and iterations of users."""
    names = request.users or sorted({user for user, _ in image.scram_credentials})
    users = tuple(_described(image, name, count) for name, count in Counter(names).items())
    return Decision((), s.DescribeUserScramCredentialsResponse(users=users))


def _described(image: MetadataImage, name: str, count: int) -> s.DescribedScramUser:
    if count > 1:
        return _failed(
            name,
            DuplicateResourceError(
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            ),
        )
    found = tuple(
        s.ScramCredentialInfo(mechanism, image.scram_credentials[name, mechanism].iterations)
        for mechanism in SCRAM_MECHANISMS.values()
        if (name, mechanism) in image.scram_credentials
    )
    if not found:
        return _failed(
            name,
            ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {name}"),
        )
    return s.DescribedScramUser(name, credentials=found)


def _failed(name: str, error: KafkaError) -> s.DescribedScramUser:
    return s.DescribedScramUser(name, error.code, error.detail)


def _change(image: MetadataImage, change: s.ScramDeletion | s.ScramUpsertion) -> _Record:
    """Errors: KafkaError."""
    mechanism = _checked_mechanism(change.user, change.mechanism)
    if isinstance(change, s.ScramDeletion):
        if (change.user, mechanism) not in image.scram_credentials:
            raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(change.user, mechanism)
    if change.iterations < MINIMUM_ITERATIONS:
        raise UnacceptableCredentialError("Too few iterations")
    if change.iterations > MAXIMUM_ITERATIONS:
        raise UnacceptableCredentialError("Too many iterations")
    if not 0 < len(change.salt) <= MAX_SALT:
        raise UnacceptableCredentialError(f"a salt has 1 to {MAX_SALT} bytes, not {len(change.salt)}")
    if not 0 < len(change.salted_password) <= MAX_SALT:
        raise UnacceptableCredentialError(f"a salted password has 1 to {MAX_SALT} bytes")
    credential = credential_of(mechanism, change.salted_password, change.salt, change.iterations)
    return UserScramCredentialRecord(change.user, credential)


def _checked_mechanism(user: str, mechanism: int) -> ScramMechanism:
    """Errors: UnacceptableCredentialError, UnsupportedSaslMechanismError."""
    if not user:
        raise UnacceptableCredentialError("Username must not be empty")
    if len(user) > MAX_NAME:
        raise UnacceptableCredentialError(f"a user name has at most {MAX_NAME} characters")
    if mechanism not in SCRAM_MECHANISMS.values():
        raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    return ScramMechanism(mechanism)
