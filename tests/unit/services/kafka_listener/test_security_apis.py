"""ACLs, delegation tokens, SCRAM credentials and SASL: requests and responses of Kafka clients.

The responses of refused requests are those of Apache Kafka 4.3.1 with a PLAINTEXT listener and no authorizer.
"""

from dataclasses import replace
from typing import Any

import pytest
from headrace.protocol.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenRequestNotAllowedError,
    SecurityDisabledError,
)
from headrace.protocol.messages import security as s
from headrace.protocol.messages.control import ItemError
from headrace.protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.protocol.security.tokens import DelegationToken
from headrace.services.kafka_listener.entities import layout
from headrace.services.kafka_listener.served import SERVED
from kafka_calls import FakePlane
from kafka_wire import example_request

SECURITY_DISABLED, TOKEN_NOT_ALLOWED, ILLEGAL_SASL_STATE = 54, 64, 34
NO_TOKENS = DelegationTokenRequestNotAllowedError("not authenticated")
RULE = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW
)


def refused(key: int, version: int, error: Exception, **values: Any) -> FakePlane:
    """A request to which the node answers with the error."""
    plane = started(key, version, **values)
    plane.answer(error)
    return plane


def started(key: int, version: int, **values: Any) -> FakePlane:
    """A request with exactly these values, and examples in other fields."""
    plane = FakePlane()
    plane.start(key, version, replace(example_request(key, version), **values))
    return plane


def element(key: int, version: int, field: str) -> Any:
    """The type of the elements of a field of a request."""
    kind = layout(key, version).request.__dataclass_fields__[field].type
    while not hasattr(kind, "__dataclass_fields__"):
        kind = kind.__args__[0]
    return kind


# --- rules ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_answer_an_error_for_each_entry(version: int) -> None:
    """DescribeAcls has one error, CreateAcls one for each ACL, DeleteAcls one for each filter."""
    error = SecurityDisabledError("none")
    answer = refused(29, version, error).only_response(29, version)
    assert (answer.error_code, answer.resources) == (SECURITY_DISABLED, ())
    for key, answers in ((30, "results"), (31, "filter_results")):
        (result,) = getattr(refused(key, version, error).only_response(key, version), answers)
        assert result.error_code == SECURITY_DISABLED
    assert result.matching_acls == ()


def test_rules_of_kafka_clients() -> None:
    """Codes that are unknown here become UNKNOWN, which the controller refuses for that rule alone."""
    creation = element(30, 3, "creations")
    known = {"resource_name": "orders", "principal": "User:a", "host": "*"}
    creations = (
        creation(resource_type=2, resource_pattern_type=3, operation=3, permission_type=3, **known),
        creation(resource_type=99, resource_pattern_type=98, operation=97, permission_type=96, **known),
    )
    plane = started(30, 3, creations=creations)
    unknown = AclBinding(ResourceType(0), "orders", PatternType(0), "User:a", "*", *(AclOperation(0),) * 2)
    assert plane.asked[-1].body.rules == (RULE, unknown)
    plane.answer(s.CreateAclsResponse((ItemError(""), ItemError("", 42, "no"))))
    results = plane.only_response(30, 3).results
    assert [(int(each.error_code), each.error_message) for each in results] == [(0, None), (42, "no")]


def test_described_rules_are_grouped_by_pattern() -> None:
    values = {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 2}
    more = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    plane = started(29, 3, **values, **more)
    wanted = AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
    assert plane.asked[-1].body == s.DescribeAclsRequest(wanted)
    other = RULE._replace(pattern_type=PatternType.PREFIXED)
    written = RULE._replace(operation=AclOperation.WRITE)
    plane.answer(s.DescribeAclsResponse(rules=(RULE, other, written)))
    literal, prefixed = plane.only_response(29, 3).resources
    assert (literal.resource_type, literal.resource_name, literal.pattern_type) == (2, "orders", 3)
    assert [each.operation for each in literal.acls] == [3, 4]
    assert (prefixed.pattern_type, len(prefixed.acls)) == (4, 1)


def test_deleted_rules_are_listed_for_each_filter() -> None:
    plane = started(31, 3)
    plane.answer(s.DeleteAclsResponse((s.DeletedAcls(rules=(RULE,)),)))
    (result,) = plane.only_response(31, 3).filter_results
    (deleted,) = result.matching_acls
    assert (deleted.resource_name, deleted.principal, deleted.operation) == ("orders", "User:a", 3)


# --- delegation tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_creating_a_token_is_refused_with_the_requester_as_owner(version: int) -> None:
    """Byte for byte as Kafka, which kio cannot read: -1 as times."""
    text: Any = {1: lambda value: b"\0" + bytes([len(value)]) + value}
    string = text.get(version, lambda value: bytes([len(value) + 1]) + value)
    given = {"owner_principal_type": None, "owner_principal_name": None} if version == 3 else {}
    plane = refused(38, version, NO_TOKENS, **given)
    owner = string(b"User") + string(b"ANONYMOUS")
    expected = TOKEN_NOT_ALLOWED.to_bytes(2, "big") + owner * (2 if version == 3 else 1) + b"\xff" * 24
    expected += b"\0" * 10 if version == 1 else b"\x01\x01" + b"\0" * 5
    assert plane.sent[0][8 + (version > 1) :] == expected


@pytest.mark.parametrize("key", [39, 40])
@pytest.mark.parametrize("version", [1, 2])
def test_renewing_and_expiring_a_token_is_refused(key: int, version: int) -> None:
    """With -1 as the time of expiry."""
    plane = refused(key, version, NO_TOKENS)
    expected = TOKEN_NOT_ALLOWED.to_bytes(2, "big") + b"\xff" * 8 + b"\0" * (4 + (version > 1))
    assert plane.sent[0][8 + (version > 1) :] == expected


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describing_tokens_is_refused(version: int) -> None:
    answer = refused(41, version, NO_TOKENS).only_response(41, version)
    assert (answer.error_code, answer.tokens) == (TOKEN_NOT_ALLOWED, ())


TOKEN = DelegationToken("id", "User:owner", "User:asker", ("User:r",), 1_000, 9_000, 5_000)


def test_tokens_of_kafka_clients() -> None:
    renewer = element(38, 3, "renewers")(principal_type="User", principal_name="r")
    plane = started(38, 3, renewers=(renewer,), owner_principal_type="User", owner_principal_name="owner")
    assert plane.asked[-1].body.renewers == ("User:r",)
    assert plane.asked[-1].body.owner == "User:owner"
    plane.answer(s.CreateDelegationTokenResponse(token=TOKEN, hmac=b"mac"))
    answer = plane.only_response(38, 3)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("owner", "asker")
    assert (answer.token_id, answer.hmac) == ("id", b"mac")
    assert [int(each.timestamp()) for each in (answer.issue_timestamp, answer.max_timestamp)] == [1, 9]
    described = started(41, 3, owners=None)
    assert described.asked[-1].body.owners is None
    described.answer(s.DescribeDelegationTokenResponse(tokens=(s.DescribedToken(TOKEN, b"mac"),)))
    (token,) = described.only_response(41, 3).tokens
    assert (token.principal_name, token.expiry_timestamp, token.hmac) == ("owner", 5_000, b"mac")
    assert [each.principal_name for each in token.renewers] == ["r"]


@pytest.mark.parametrize(
    ("key", "response"), [(39, s.RenewDelegationTokenResponse), (40, s.ExpireDelegationTokenResponse)]
)
def test_a_changed_token_has_its_expiry(key: int, response: Any) -> None:
    plane = started(key, 2, hmac=b"mac")
    assert plane.asked[-1].body.hmac == b"mac"
    plane.answer(response(expiry_ms=5_000))
    assert int(plane.only_response(key, 2).expiry_timestamp.timestamp()) == 5


def test_a_response_with_an_error_has_no_token() -> None:
    plane = started(38, 3)
    plane.answer(s.CreateDelegationTokenResponse(DelegationTokenAuthDisabledError.code))
    assert plane.sent[0][9:11] == DelegationTokenAuthDisabledError.code.to_bytes(2, "big")


# --- SCRAM credentials ---------------------------------------------------------------------------------


def test_scram_credentials_of_kafka_clients() -> None:
    deletion = element(51, 0, "deletions")(name="a", mechanism=1)
    upsertion = element(51, 0, "upsertions")(
        name="b", mechanism=2, iterations=4_096, salt=b"s", salted_password=b"p"
    )
    plane = started(51, 0, deletions=(deletion,), upsertions=(upsertion,))
    assert plane.asked[-1].body == s.AlterUserScramCredentialsRequest(
        (s.ScramDeletion("a", 1),), (s.ScramUpsertion("b", 2, 4_096, b"s", b"p"),)
    )
    plane.answer(s.AlterUserScramCredentialsResponse((ItemError("a", 91, "none"), ItemError("b"))))
    results = plane.only_response(51, 0).results
    assert {each.user: int(each.error_code) for each in results} == {"a": 91, "b": 0}
    failed = refused(51, 0, SecurityDisabledError("no"), deletions=(deletion,), upsertions=(upsertion,))
    assert {each.user for each in failed.only_response(51, 0).results} == {"a", "b"}


def test_scram_credentials_are_described_by_user() -> None:
    user = element(50, 0, "users")
    for users, names in ((None, None), ((), None), ((user(name="a"), user(name="a")), ("a", "a"))):
        plane = started(50, 0, users=users)
        assert plane.asked[-1].body.users == names
    infos = (s.ScramCredentialInfo(1, 4_096),)
    plane.answer(
        s.DescribeUserScramCredentialsResponse(
            users=(s.DescribedScramUser("a", credentials=infos), s.DescribedScramUser("b", 91, "none"))
        )
    )
    first, second = plane.only_response(50, 0).results
    assert (first.user, first.credential_infos[0].iterations) == ("a", 4_096)
    assert (second.user, int(second.error_code), second.credential_infos) == ("b", 91, ())
    failed = refused(50, 0, SecurityDisabledError("no")).only_response(50, 0)
    assert int(failed.error_code) == SECURITY_DISABLED
    assert [(each.user, int(each.error_code)) for each in failed.results] == [("", SECURITY_DISABLED)]


# --- SASL ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "version"), [(17, 0), (17, 1), (36, 0), (36, 1), (36, 2)])
def test_sasl_on_a_plaintext_listener_is_an_illegal_state(key: int, version: int) -> None:
    """SaslHandshake and SaslAuthenticate are answered; the connection stays."""
    plane = started(key, version)
    assert plane.only_response(key, version).error_code == ILLEGAL_SASL_STATE
    assert not plane.is_hung_up


def test_every_security_api_of_kafka_is_advertised() -> None:
    """With the versions of Apache Kafka 4.3."""
    expected = {17: (0, 1), 29: (1, 3), 30: (1, 3), 31: (1, 3), 36: (0, 2), 38: (1, 3), 39: (1, 2),
                40: (1, 2), 41: (1, 3), 50: (0, 0), 51: (0, 0)}  # fmt: skip
    assert {key: (SERVED[key].low, SERVED[key].high) for key in expected} == expected
