"""Control records: what servers write between the records of users."""

import pytest
from headrace.protocol.errors import InvalidRecordError
from headrace.protocol.records import control

ID = bytes(range(16))
VOTER = control.VoterDescription(
    1, ID, (control.VoterEndpoint("CONTROLLER", "hôte", 65535), control.VoterEndpoint("B", "", 0)), 0, 1
)
RECORDS: list[tuple[control.ControlType, control.ControlRecord]] = [
    (control.ControlType.ABORT, control.EndTransaction(is_commit=False, coordinator_epoch=2**31 - 1)),
    (control.ControlType.COMMIT, control.EndTransaction(is_commit=True, coordinator_epoch=-1)),
    (control.ControlType.LEADER_CHANGE, control.LeaderChange(1, (1, 2, 3), (1, 3))),
    (control.ControlType.LEADER_CHANGE, control.LeaderChange(7, tuple(range(300)))),
    (control.ControlType.SNAPSHOT_HEADER, control.SnapshotHeader(1_700_000_000_000)),
    (control.ControlType.SNAPSHOT_FOOTER, control.SnapshotFooter()),
    (control.ControlType.KRAFT_VERSION, control.QuorumVersion(1)),
    (control.ControlType.KRAFT_VOTERS, control.VoterSet((VOTER,))),
    (control.ControlType.KRAFT_VOTERS, control.VoterSet(())),
]


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_round_trip(kind: control.ControlType, record: control.ControlRecord) -> None:
    """The key contains the type of the marker."""
    key, value = control.encode_control(record)
    assert key == b"\x00\x00" + int(kind).to_bytes(2, "big")
    assert control.control_type(key) is kind
    assert control.decode_control(key, value) == record


def test_marker_bytes() -> None:
    """Version, then the coordinator's epoch; six bytes that never change."""
    assert control.encode_control(control.EndTransaction(True, 7)) == (
        b"\x00\x00\x00\x01",
        b"\x00\x00\x00\x00\x00\x07",
    )


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_values_cut_short_at_every_byte(kind: control.ControlType, record: control.ControlRecord) -> None:
    """No prefix of a value is a value."""
    key, value = control.encode_control(record)
    for length in range(len(value)):
        with pytest.raises(InvalidRecordError):
            control.decode_control(key, value[:length])
    with pytest.raises(InvalidRecordError):
        control.decode_control(key, None)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_control_key_without_version_and_type_is_rejected(key: bytes | None) -> None:
    """A key without a version and a type is damage."""
    with pytest.raises(InvalidRecordError):
        control.control_type(key)


def test_unknown_types_are_skipped() -> None:
    """A newer server's record is not an error for an older reader."""
    for kind in (b"\x00\x07", b"\x7f\xff", b"\xff\xff"):
        assert control.control_type(b"\x00\x00" + kind) is control.ControlType.UNKNOWN
        assert control.decode_control(b"\x00\x00" + kind, b"anything") is None


def test_newer_versions_and_tags_are_read_as_far_as_known() -> None:
    """A longer key, a longer marker, an unknown tagged field."""
    assert control.control_type(b"\x00\x01\x00\x01extra") is control.ControlType.COMMIT
    newer = b"\x00\x01\x00\x00\x00\x07more"
    assert control.decode_control(b"\x00\x01\x00\x01", newer) == control.EndTransaction(True, 7)
    key, value = control.encode_control(control.SnapshotFooter())
    assert control.decode_control(key, value[:-1] + b"\x01\x05\x02ab") == control.SnapshotFooter()
    with pytest.raises(InvalidRecordError):
        control.decode_control(key, b"\xff\xff\x00")


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
        control.decode_control(b"\x00\x00\x00\x02", value)


def test_fields_that_do_not_fit() -> None:
    """Wrong values are the caller's fault."""
    for record in (
        control.EndTransaction(True, 2**31),
        control.LeaderChange(2**31),
        control.QuorumVersion(2**15),
    ):
        with pytest.raises(ValueError, match="format requires"):
            control.encode_control(record)
    with pytest.raises(ValueError, match="16 bytes"):
        control.encode_control(control.VoterSet((control.VoterDescription(1, b"short", (), 0, 1),)))


def test_a_name_that_is_not_utf8() -> None:
    """Text fields are UTF-8 or damage."""
    key, value = control.encode_control(
        control.VoterSet((control.VoterDescription(1, ID, (control.VoterEndpoint("ab", "", 1),), 0, 1),))
    )
    with pytest.raises(InvalidRecordError, match="UTF-8"):
        control.decode_control(key, value.replace(b"ab", b"\xff\xfe"))
