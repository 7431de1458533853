"""ACLs, delegation tokens, SCRAM credentials and SASL on a cluster without security.

The expected responses are those of Apache Kafka 4.3.1 with a PLAINTEXT listener and no authorizer.
"""

from typing import Any

import pytest
from headrace.services.kafka_listener.entities import layout
from headrace.services.kafka_listener.served import SERVED
from kafka_calls import FakePlane

SECURITY_DISABLED, TOKEN_NOT_ALLOWED, ILLEGAL_SASL_STATE = 54, 64, 34
NOT_FOUND, UNACCEPTABLE, UNSUPPORTED_MECHANISM, DUPLICATE = 91, 93, 33, 92


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_answer_security_disabled_for_each_entry(version: int) -> None:
    """DescribeAcls has one error, CreateAcls one for each ACL, DeleteAcls one for each filter."""
    plane = FakePlane()
    plane.start(29, version)
    assert plane.only_response(29, version).error_code == SECURITY_DISABLED
    assert plane.only_response(29, version).resources == ()
    for key, answers in ((30, "results"), (31, "filter_results")):
        plane = FakePlane()
        plane.start(key, version)
        (result,) = getattr(plane.only_response(key, version), answers)
        assert result.error_code == SECURITY_DISABLED
    assert result.matching_acls == ()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_creating_a_token_is_refused_with_the_requester_as_owner(version: int) -> None:
    """Byte for byte as Kafka, which kio cannot read: -1 as times."""
    plane = FakePlane()
    text: Any = {1: lambda value: b"\0" + bytes([len(value)]) + value}
    string = text.get(version, lambda value: bytes([len(value) + 1]) + value)
    given = {"owner_principal_type": None, "owner_principal_name": None} if version == 3 else {}
    plane.start(38, version, **given)
    owner = string(b"User") + string(b"ANONYMOUS")
    expected = TOKEN_NOT_ALLOWED.to_bytes(2, "big") + owner * (2 if version == 3 else 1) + b"\xff" * 24
    expected += b"\0" * 10 if version == 1 else b"\x01\x01" + b"\0" * 5
    assert plane.sent[0][8 + (version > 1) :] == expected


@pytest.mark.parametrize("key", [39, 40])
@pytest.mark.parametrize("version", [1, 2])
def test_renewing_and_expiring_a_token_is_refused(key: int, version: int) -> None:
    """With -1 as the time of expiry."""
    plane = FakePlane()
    plane.start(key, version)
    expected = TOKEN_NOT_ALLOWED.to_bytes(2, "big") + b"\xff" * 8 + b"\0" * (4 + (version > 1))
    assert plane.sent[0][8 + (version > 1) :] == expected


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describing_tokens_is_refused(version: int) -> None:
    """DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as on every PLAINTEXT listener."""
    plane = FakePlane()
    plane.start(41, version)
    assert (plane.only_response(41, version).error_code, plane.only_response(41, version).tokens) == (
        TOKEN_NOT_ALLOWED,
        (),
    )


@pytest.mark.parametrize(("key", "version"), [(17, 0), (17, 1), (36, 0), (36, 1), (36, 2)])
def test_sasl_on_a_plaintext_listener_is_an_illegal_state(key: int, version: int) -> None:
    """SaslHandshake and SaslAuthenticate are answered; the connection stays."""
    plane = FakePlane()
    plane.start(key, version)
    assert plane.only_response(key, version).error_code == ILLEGAL_SASL_STATE
    assert not plane.is_hung_up


def altered(deletions: list[tuple[str, int]], upsertions: list[tuple[str, int]]) -> dict[str, int]:
    """The error code of each user in a response to AlterUserScramCredentials."""
    request = layout(51, 0).request
    gone, kept = (
        next(field.type.__args__[0] for field in request.__dataclass_fields__.values() if field.name == name)
        for name in ("deletions", "upsertions")
    )
    body = request(
        deletions=tuple(gone(name=name, mechanism=mechanism) for name, mechanism in deletions),
        upsertions=tuple(
            kept(name=name, mechanism=mechanism, iterations=4_096, salt=b"s", salted_password=b"p")
            for name, mechanism in upsertions
        ),
    )
    plane = FakePlane()
    plane.start(51, 0, body)
    return {each.user: int(each.error_code) for each in plane.only_response(51, 0).results}


def test_no_scram_credential_is_found_or_stored() -> None:
    """A deletion finds none; an upsertion is refused, since nothing would use the credential."""
    assert altered([("a", 1), ("", 1), ("b", 9)], []) == {
        "a": NOT_FOUND,
        "": UNACCEPTABLE,
        "b": UNSUPPORTED_MECHANISM,
    }
    assert altered([("a", 1), ("a", 2)], []) == {"a": NOT_FOUND}
    assert altered([], [("a", 1), ("", 2)]) == {"a": UNSUPPORTED_MECHANISM, "": UNACCEPTABLE}
    assert altered([], []) == {}


def test_scram_credentials_are_described_by_user() -> None:
    """All: none. A named user: RESOURCE_NOT_FOUND, or DUPLICATE_RESOURCE if the request names it twice."""
    request = layout(50, 0).request
    user: Any = request.__dataclass_fields__["users"].type.__args__[0].__args__[0]
    for names, expected in (
        (None, {}),
        (["a"], {"a": NOT_FOUND}),
        (["a", "b", "a"], {"a": DUPLICATE, "b": NOT_FOUND}),
    ):
        plane = FakePlane()
        users = None if names is None else tuple(user(name=name) for name in names)
        plane.start(50, 0, request(users=users))
        answer = plane.only_response(50, 0)
        assert int(answer.error_code) == 0
        assert {each.user: int(each.error_code) for each in answer.results} == expected


def test_every_security_api_of_kafka_is_advertised() -> None:
    """With the versions of Apache Kafka 4.3."""
    expected = {17: (0, 1), 29: (1, 3), 30: (1, 3), 31: (1, 3), 36: (0, 2), 38: (1, 3), 39: (1, 2),
                40: (1, 2), 41: (1, 3), 50: (0, 0), 51: (0, 0)}  # fmt: skip
    assert {key: (SERVED[key].low, SERVED[key].high) for key in expected} == expected
