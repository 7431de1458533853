"""What coordinators remember stays Kafka's, byte for byte.

`kafka_coordinator_records.txt` was written by Apache Kafka 4.3.1 through KafkaCoordinatorRecords.java.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kafka_oracle
import pytest
from headrace.protocol.records import group_records as groups
from headrace.protocol.records import streams_group_records as streams
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.coordinator_records import decode_record, encode_record
from headrace.protocol.records.transaction_records import TransactionKey, TransactionTopic, TransactionValue

HERE = Path(__file__).parent
ID = bytes(range(1, 17))
TIME = 1_700_000_000_000
KAFKA = {
    name: (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
    for name, key, value in map(str.split, (HERE / "kafka_coordinator_records.txt").read_text().splitlines())
}


def member(version: int, member_id: str, instance: str | None) -> groups.GroupMember:
    """As KafkaCoordinatorRecords.java has it, in what a version can say."""
    rebalance_ms = 300_000 if version >= 1 else 45_000
    said = instance if version >= 3 else None
    return groups.GroupMember(member_id, said, "c", "/h", rebalance_ms, 45_000, b"\x01\x02", b"")


def group(version: int) -> groups.GroupMetadataValue:
    """The same."""
    members = (member(version, "m-1", "i"), member(version, "m-2", None))
    return groups.GroupMetadataValue("consumer", 4, "range", "m-1", TIME if version >= 2 else -1, members)


def consumer(regex: str | None, classic: groups.ClassicMemberMetadata | None) -> Any:
    """The same."""
    return groups.ConsumerGroupMemberMetadataValue(
        None, "r", "c", "/h", ("a", "b"), regex, 300_000, "uniform", classic
    )


OFFSET_KEY, GROUP_KEY = groups.OffsetCommitKey("gé", "t", 7), groups.GroupMetadataKey("g")
MEMBER_KEY = groups.ConsumerGroupMemberMetadataKey("g", "m")
OLD_TOPICS = (TransactionTopic("t", (0, 2)),)
TOPICS = (*OLD_TOPICS, TransactionTopic("__consumer_offsets", (49,)))
CLASSIC = groups.ClassicMemberMetadata(45_000, (groups.ClassicProtocol("range", b"\x05"),))
STREAMS_MEMBER_KEY = streams.StreamsGroupMemberMetadataKey("g", "m")
COMPACTED = (streams.KeyValue("cleanup.policy", "compact"),)


def streams_member(**changes: Any) -> streams.StreamsGroupMemberMetadataValue:
    """As KafkaCoordinatorRecords.java has it."""
    tags = (streams.KeyValue("zone", "a"),)
    member = streams.StreamsGroupMemberMetadataValue(None, "r", "c", "/h", 300_000, 3, "p", None, tags)
    return member._replace(**changes)


STREAMS: dict[str, tuple[Any, Any]] = {
    "streams-group/0": (
        streams.StreamsGroupMetadataKey("g"),
        streams.StreamsGroupMetadataValue(9, -77, 3, (streams.KeyValue("num.standby.replicas", "1"),)),
    ),
    "streams-group-plain/0": (
        streams.StreamsGroupMetadataKey("g"),
        streams.StreamsGroupMetadataValue(9),
    ),
    "streams-member/0": (STREAMS_MEMBER_KEY, streams_member()),
    "streams-member-endpoint/0": (
        STREAMS_MEMBER_KEY,
        streams_member(instance_id="i", rack_id=None, user_endpoint=streams.Endpoint("h", 65_535)),
    ),
    "streams-target/0": (
        streams.StreamsGroupTargetAssignmentMetadataKey("g"),
        streams.StreamsGroupTargetAssignmentMetadataValue(9, TIME),
    ),
    "streams-target-plain/0": (
        streams.StreamsGroupTargetAssignmentMetadataKey("g"),
        streams.StreamsGroupTargetAssignmentMetadataValue(9),
    ),
    "streams-target-member/0": (
        streams.StreamsGroupTargetAssignmentMemberKey("g", "m"),
        streams.StreamsGroupTargetAssignmentMemberValue(
            (streams.TaskIds("0", (0, 300)),), (streams.TaskIds("1", (2,)),), ()
        ),
    ),
    "streams-current/0": (
        streams.StreamsGroupCurrentMemberAssignmentKey("g", "m"),
        streams.StreamsGroupCurrentMemberAssignmentValue(
            9,
            8,
            2,
            (streams.TaskIds("0", (0, 300), (7, 9)),),
            (streams.TaskIds("1", (2,)),),
            (streams.TaskIds("1", (4,)),),
            (streams.TaskIds("0", (5,), (8,)),),
            (streams.TaskIds("1", (6,)),),
            (),
        ),
    ),
    "streams-topology/0": (
        streams.StreamsGroupTopologyKey("g"),
        streams.StreamsGroupTopologyValue(
            3,
            (
                streams.Subtopology(
                    "0",
                    ("in",),
                    ("x.*",),
                    (streams.TopicInfo("g-s-changelog", 0, 0, COMPACTED),),
                    ("g-r-repartition",),
                    (streams.TopicInfo("g-q-repartition", 4, 3, COMPACTED),),
                    (streams.CopartitionGroup((0,), (), (0,)),),
                ),
            ),
        ),
    ),
}
MEANINGS: dict[str, tuple[Any, Any]] = {
    **{f"offset/{v}": (OFFSET_KEY, groups.OffsetCommitValue(5 * 10**9, -1, "m", TIME)) for v in (0, 1, 2)},
    "offset/3": (OFFSET_KEY, groups.OffsetCommitValue(5 * 10**9, 3, "m", TIME)),
    "offset/4": (OFFSET_KEY, groups.OffsetCommitValue(5 * 10**9, 3, "m", TIME, -1, ID)),
    "offset-expiring/1": (
        groups.OffsetCommitKey("g", "t", 7),
        groups.OffsetCommitValue(1, -1, "", TIME, TIME + 1),
    ),
    "offset-old/0": (groups.OffsetCommitKey("g", "t", 7), groups.OffsetCommitValue(9, -1, "m", TIME)),
    **{f"group/{version}": (GROUP_KEY, group(version)) for version in range(5)},
    **{
        f"group-empty/{v}": (GROUP_KEY, groups.GroupMetadataValue("", 0, None, None, TIME, ()))
        for v in (3, 4)
    },
    "consumer-group/0": (
        groups.ConsumerGroupMetadataKey("g"),
        groups.ConsumerGroupMetadataValue(9, -77),
    ),
    "consumer-group-plain/0": (
        groups.ConsumerGroupMetadataKey("g"),
        groups.ConsumerGroupMetadataValue(9),
    ),
    "member/0": (MEMBER_KEY, consumer(None, None)),
    "member-classic/0": (MEMBER_KEY, consumer("x.*", CLASSIC)),
    "target/0": (
        groups.ConsumerGroupTargetAssignmentMetadataKey("g"),
        groups.ConsumerGroupTargetAssignmentMetadataValue(9),
    ),
    "target-member/0": (
        groups.ConsumerGroupTargetAssignmentMemberKey("g", "m"),
        groups.ConsumerGroupTargetAssignmentMemberValue((groups.AssignedTopic(ID, (0, 300)),)),
    ),
    "current/0": (
        groups.ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        groups.ConsumerGroupCurrentMemberAssignmentValue(9, 8, 1, (groups.AssignedTopic(ID, (1,)),), ()),
    ),
    "regex/0": (
        groups.ConsumerGroupRegularExpressionKey("g", "a.*"),
        groups.ConsumerGroupRegularExpressionValue(("ab",), 12, TIME),
    ),
    "txn-empty/1": (
        TransactionKey("tx"),
        TransactionValue(1000, -1, -1, 0, 60_000, 0, None, TIME, -1),
    ),
    "txn-old/0": (
        TransactionKey("tx"),
        TransactionValue(1000, -1, -1, 3, 60_000, 1, OLD_TOPICS, TIME, TIME, client_transaction_version=0),
    ),
    "txn-overflow/1": (
        TransactionKey("tx"),
        TransactionValue(1000, 999, 1001, 32767, 60_000, 2, TOPICS, TIME, TIME, 2, next_producer_epoch=1),
    ),
    **STREAMS,
}
# Versions that Kafka 4.3 writes; the others are older, or only read.
WRITTEN = {
    name
    for name in MEANINGS
    if name.split("/")[0] not in ("offset", "offset-old", "group", "group-empty", "txn-old")
} | {"offset/4", "group/3", "group-empty/3"}


def test_every_line_of_kafkas_is_held_against_ours() -> None:
    """But the one type that is not known here."""
    assert {name for name in KAFKA if not name.endswith("/tombstone")} - set(MEANINGS) == {"partitions/0"}


@pytest.mark.parametrize("name", MEANINGS)
def test_kafkas_records_are_read(name: str) -> None:
    """Of every version."""
    assert decode_record(*KAFKA[name]) == MEANINGS[name]


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_records_are_written_as_kafka_writes_them(name: str) -> None:
    """The same bytes."""
    assert encode_record(*MEANINGS[name]) == KAFKA[name]


@pytest.mark.parametrize("name", sorted({name.split("/")[0] for name in MEANINGS} - {"offset-old"}))
def test_tombstones(name: str) -> None:
    """A key and nothing."""
    key, value = KAFKA[f"{name}/tombstone"]
    typed = decode_record(key, value)
    assert typed is not None
    assert typed[1] is None
    assert encode_record(*typed) == (key, None)


def test_a_type_that_is_not_known_is_no_error() -> None:
    """Older logs hold what Kafka 4.0 remembered of partitions, newer ones what groups of other kinds did."""
    assert decode_record(*KAFKA["partitions/0"]) is None
    assert decode_record(b"\x00\x0bwhatever", b"") is None


def test_offset_by_hand() -> None:
    """Worked out from OffsetCommitKey.json and OffsetCommitValue.json."""
    key, value = encode_record(groups.OffsetCommitKey("g", "to", 3), groups.OffsetCommitValue(258, 4, "", 1))
    assert key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x02to" + b"\x00\x00\x00\x03"
    no_metadata, no_tags = b"\x01", b"\x00"
    offset, epoch, time = b"\x00" * 6 + b"\x01\x02", b"\x00\x00\x00\x04", b"\x00" * 7 + b"\x01"
    assert value == b"\x00\x04" + offset + epoch + no_metadata + time + no_tags


def dumped(folder: Path, pairs: list[tuple[bytes, bytes | None]], decoder: str) -> str:
    """What Kafka's dump tool says of a segment with these records."""
    builder = pick_codec("python").builder(max_bytes=1 << 20)
    for key, value in pairs:
        builder.append(TIME, key, value)
    path = folder / f"{0:020}.log"
    path.write_bytes(builder.build())
    return kafka_oracle.dump_log(path, options=(decoder, "--deep-iteration"))


@pytest.mark.parametrize(
    ("decoder", "wanted"),
    [
        (
            "--offsets-decoder",
            ["gé", "m-2", "5000000000", "uniform", "a.*", "num.standby.replicas", "g-q-repartition"],
        ),
        (
            "--transaction-log-decoder",
            ["tx", "nextProducerId", "1001", "__consumer_offsets", "49", "<DELETE>"],
        ),
    ],
)
def test_kafka_tools_read_the_files(tmp_path: Path, decoder: str, wanted: list[str]) -> None:
    """Kafka's dump tool decodes every record of both topics."""
    kafka_oracle.require()
    of_transactions = decoder == "--transaction-log-decoder"
    records = [MEANINGS[name] for name in sorted(WRITTEN)]
    typed = [record for record in records if isinstance(record[0], TransactionKey) == of_transactions]
    pairs = [encode_record(*record) for record in typed]
    if of_transactions:  # the tag of what is prepared is headrace's own
        key, value = MEANINGS["txn-overflow/1"]
        pairs.append(encode_record(key, value._replace(prepared_ms=TIME)))
    pairs.append((pairs[0][0], None))
    text = dumped(tmp_path, pairs, decoder)
    assert text.count("payload:") == len(pairs)
    assert [word for word in wanted if word not in text] == []
    assert "UNKNOWN" not in text
    assert "Could not" not in text
