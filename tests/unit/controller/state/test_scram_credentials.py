"""SCRAM credentials: what is stored verifies the password; each invalid change is refused alone."""

from __future__ import annotations

import pytest
from controller_kit import Driver
from headrace.controller.state import scram_credentials
from headrace.protocol.errors import (
    DuplicateResourceError,
    InvalidRequestError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from headrace.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialInfo,
    ScramDeletion,
    ScramUpsertion,
)
from headrace.protocol.metadata.records import UserScramCredentialRecord
from headrace.protocol.metadata.replay import image_of, image_records
from headrace.protocol.security.scram import ScramMechanism, credential_from_password, salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"salt of the test"
SALTED = salted_password(SHA_256, "secret", SALT, 4096)
UPSERTION = ScramUpsertion("alice", SHA_256, 4096, SALT, SALTED)


def alter(driver: Driver, *changes: ScramDeletion | ScramUpsertion) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(
        tuple(each for each in changes if isinstance(each, ScramDeletion)),
        tuple(each for each in changes if isinstance(each, ScramUpsertion)),
    )
    return [(result.name, result.error_code) for result in driver.ask(request).results]


def test_credentials_are_set_described_and_deleted(driver: Driver) -> None:
    other = ScramUpsertion("alice", SHA_512, 8192, SALT, b"x" * 64)
    assert alter(driver, UPSERTION) == [("alice", 0)]
    assert alter(driver, other) == [("alice", 0)]
    assert driver.image.scram_credentials["alice", SHA_256] == credential_from_password(
        SHA_256, "secret", SALT
    )
    assert image_of(image_records(driver.image), driver.image.offset) == driver.image
    driver.restart()
    (alice,) = driver.ask(DescribeUserScramCredentialsRequest()).users
    assert alice.credentials == (ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192))
    named = driver.ask(DescribeUserScramCredentialsRequest(("bob", "alice", "bob"))).users
    assert [(user.name, user.error_code) for user in named] == [
        ("bob", DuplicateResourceError.code),
        ("alice", 0),
    ]
    (bob,) = driver.ask(DescribeUserScramCredentialsRequest(("bob",))).users
    assert bob.error_code == ResourceNotFoundError.code
    assert alter(driver, ScramDeletion("alice", SHA_256)) == [("alice", 0)]
    assert list(driver.image.scram_credentials) == [("alice", SHA_512)]


def test_secrets_are_in_no_repr(driver: Driver) -> None:
    alter(driver, UPSERTION)
    credential = driver.image.scram_credentials["alice", SHA_256]
    shown = repr((UPSERTION, UserScramCredentialRecord("alice", credential), driver.image, driver.records))
    for secret in (SALTED, credential.stored_key, credential.server_key, credential.salt):
        assert repr(secret) not in shown


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (ScramDeletion("", SHA_256), UnacceptableCredentialError.code),
        (ScramDeletion("u" * 501, SHA_256), UnacceptableCredentialError.code),
        (ScramDeletion("bob", 0), UnsupportedSaslMechanismError.code),
        (ScramDeletion("bob", 3), UnsupportedSaslMechanismError.code),
        (ScramDeletion("bob", SHA_256), ResourceNotFoundError.code),
        (ScramUpsertion("bob", SHA_256, 4095, SALT, SALTED), UnacceptableCredentialError.code),
        (ScramUpsertion("bob", SHA_256, 16385, SALT, SALTED), UnacceptableCredentialError.code),
        (ScramUpsertion("bob", SHA_256, 4096, b"", SALTED), UnacceptableCredentialError.code),
        (ScramUpsertion("bob", SHA_512, 4096, SALT, b""), UnacceptableCredentialError.code),
    ],
)
def test_an_invalid_change_is_refused_alone(
    driver: Driver, change: ScramDeletion | ScramUpsertion, code: int
) -> None:
    assert dict(alter(driver, change, UPSERTION)) == {change.user: code, "alice": 0}
    assert list(driver.image.scram_credentials) == [("alice", SHA_256)]


def test_a_user_is_changed_once_per_request(driver: Driver) -> None:
    alter(driver, UPSERTION)
    twice = alter(driver, ScramDeletion("alice", SHA_256), UPSERTION)
    assert twice == [("alice", DuplicateResourceError.code)]
    assert ("alice", SHA_256) in driver.image.scram_credentials
    missing = ScramDeletion("bob", SHA_256)
    assert alter(driver, missing, missing) == [("bob", ResourceNotFoundError.code)]  # the first error


def test_credentials_and_changes_are_bounded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_credentials, "MAX_CREDENTIALS", 1)
    monkeypatch.setattr(scram_credentials, "MAX_CHANGES", 2)
    bob = ScramUpsertion("bob", SHA_256, 4096, SALT, SALTED)
    assert alter(driver, UPSERTION, bob) == [("alice", 0), ("bob", InvalidRequestError.code)]
    assert alter(driver, UPSERTION) == [("alice", 0)]
    with pytest.raises(InvalidRequestError, match="at most 2"):
        alter(driver, UPSERTION, bob, ScramDeletion("c", SHA_256))
