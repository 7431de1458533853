"""The embedded bytes of consumers are Kafka's, and hostile ones are refused."""

import pytest
from headrace.protocol.consumer_protocol import (
    MAX_VERSION,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.protocol.errors import InvalidRequestError
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

TP = TopicPartition
NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
PARTITIONS = st.lists(st.builds(TP, NAMES, st.integers(0, 2**31 - 1)), max_size=6, unique=True).map(
    lambda tps: tuple(sorted(tps))
)
SUBSCRIPTIONS = st.builds(
    Subscription,
    st.just(MAX_VERSION),
    st.lists(NAMES, max_size=4).map(lambda names: tuple(sorted(names))),
    st.none() | st.binary(max_size=8),
    PARTITIONS,
    st.integers(-1, 2**31 - 1),
    st.none() | NAMES,
)


def test_a_subscription_has_the_bytes_of_the_schema() -> None:
    """Every field where the schema has it; topics and partitions sorted."""
    subscription = Subscription(3, ("b", "a"), None, (TP("a", 1), TP("a", 0)), 7, "r1")
    assert encode_subscription(subscription) == bytes.fromhex(
        "0003"  # version
        "00000002 000161 000162"  # topics, sorted
        "ffffffff"  # no user data
        "00000001 000161 00000002 00000000 00000001"  # owned
        "00000007"  # generation
        "0002 7231"  # rack
    )


def test_an_assignment_has_the_bytes_of_the_schema() -> None:
    """Partitions by topic, then the user data."""
    assignment = Assignment(1, (TP("t", 2),), b"x")
    assert encode_assignment(assignment) == bytes.fromhex(
        "0001 00000001 000174 00000001 00000002 00000001 78"
    )


@given(SUBSCRIPTIONS)
def test_subscriptions_round_trip(subscription: Subscription) -> None:
    """Decoding is the inverse of encoding."""
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(PARTITIONS, st.none() | st.binary(max_size=8), st.integers(0, MAX_VERSION))
def test_assignments_round_trip(
    partitions: tuple[TopicPartition, ...], user_data: bytes | None, version: int
) -> None:
    """Decoding is the inverse of encoding, in every version."""
    assignment = Assignment(version, partitions, user_data)
    assert decode_assignment(encode_assignment(assignment)) == assignment


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Subscription(0, ("t",), b"u")),
        (1, Subscription(1, ("t",), b"u", (TP("t", 0),))),
        (2, Subscription(2, ("t",), b"u", (TP("t", 0),), 4)),
        (3, Subscription(3, ("t",), b"u", (TP("t", 0),), 4, "r")),
    ],
)
def test_older_versions_leave_fields_out(version: int, expected: Subscription) -> None:
    """Each version has the fields up to its own."""
    full = Subscription(version, ("t",), b"u", (TP("t", 0),), 4, "r")
    assert decode_subscription(encode_subscription(full)) == expected


def test_fields_of_later_versions_are_skipped() -> None:
    """A newer writer adds fields at the end; a reader takes those it knows."""
    data = b"\x00\x09" + encode_subscription(Subscription(3, ("t",)))[2:] + b"later fields"
    assert decode_subscription(data) == Subscription(9, ("t",))
    data = b"\x00\x09" + encode_assignment(Assignment(3, (TP("t", 0),)))[2:] + b"later fields"
    assert decode_assignment(data) == Assignment(9, (TP("t", 0),))


def test_a_member_that_was_not_named_gets_nothing() -> None:
    """A coordinator answers such a member with no bytes."""
    assert decode_assignment(b"").partitions == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\xff\xff",  # version -1
        bytes.fromhex("0000 7fffffff"),  # topics that cannot be there
        bytes.fromhex("0000 ffffffff"),
        bytes.fromhex("0000 00000001 ffff"),  # a topic without a name
        bytes.fromhex("0000 00000001 0001ff ffffffff"),  # no UTF-8
        bytes.fromhex("0000 00000000 00000005 00"),  # user data cut short
        bytes.fromhex("0001 00000000 ffffffff 00000001 000174 7fffffff"),
        bytes.fromhex("0001 00000000 ffffffff 00000001 000174 00000001 ffffffff"),  # partition -1
    ],
)
def test_hostile_subscriptions_are_refused(data: bytes) -> None:
    """With the protocol error that says why, whatever is wrong."""
    with pytest.raises(InvalidRequestError, match="invalid subscription"):
        decode_subscription(data)


@given(st.binary(max_size=64))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    """No other exception escapes."""
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except InvalidRequestError:
            continue


@pytest.mark.parametrize("version", [-1, MAX_VERSION + 1])
def test_only_known_versions_are_written(version: int) -> None:
    """A mistake of the caller, not of a peer."""
    with pytest.raises(ValueError, match="version must be"):
        encode_assignment(Assignment(version, ()))
