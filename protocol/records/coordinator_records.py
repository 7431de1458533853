"""Serialization of coordinator records: `__consumer_offsets` and `__transaction_state`.

    key    version i16 (the record type), then the fields of the key; never flexible
    value  version i16, then the fields of the value; None is a tombstone

The formats are Kafka's: its tools read these records, and logs of Kafka 0.9 to 4.x are readable. Written are
the versions of Kafka 4.3, with an additional tag for prepared transactions. Source: Kafka's schemas
OffsetCommitKey.json and so on, CoordinatorRecordSerde.java, GroupCoordinatorRecordHelpers.java,
TransactionLog.java; KIP-915.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidRecordError
from . import group_records as groups
from . import streams_group_records as streams
from .fields import (
    INT8,
    INT16,
    INT32,
    INT64,
    UINT16,
    Array,
    Field,
    FieldReader,
    Form,
    Number,
    Octets,
    Perhaps,
    Structure,
    Text,
    Uuid,
)
from .transaction_records import TransactionKey, TransactionTopic, TransactionValue

if TYPE_CHECKING:
    from collections.abc import Callable

# Tags from here on are headrace's own: Kafka's readers ignore unknown tags.
OWN_TAG = 10_000
OWN_KEY = 10_000  # version of the key of a record of headrace's own: Kafka's readers skip unknown ones
_BYTE, _SHORT, _INT, _LONG, _PORT = (Number(shape) for shape in (INT8, INT16, INT32, INT64, UINT16))
_TEXT, _TEXT_OR_NULL, _OCTETS, _UUID = Text(), Text(nullable=True), Octets(), Uuid()
_INTS, _TEXTS = Array(of=_INT), Array(of=_TEXT)
_NO_FORM = Form(0, flexible=False)  # keys: their version is their type


class _Value(NamedTuple):
    """The versions of a value type."""

    structure: Structure
    newest: int
    flexible_since: int
    written: Callable[[Any], int]  # the version to write for a value


class _Schema(NamedTuple):
    """A type of record."""

    key_version: int
    key: Structure
    value: _Value


def _as_session_timeout(member: groups.GroupMember) -> groups.GroupMember:
    """Version 0 has no rebalance timeout: use the session timeout."""
    if member.rebalance_timeout_ms >= 0:
        return member
    return member._replace(rebalance_timeout_ms=member.session_timeout_ms)


# --- values -------------------------------------------------------------------------------------------

_OFFSET_COMMIT = _Value(
    Structure(
        groups.OffsetCommitValue,
        Field("offset", _LONG),
        Field("leader_epoch", _INT, -1, since=3),
        Field("metadata", _TEXT),
        Field("commit_ms", _LONG),
        Field("expire_ms", _LONG, -1, since=1, until=1),
        Field("topic_id", _UUID, bytes(16), tag=0),
    ),
    newest=4,
    flexible_since=4,
    written=lambda value: 4 if value.expire_ms == -1 else 1,
)
_GROUP_MEMBER = Structure(
    groups.GroupMember,
    Field("member_id", _TEXT),
    Field("group_instance_id", _TEXT_OR_NULL, since=3),
    Field("client_id", _TEXT),
    Field("client_host", _TEXT),
    Field("rebalance_timeout_ms", _INT, -1, since=1),
    Field("session_timeout_ms", _INT),
    Field("subscription", _OCTETS),
    Field("assignment", _OCTETS),
    finish=_as_session_timeout,
)
_GROUP_METADATA = _Value(
    Structure(
        groups.GroupMetadataValue,
        Field("protocol_type", _TEXT),
        Field("generation", _INT),
        Field("protocol", _TEXT_OR_NULL),
        Field("leader", _TEXT_OR_NULL),
        Field("current_state_ms", _LONG, -1, since=2),
        Field("members", Array(of=_GROUP_MEMBER)),
    ),
    newest=4,
    flexible_since=4,
    written=lambda _value: 3,
)


def _flexible(make: Any, *fields: Field) -> _Value:
    """A value with a single version, extended by tagged fields."""
    return _Value(Structure(make, *fields), newest=0, flexible_since=0, written=lambda _value: 0)


_CLASSIC_PROTOCOL = Structure(groups.ClassicProtocol, Field("name", _TEXT), Field("metadata", _OCTETS))
_CLASSIC_MEMBER = Structure(
    groups.ClassicMemberMetadata,
    Field("session_timeout_ms", _INT),
    Field("supported_protocols", Array(of=_CLASSIC_PROTOCOL)),
)
_MEMBER_METADATA = _flexible(
    groups.ConsumerGroupMemberMetadataValue,
    Field("instance_id", _TEXT_OR_NULL),
    Field("rack_id", _TEXT_OR_NULL),
    Field("client_id", _TEXT),
    Field("client_host", _TEXT),
    Field("subscribed_topic_names", _TEXTS),
    Field("subscribed_topic_regex", _TEXT_OR_NULL),
    Field("rebalance_timeout_ms", _INT),
    Field("server_assignor", _TEXT_OR_NULL),
    Field("classic", Perhaps(_CLASSIC_MEMBER), tag=0),
)
_TARGET_TOPICS = Array(
    of=Structure(groups.AssignedTopic, Field("topic_id", _UUID), Field("partitions", _INTS))
)
_ASSIGNED_TOPICS = Array(
    of=Structure(
        groups.AssignedTopic,
        Field("topic_id", _UUID),
        Field("partitions", _INTS),
        Field("epochs", Array(nullable=True, of=_INT), tag=0),
    )
)
_CURRENT_ASSIGNMENT = _flexible(
    groups.ConsumerGroupCurrentMemberAssignmentValue,
    Field("member_epoch", _INT),
    Field("previous_member_epoch", _INT),
    Field("state", _BYTE),
    Field("assigned", _ASSIGNED_TOPICS),
    Field("pending_revocation", _ASSIGNED_TOPICS),
)
_REGULAR_EXPRESSION = _flexible(
    groups.ConsumerGroupRegularExpressionValue,
    Field("topics", _TEXTS),
    Field("version", _LONG),
    Field("timestamp_ms", _LONG),
)
_KEY_VALUES = Array(of=Structure(streams.KeyValue, Field("key", _TEXT), Field("value", _TEXT)))
_TOPIC_INFOS = Array(
    of=Structure(
        streams.TopicInfo,
        Field("name", _TEXT),
        Field("partitions", _INT),
        Field("replication_factor", _SHORT),
        Field("topic_configs", _KEY_VALUES),
    )
)
_COPARTITION_GROUP = Structure(
    streams.CopartitionGroup,
    *(Field(name, Array(of=_SHORT)) for name in streams.CopartitionGroup._fields),
)
_SUBTOPOLOGY = Structure(
    streams.Subtopology,
    Field("subtopology_id", _TEXT),
    Field("source_topics", _TEXTS),
    Field("source_topic_regex", _TEXTS),
    Field("state_changelog_topics", _TOPIC_INFOS),
    Field("repartition_sink_topics", _TEXTS),
    Field("repartition_source_topics", _TOPIC_INFOS),
    Field("copartition_groups", Array(of=_COPARTITION_GROUP)),
)
_TOPOLOGY_NODE = Structure(
    streams.TopologyNode,
    Field("name", _TEXT),
    Field("kind", _BYTE),
    Field("topics", _TEXTS),
    Field("chosen_by", _TEXT),
    Field("stores", _TEXTS),
    Field("successors", _TEXTS),
    Field("predecessors", _TEXTS),
)
_TOPOLOGY_DESCRIPTION = _flexible(
    streams.TopologyDescription,
    Field(
        "subtopologies",
        Array(
            of=Structure(
                streams.SubtopologyGraph,
                Field("subtopology_id", _TEXT),
                Field("is_global", _BYTE),
                Field("nodes", Array(of=_TOPOLOGY_NODE)),
                finish=lambda graph: graph._replace(is_global=graph.is_global != 0),
            )
        ),
    ),
)
_STREAMS_GROUP = _flexible(
    streams.StreamsGroupMetadataValue,
    Field("epoch", _INT),
    Field("metadata_hash", _LONG),
    Field("validated_topology_epoch", _INT, -1, tag=0),
    Field("last_assignment_configs", Array(nullable=True, of=_KEY_VALUES.of), tag=1),
)
_ENDPOINT = Structure(streams.Endpoint, Field("host", _TEXT), Field("port", _PORT))
_STREAMS_MEMBER = _flexible(
    streams.StreamsGroupMemberMetadataValue,
    Field("instance_id", _TEXT_OR_NULL),
    Field("rack_id", _TEXT_OR_NULL),
    Field("client_id", _TEXT),
    Field("client_host", _TEXT),
    Field("rebalance_timeout_ms", _INT),
    Field("topology_epoch", _INT),
    Field("process_id", _TEXT),
    Field("user_endpoint", Perhaps(_ENDPOINT)),
    Field("client_tags", _KEY_VALUES),
)
_TARGET_TASKS = Array(
    of=Structure(streams.TaskIds, Field("subtopology_id", _TEXT), Field("partitions", _INTS))
)
_CURRENT_TASKS = Array(
    of=Structure(
        streams.TaskIds,
        Field("subtopology_id", _TEXT),
        Field("partitions", _INTS),
        Field("epochs", Array(nullable=True, of=_INT), tag=0),
    )
)
_CURRENT_STREAMS_ASSIGNMENT = _flexible(
    streams.StreamsGroupCurrentMemberAssignmentValue,
    Field("member_epoch", _INT),
    Field("previous_member_epoch", _INT),
    Field("state", _BYTE),
    *(Field(name, _CURRENT_TASKS) for name in streams.StreamsGroupCurrentMemberAssignmentValue._fields[3:]),
)
_TRANSACTION_TOPIC = Structure(TransactionTopic, Field("topic", _TEXT), Field("partitions", _INTS))
_TRANSACTION = _Value(
    Structure(
        TransactionValue,
        Field("producer_id", _LONG),
        Field("previous_producer_id", _LONG, -1, tag=0),
        Field("next_producer_id", _LONG, -1, tag=1),
        Field("producer_epoch", _SHORT),
        Field("timeout_ms", _INT),
        Field("status", _BYTE),
        Field("partitions", Array(nullable=True, of=_TRANSACTION_TOPIC)),
        Field("last_update_ms", _LONG),
        Field("start_ms", _LONG),
        Field("client_transaction_version", _SHORT, 0, tag=2),
        Field("next_producer_epoch", _SHORT, -1, tag=3),
        Field("prepared_ms", _LONG, -1, tag=OWN_TAG),
    ),
    newest=1,
    flexible_since=1,
    written=lambda _value: 1,
)

# --- keys ---------------------------------------------------------------------------------------------


def _group_key(make: Any, *more: str) -> Structure:
    return Structure(make, *(Field(name, _TEXT) for name in ("group", *more)))


_OFFSET_KEY = Structure(
    groups.OffsetCommitKey, Field("group", _TEXT), Field("topic", _TEXT), Field("partition", _INT)
)
_SCHEMAS = {
    groups.OffsetCommitKey: _Schema(1, _OFFSET_KEY, _OFFSET_COMMIT),
    groups.GroupMetadataKey: _Schema(2, _group_key(groups.GroupMetadataKey), _GROUP_METADATA),
    groups.ConsumerGroupMetadataKey: _Schema(
        3,
        _group_key(groups.ConsumerGroupMetadataKey),
        _flexible(
            groups.ConsumerGroupMetadataValue,
            Field("epoch", _INT),
            Field("metadata_hash", _LONG, 0, tag=0),
        ),
    ),
    groups.ConsumerGroupMemberMetadataKey: _Schema(
        5, _group_key(groups.ConsumerGroupMemberMetadataKey, "member_id"), _MEMBER_METADATA
    ),
    groups.ConsumerGroupTargetAssignmentMetadataKey: _Schema(
        6,
        _group_key(groups.ConsumerGroupTargetAssignmentMetadataKey),
        _flexible(
            groups.ConsumerGroupTargetAssignmentMetadataValue,
            Field("assignment_epoch", _INT),
            Field("assignment_ms", _LONG, 0, tag=0),
        ),
    ),
    groups.ConsumerGroupTargetAssignmentMemberKey: _Schema(
        7,
        _group_key(groups.ConsumerGroupTargetAssignmentMemberKey, "member_id"),
        _flexible(groups.ConsumerGroupTargetAssignmentMemberValue, Field("topics", _TARGET_TOPICS)),
    ),
    groups.ConsumerGroupCurrentMemberAssignmentKey: _Schema(
        8, _group_key(groups.ConsumerGroupCurrentMemberAssignmentKey, "member_id"), _CURRENT_ASSIGNMENT
    ),
    groups.ConsumerGroupRegularExpressionKey: _Schema(
        16,
        _group_key(groups.ConsumerGroupRegularExpressionKey, "regular_expression"),
        _REGULAR_EXPRESSION,
    ),
    streams.StreamsGroupMetadataKey: _Schema(17, _group_key(streams.StreamsGroupMetadataKey), _STREAMS_GROUP),
    streams.StreamsGroupMemberMetadataKey: _Schema(
        19, _group_key(streams.StreamsGroupMemberMetadataKey, "member_id"), _STREAMS_MEMBER
    ),
    streams.StreamsGroupTargetAssignmentMetadataKey: _Schema(
        20,
        _group_key(streams.StreamsGroupTargetAssignmentMetadataKey),
        _flexible(
            streams.StreamsGroupTargetAssignmentMetadataValue,
            Field("assignment_epoch", _INT),
            Field("assignment_ms", _LONG, 0, tag=0),
        ),
    ),
    streams.StreamsGroupTargetAssignmentMemberKey: _Schema(
        21,
        _group_key(streams.StreamsGroupTargetAssignmentMemberKey, "member_id"),
        _flexible(
            streams.StreamsGroupTargetAssignmentMemberValue,
            *(Field(name, _TARGET_TASKS) for name in streams.StreamsGroupTargetAssignmentMemberValue._fields),
        ),
    ),
    streams.StreamsGroupCurrentMemberAssignmentKey: _Schema(
        22,
        _group_key(streams.StreamsGroupCurrentMemberAssignmentKey, "member_id"),
        _CURRENT_STREAMS_ASSIGNMENT,
    ),
    streams.StreamsGroupTopologyKey: _Schema(
        23,
        _group_key(streams.StreamsGroupTopologyKey),
        _flexible(
            streams.StreamsGroupTopologyValue,
            Field("epoch", _INT),
            Field("subtopologies", Array(of=_SUBTOPOLOGY)),
        ),
    ),
    streams.StreamsGroupTopologyDescriptionKey: _Schema(
        OWN_KEY, _group_key(streams.StreamsGroupTopologyDescriptionKey), _TOPOLOGY_DESCRIPTION
    ),
    TransactionKey: _Schema(0, Structure(TransactionKey, Field("transactional_id", _TEXT)), _TRANSACTION),
}
_BY_KEY_VERSION = {schema.key_version: schema for schema in _SCHEMAS.values()}
# Old offset keys have the same key version as keys of the transaction topic; an offset key has more fields
# after its first string.
_OLD_OFFSET = _Schema(0, _OFFSET_KEY, _OFFSET_COMMIT)


def encode_record(key: Any, value: Any) -> tuple[bytes, bytes | None]:
    """Key and value of a record. Errors: ValueError if a field exceeds its width."""
    schema = _SCHEMAS[type(key)]
    try:
        head = INT16.pack(schema.key_version) + schema.key.write(key, _NO_FORM)
        if value is None:
            return head, None
        version = schema.value.written(value)
        form = Form(version, version >= schema.value.flexible_since)
        return head, INT16.pack(version) + schema.value.structure.write(value, form)
    except struct.error as error:
        raise ValueError(f"{key!r}: {error}") from error


def decode_record(key: bytes, value: bytes | None) -> tuple[Any, Any] | None:
    """The typed key and value of a record (group_records.py, streams_group_records.py,
    transaction_records.py); None for an unknown
    record type.

    Errors: InvalidRecordError for truncated fields, or a value of a newer version.
    """
    reader = FieldReader(key, "a coordinator's key")
    schema = _schema_of(reader)
    if schema is None:
        return None
    typed_key = schema.key.read(reader, _NO_FORM)
    reader.end()
    return typed_key, None if value is None else _decoded_value(schema.value, value)


def _schema_of(reader: FieldReader) -> _Schema | None:
    version = reader.number(INT16)
    if version < 0:
        raise InvalidRecordError(f"a coordinator's key of version {version}")
    if version == _OLD_OFFSET.key_version and reader.number_ahead(INT16) + INT16.size < reader.left:
        return _OLD_OFFSET
    return _BY_KEY_VERSION.get(version)


def _decoded_value(shape: _Value, value: bytes) -> Any:
    reader = FieldReader(value, "a coordinator's value")
    version = reader.number(INT16)
    if not 0 <= version <= shape.newest:
        raise InvalidRecordError(f"a coordinator's value of version {version}, known are 0 to {shape.newest}")
    decoded = shape.structure.read(reader, Form(version, version >= shape.flexible_since))
    reader.end()
    return decoded
