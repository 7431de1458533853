"""Records of coordinators: round trips, and bytes that are none. Kafka's own are in tests/golden."""

import contextlib
from typing import Any, get_type_hints

import pytest
from headrace.protocol.errors import InvalidRecordError
from headrace.protocol.records import group_records as groups
from headrace.protocol.records import streams_group_records as streams
from headrace.protocol.records.coordinator_records import decode_record, encode_record
from headrace.protocol.records.transaction_records import TransactionKey, TransactionTopic, TransactionValue
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32, INT16 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**15), 2**15 - 1)
NATURAL = st.integers(0, 2**31 - 1)
OCTETS, ID = st.binary(max_size=20), st.binary(min_size=16, max_size=16)
INTS = st.lists(INT32, max_size=4).map(tuple)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=3).map(tuple)


NULLABLE = st.none() | TEXT
TARGET = tuples(st.builds(groups.AssignedTopic, ID, INTS, st.none()))
ASSIGNED = tuples(st.builds(groups.AssignedTopic, ID, INTS, st.none() | INTS))
MEMBERS = tuples(st.builds(groups.GroupMember, TEXT, NULLABLE, TEXT, TEXT, NATURAL, INT32, OCTETS, OCTETS))
CLASSIC = st.none() | st.builds(
    groups.ClassicMemberMetadata, INT32, tuples(st.builds(groups.ClassicProtocol, TEXT, OCTETS))
)
TOPICS = st.none() | tuples(st.builds(TransactionTopic, TEXT, INTS))
TEXTS = tuples(TEXT)
NODES = tuples(
    st.builds(streams.TopologyNode, TEXT, st.integers(-128, 127), TEXTS, TEXT, TEXTS, TEXTS, TEXTS)
)
RECORDS = st.one_of(
    st.tuples(
        st.builds(streams.StreamsGroupTopologyDescriptionKey, TEXT),
        st.builds(
            streams.TopologyDescription,
            tuples(st.builds(streams.SubtopologyGraph, TEXT, st.booleans(), NODES)),
        ),
    ),
    st.tuples(
        st.builds(groups.OffsetCommitKey, TEXT, TEXT, INT32),
        st.builds(groups.OffsetCommitValue, INT64, INT32, TEXT, INT64, st.just(-1), ID)
        | st.builds(
            groups.OffsetCommitValue,
            INT64,
            st.just(-1),
            TEXT,
            INT64,
            st.integers(0, 2**63 - 1),
            st.just(bytes(16)),
        ),
    ),
    st.tuples(
        st.builds(groups.GroupMetadataKey, TEXT),
        st.builds(groups.GroupMetadataValue, TEXT, INT32, NULLABLE, NULLABLE, INT64, MEMBERS),
    ),
    st.tuples(
        st.builds(groups.ConsumerGroupMetadataKey, TEXT),
        st.builds(groups.ConsumerGroupMetadataValue, INT32, INT64),
    ),
    st.tuples(
        st.builds(groups.ConsumerGroupMemberMetadataKey, TEXT, TEXT),
        st.builds(
            groups.ConsumerGroupMemberMetadataValue,
            *(NULLABLE, NULLABLE, TEXT, TEXT, tuples(TEXT), NULLABLE, INT32, NULLABLE, CLASSIC),
        ),
    ),
    st.tuples(
        st.builds(groups.ConsumerGroupTargetAssignmentMetadataKey, TEXT),
        st.builds(groups.ConsumerGroupTargetAssignmentMetadataValue, INT32, INT64),
    ),
    st.tuples(
        st.builds(groups.ConsumerGroupTargetAssignmentMemberKey, TEXT, TEXT),
        st.builds(groups.ConsumerGroupTargetAssignmentMemberValue, TARGET),
    ),
    st.tuples(
        st.builds(groups.ConsumerGroupCurrentMemberAssignmentKey, TEXT, TEXT),
        st.builds(
            groups.ConsumerGroupCurrentMemberAssignmentValue,
            *(INT32, INT32, st.integers(-128, 127), ASSIGNED, ASSIGNED),
        ),
    ),
    st.tuples(
        st.builds(groups.ConsumerGroupRegularExpressionKey, TEXT, TEXT),
        st.builds(groups.ConsumerGroupRegularExpressionValue, tuples(TEXT), INT64, INT64),
    ),
    st.tuples(
        st.builds(TransactionKey, TEXT),
        st.builds(
            TransactionValue,
            *(INT64, INT64, INT64, INT16, INT32, st.integers(-128, 127), TOPICS, INT64, INT64, INT16, INT16),
            INT64,
        ),
    ),
)


@given(RECORDS)
def test_round_trip(record: tuple[Any, Any]) -> None:
    """What is written is read, the tombstone of the key too."""
    assert decode_record(*encode_record(*record)) == record
    assert decode_record(*encode_record(record[0], None)) == (record[0], None)


@given(RECORDS, st.data())
def test_cut_short_or_too_long(record: tuple[Any, Any], data: st.DataObject) -> None:
    """No prefix of a key or value is one, nor with a byte more."""
    key, value = encode_record(*record)
    assert value is not None
    with pytest.raises(InvalidRecordError):
        decode_record(key, value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(InvalidRecordError):
        decode_record(key, value + b"\x00")
    if not isinstance(record[0], TransactionKey):  # a longer one of those is tried as an old offset's
        with pytest.raises(InvalidRecordError):
            decode_record(key + b"\x00", value)
    with pytest.raises(InvalidRecordError):
        decode_record(key[: data.draw(st.integers(0, len(key) - 1))], value)


@given(RECORDS, st.data())
def test_any_byte_changed(record: tuple[Any, Any], data: st.DataObject) -> None:
    """Another record, a type that is not known, or a clear error."""
    key, value = encode_record(*record)
    assert value is not None
    whole = bytearray(key + value)
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidRecordError):
        decode_record(bytes(whole[: len(key)]), bytes(whole[len(key) :]))


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes(key: bytes, value: bytes | None) -> None:
    """The same of bytes that never were a record."""
    with contextlib.suppress(InvalidRecordError):
        decode_record(key, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x00\x05", "version 5"),
        (b"\xff\xff", "version -1"),
        (b"\x00\x03\x7f\xff", "a length of 32767"),
        (b"\x00\x03\xff\xff", "a length of -1"),
        (b"\x00\x04\x00", "a length of -1"),
        (b"\x00\x04\xff\xff\xff\xff\xff\x7f", "varint is too long"),
        (
            b"\x00\x03\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
            "items",
        ),
        (b"\x00\x03\x00\x01\xff", "UTF-8"),
    ],
)
def test_errors_name_the_reason(value: bytes, text: str) -> None:
    """Lengths are checked before they are used."""
    with pytest.raises(InvalidRecordError, match=text):
        decode_record(b"\x00\x02\x00\x01g", value)


def test_tags_that_are_not_known_are_skipped() -> None:
    """Newer versions of Kafka say more of a target assignment, and of a group its time of creation."""
    more = b"\x00\x00\x00\x00\x00\x09" + b"\x02" + b"\x05\x02ab" + b"\x07\x00"
    assert decode_record(b"\x00\x06\x00\x01g", more) == (
        groups.ConsumerGroupTargetAssignmentMetadataKey("g"),
        groups.ConsumerGroupTargetAssignmentMetadataValue(9),
    )


@pytest.mark.parametrize(
    "record",
    [
        (groups.GroupMetadataKey("g" * 40_000), None),
        (groups.OffsetCommitKey("g", "t", 2**31), None),
        (groups.GroupMetadataKey("\ud800"), None),
        (groups.OffsetCommitKey("g", "t", 0), groups.OffsetCommitValue(0, 0, "", 0, -1, b"short")),
        (groups.OffsetCommitKey("g", "t", 0), groups.OffsetCommitValue(0, 0, None, 0)),  # type: ignore[arg-type]
    ],
)
def test_invalid_records_are_not_written(record: tuple[Any, Any]) -> None:
    """A ValueError, before anything is appended."""
    with pytest.raises(ValueError, match=r".+"):
        encode_record(*record)


def test_every_key_has_its_bytes() -> None:
    """Nothing that a coordinator can remember is left out."""
    keys = [made for name, made in vars(groups).items() if name.endswith("Key")]
    assert len(keys) == 8
    for made in keys:
        sample = {"int": 1, "str": "s"}
        fields = [sample[kind.__name__] for kind in get_type_hints(made).values()]
        assert decode_record(*encode_record(made(*fields), None)) == (made(*fields), None)
