"""Control records: what servers write between the records of users."""

import pytest
from headrace.protocol.errors import InvalidRecordError
from headrace.protocol.records.control import (
    ControlRecord,
    ControlType,
    EndTransaction,
    LeaderChange,
    QuorumVersion,
    SnapshotFooter,
    SnapshotHeader,
    VoterDescription,
    VoterEndpoint,
    VoterSet,
    control_type,
    decode_control,
    encode_control,
)

ID = bytes(range(16))
VOTER = VoterDescription(1, ID, (VoterEndpoint("CONTROLLER", "hôte", 65535), VoterEndpoint("B", "", 0)), 0, 1)
RECORDS: list[tuple[ControlType, ControlRecord]] = [
    (ControlType.ABORT, EndTransaction(is_commit=False, coordinator_epoch=2**31 - 1)),
    (ControlType.COMMIT, EndTransaction(is_commit=True, coordinator_epoch=-1)),
    (ControlType.LEADER_CHANGE, LeaderChange(1, (1, 2, 3), (1, 3))),
    (ControlType.LEADER_CHANGE, LeaderChange(7, tuple(range(300)))),
    (ControlType.SNAPSHOT_HEADER, SnapshotHeader(1_700_000_000_000)),
    (ControlType.SNAPSHOT_FOOTER, SnapshotFooter()),
    (ControlType.KRAFT_VERSION, QuorumVersion(1)),
    (ControlType.KRAFT_VOTERS, VoterSet((VOTER,))),
    (ControlType.KRAFT_VOTERS, VoterSet(())),
]


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_round_trip(kind: ControlType, record: ControlRecord) -> None:
    """The key contains the type of the marker."""
    key, value = encode_control(record)
    assert key == b"\x00\x00" + int(kind).to_bytes(2, "big")
    assert control_type(key) is kind
    assert decode_control(key, value) == record


def test_marker_bytes() -> None:
    """Version, then the coordinator's epoch; six bytes that never change."""
    assert encode_control(EndTransaction(True, 7)) == (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07")


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_values_cut_short_at_every_byte(kind: ControlType, record: ControlRecord) -> None:
    """No prefix of a value is a value."""
    key, value = encode_control(record)
    for length in range(len(value)):
        with pytest.raises(InvalidRecordError):
            decode_control(key, value[:length])
    with pytest.raises(InvalidRecordError):
        decode_control(key, None)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_keys_that_say_nothing(key: bytes | None) -> None:
    """A key without a version and a type is damage."""
    with pytest.raises(InvalidRecordError):
        control_type(key)


def test_unknown_types_are_skipped() -> None:
    """A newer server's record is not an error for an older reader."""
    for kind in (b"\x00\x07", b"\x7f\xff", b"\xff\xff"):
        assert control_type(b"\x00\x00" + kind) is ControlType.UNKNOWN
        assert decode_control(b"\x00\x00" + kind, b"anything") is None


def test_newer_versions_and_tags_are_read_as_far_as_known() -> None:
    """A longer key, a longer marker, an unknown tagged field."""
    assert control_type(b"\x00\x01\x00\x01extra") is ControlType.COMMIT
    newer = b"\x00\x01\x00\x00\x00\x07more"
    assert decode_control(b"\x00\x01\x00\x01", newer) == EndTransaction(True, 7)
    key, value = encode_control(SnapshotFooter())
    assert decode_control(key, value[:-1] + b"\x01\x05\x02ab") == SnapshotFooter()
    with pytest.raises(InvalidRecordError):
        decode_control(key, b"\xff\xff\x00")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x0f", id="2^32 voters"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\x00", id="null array"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01" + b"\xff" * 9, id="endless varint"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\x01\x01\xff\xff\xff\xff\x0f", id="2^32 tags"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\x01\x01\x01\x00\xff\xff\xff\xff\x0f", id="huge tag"),
    ],
)
def test_hostile_values(value: bytes) -> None:
    """Counts and lengths are checked against the bytes that are there."""
    with pytest.raises(InvalidRecordError):
        decode_control(b"\x00\x00\x00\x02", value)


def test_fields_that_do_not_fit() -> None:
    """Wrong values are the caller's fault."""
    for record in (EndTransaction(True, 2**31), LeaderChange(2**31), QuorumVersion(2**15)):
        with pytest.raises(ValueError, match="format requires"):
            encode_control(record)
    with pytest.raises(ValueError, match="16 bytes"):
        encode_control(VoterSet((VoterDescription(1, b"short", (), 0, 1),)))


def test_a_name_that_is_not_utf8() -> None:
    """Text fields are UTF-8 or damage."""
    key, value = encode_control(VoterSet((VoterDescription(1, ID, (VoterEndpoint("ab", "", 1),), 0, 1),)))
    with pytest.raises(InvalidRecordError, match="UTF-8"):
        decode_control(key, value.replace(b"ab", b"\xff\xfe"))
