"""Control records: markers that servers write between data records.

A control batch (attribute bit 5) has one control record. The key has its type, the value its fields:

    key    version i16, type i16 (further bytes belong to newer versions)
    value  of ABORT and COMMIT: version i16, coordinator epoch i32
           of the others: the fields of the class below, in order, big-endian; arrays and strings have
           their length + 1 as an unsigned varint; every structure ends with tagged fields, none written

Readers accept newer versions as far as their known fields go, and ignore unknown types and tags. Source:
Kafka ControlRecordType.java, EndTransactionMarker.java, LeaderChangeMessage.json, SnapshotHeaderRecord.json,
SnapshotFooterRecord.json, KRaftVersionRecord.json, VotersRecord.json; KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from ..errors import InvalidRecordError
from .fields import INT16, INT32, INT64, UINT16, UUID_BYTES, FieldReader, unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """The type of a control record. UNKNOWN is never written; readers ignore it."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """The end of a transaction of the batch's producer: commit or abort."""

    is_commit: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The quorum leader starts its epoch; voters by id."""

    leader_id: int
    voters: tuple[int, ...] = ()
    granting_voters: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """First record of a snapshot of the metadata log."""

    last_contained_timestamp: int  # ms


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """Last record of a snapshot; without it the snapshot is incomplete."""


@dataclass(frozen=True, slots=True)
class QuorumVersion:
    """The quorum protocol version from this offset on."""

    quorum_version: int


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """An endpoint of a voter."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VoterDescription:
    """One member of the voter set."""

    voter_id: int
    directory_id: bytes
    endpoints: tuple[VoterEndpoint, ...]
    min_quorum_version: int
    max_quorum_version: int


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of the quorum from this offset on."""

    voters: tuple[VoterDescription, ...]


ControlRecord = EndTransaction | LeaderChange | SnapshotHeader | SnapshotFooter | QuorumVersion | VoterSet


def control_type(key: bytes | None) -> ControlType:
    """The type of the control record with this key. Errors: InvalidRecordError for an invalid key."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(f"a control record's key has {_KEY.size} bytes or more, not {key!r:.60}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"a control record's key of version {version}")
    return ControlType(kind) if ControlType.ABORT <= kind <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """The control record with this key and value, or None for an unknown type.

    Errors: InvalidRecordError for truncated fields or a negative version.
    """
    kind = control_type(key)
    if kind is ControlType.UNKNOWN:
        return None
    reader = FieldReader(value or b"", "a control record")
    version = reader.number(INT16)
    if version < 0:
        raise InvalidRecordError(f"a control record's value of version {version}")
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return EndTransaction(kind is ControlType.COMMIT, reader.number(INT32))
    return _READERS[kind](reader, version)


def encode_control(record: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of the control record. Errors: ValueError if a field exceeds its width."""
    try:
        if isinstance(record, EndTransaction):
            kind = ControlType.COMMIT if record.is_commit else ControlType.ABORT
            return _KEY.pack(0, kind), _MARKER.pack(_VERSION, record.coordinator_epoch)
        kind, body = _encoded(record)
    except struct.error as error:
        raise ValueError(f"{record!r}: {error}") from error
    return _KEY.pack(0, kind), body + _NO_TAGS


# --- writing ------------------------------------------------------------------------------------------

_NO_TAGS = b"\x00"


def _encoded(
    record: LeaderChange | SnapshotHeader | SnapshotFooter | QuorumVersion | VoterSet,
) -> tuple[ControlType, bytes]:
    head = INT16.pack(_VERSION)
    if isinstance(record, LeaderChange):
        voters = _array_bytes(INT32.pack(voter) for voter in record.voters)
        granting = _array_bytes(INT32.pack(voter) for voter in record.granting_voters)
        return ControlType.LEADER_CHANGE, head + INT32.pack(record.leader_id) + voters + granting
    if isinstance(record, SnapshotHeader):
        return ControlType.SNAPSHOT_HEADER, head + INT64.pack(record.last_contained_timestamp)
    if isinstance(record, SnapshotFooter):
        return ControlType.SNAPSHOT_FOOTER, head
    if isinstance(record, QuorumVersion):
        return ControlType.KRAFT_VERSION, head + INT16.pack(record.quorum_version)
    return ControlType.KRAFT_VOTERS, head + _array_bytes(_encoded_voter(voter) for voter in record.voters)


def _encoded_voter(voter: VoterDescription) -> bytes:
    endpoints = _array_bytes(
        _text_bytes(endpoint.name) + _text_bytes(endpoint.host) + UINT16.pack(endpoint.port)
        for endpoint in voter.endpoints
    )
    versions = INT16.pack(voter.min_quorum_version) + INT16.pack(voter.max_quorum_version) + _NO_TAGS
    return INT32.pack(voter.voter_id) + _id(voter.directory_id) + endpoints + versions


def _id(directory_id: bytes) -> bytes:
    if len(directory_id) != UUID_BYTES:
        raise ValueError(f"a directory id has {UUID_BYTES} bytes, not {len(directory_id)}")
    return directory_id


def _text_bytes(text: str) -> bytes:
    encoded = text.encode()
    return unsigned_varint(len(encoded) + 1) + encoded


def _array_bytes(structures: Iterable[bytes]) -> bytes:
    items = [structure + _NO_TAGS for structure in structures]
    return unsigned_varint(len(items) + 1) + b"".join(items)


# --- reading ------------------------------------------------------------------------------------------


def _string(reader: FieldReader) -> str:
    return reader.text(reader.unsigned_varint() - 1)


def _array(reader: FieldReader, item: Callable[[FieldReader], T]) -> tuple[T, ...]:
    def structure() -> T:
        value = item(reader)
        reader.skip_tags()
        return value

    return reader.items(reader.unsigned_varint() - 1, structure)


def _leader_change(reader: FieldReader, version: int) -> LeaderChange:
    def voter(fields: FieldReader) -> int:
        voter_id = fields.number(INT32)
        fields.take(UUID_BYTES if version >= 1 else 0)  # version 1 added directory ids
        return voter_id

    record = LeaderChange(reader.number(INT32), _array(reader, voter), _array(reader, voter))
    reader.skip_tags()
    return record


def _snapshot_header(reader: FieldReader, _version: int) -> SnapshotHeader:
    record = SnapshotHeader(reader.number(INT64))
    reader.skip_tags()
    return record


def _snapshot_footer(reader: FieldReader, _version: int) -> SnapshotFooter:
    reader.skip_tags()
    return SnapshotFooter()


def _quorum_version(reader: FieldReader, _version: int) -> QuorumVersion:
    record = QuorumVersion(reader.number(INT16))
    reader.skip_tags()
    return record


def _voter_set(reader: FieldReader, _version: int) -> VoterSet:
    record = VoterSet(_array(reader, _voter_description))
    reader.skip_tags()
    return record


def _voter_description(reader: FieldReader) -> VoterDescription:
    voter_id, directory_id = reader.number(INT32), reader.take(UUID_BYTES)
    endpoints = _array(
        reader, lambda fields: VoterEndpoint(_string(fields), _string(fields), fields.number(UINT16))
    )
    low, high = reader.number(INT16), reader.number(INT16)
    reader.skip_tags()
    return VoterDescription(voter_id, directory_id, endpoints, low, high)


_READERS: dict[ControlType, Callable[[FieldReader, int], ControlRecord]] = {
    ControlType.LEADER_CHANGE: _leader_change,
    ControlType.SNAPSHOT_HEADER: _snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _snapshot_footer,
    ControlType.KRAFT_VERSION: _quorum_version,
    ControlType.KRAFT_VOTERS: _voter_set,
}
