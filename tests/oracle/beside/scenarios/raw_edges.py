"""Requests made by hand at the edges: what is refused, and how."""

import struct
import zlib
from typing import Any

from headrace.protocol.records.header import Compression

from ..asking import NOW, Asking, batch
from ..scene import Scene, scenario
from ..wire import Closed, Wire, frame

CLIENT = "raw"

# name, value: a topic that would be made with it is checked, not made
CONFIGS = [
    (
        "retention.ms",
        ("-1", "-2", "0", "long", "9223372036854775807", "9223372036854775808", "1.5", " 7 ", ""),
    ),
    ("retention.bytes", ("-1", "-2", "10")),
    ("segment.bytes", ("13", "14", "1048576", "1048575", "2147483647", "2147483648")),
    ("segment.ms", ("0", "1", "-1")),
    ("segment.jitter.ms", ("-1", "0")),
    ("segment.index.bytes", ("3", "4", "8")),
    ("index.interval.bytes", ("-1", "0")),
    (
        "cleanup.policy",
        ("delete", "compact", "compact,delete", "delete, compact", "none", "", "delete,delete"),
    ),
    (
        "compression.type",
        ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "none", "brotli", "GZIP"),
    ),
    ("min.insync.replicas", ("0", "1", "2", "-1")),
    ("max.message.bytes", ("-1", "0", "1")),
    ("min.cleanable.dirty.ratio", ("-0.1", "0", "0.5", "1", "1.1", "half")),
    ("min.compaction.lag.ms", ("-1", "0")),
    ("max.compaction.lag.ms", ("0", "1")),
    ("delete.retention.ms", ("-1", "0")),
    ("file.delete.delay.ms", ("-1", "0")),
    ("flush.messages", ("0", "1")),
    ("flush.ms", ("-1", "0")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime", "createtime", "x")),
    ("message.timestamp.before.max.ms", ("-1", "0")),
    ("message.timestamp.after.max.ms", ("-1", "0")),
    ("unclean.leader.election.enable", ("true", "false", "TRUE", "yes", "1")),
    ("preallocate", ("true", "x")),
    ("leader.replication.throttled.replicas", ("", "*", "0:1", "0:1,1:1", "x")),
    ("no.such.config", ("1",)),
    ("", ("1",)),
]


@scenario(CLIENT, "values of topic configs")
def config_values(scene: Scene) -> None:
    with Asking(scene) as asking:
        for name, values in CONFIGS:
            for value in values:
                configs = [{"name": name, "value": value}]
                topic = {
                    "name": scene.topic,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": configs,
                }
                fields = {"topics": [topic], "timeout": 10_000, "validate_only": True}
                found = asking.ask("", "create_topics", 4, **fields)
                scene.note(f"{name}={value}", found["topics"][0]["error_code"])


@scenario(CLIENT, "invalid topics")
def bad_topics(scene: Scene) -> None:
    with Asking(scene) as asking:
        asking.create(partitions=2)

        def make(label: str, *topics: dict[str, Any]) -> None:
            asked = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
            found = asking.ask("", "create_topics", 4, topics=asked, timeout=10_000)
            scene.note(label, [[each["name"], each["error_code"]] for each in found["topics"]])

        for name in ("", ".", "..", "a b", "a/b", "ä", "x" * 249, "x" * 250, "a.b_c"):
            make(f"name {name[:10]!r} {len(name)}", {"name": name})
        make("collides", {"name": "a_b.c"})
        make("twice", {"name": f"{scene.topic}-2"}, {"name": f"{scene.topic}-2"})
        make("there", {"name": scene.topic})
        for count in (0, -2, -1):
            make(f"{count} partitions", {"name": f"{scene.topic}-p{count}", "num_partitions": count})
        for count in (0, -2, 2, -1):
            make(f"{count} replicas", {"name": f"{scene.topic}-r{count}", "replication_factor": count})
        for label, assignments in (
            ("unknown node", [(0, [9])]),
            ("a gap", [(0, [1]), (2, [1])]),
            ("no nodes", [(0, [])]),
            ("node twice", [(0, [1, 1])]),
            ("partition twice", [(0, [1]), (0, [1])]),
            ("lengths", [(0, [1]), (1, [1, 1])]),
        ):
            placed = [{"partition_index": number, "broker_ids": nodes} for number, nodes in assignments]
            topic = {"name": f"{scene.topic}-placed", "assignments": placed}
            make(label, {**topic, "num_partitions": -1, "replication_factor": -1})
        make("placed and counted", {"name": f"{scene.topic}-both", "assignments": placed[:1]})
        for label, topic in (
            ("none", {"name": "no-such-topic", "count": 3}),
            ("same", {"name": scene.topic, "count": 2}),
            ("zero", {"name": scene.topic, "count": 0}),
            ("negative", {"name": scene.topic, "count": -1}),
            ("placed badly", {"name": scene.topic, "count": 3, "assignments": [{"broker_ids": [9]}]}),
            ("placed short", {"name": scene.topic, "count": 4, "assignments": [{"broker_ids": [1]}]}),
        ):
            more = {"assignments": None, **topic}
            asking.ask(f"grow {label}", "create_partitions", 1, topics=[more], timeout=10_000)
        for name in ("no-such-topic", ""):
            asking.ask(f"delete {name!r}", "delete_topics", 5, topic_names=[name], timeout=10_000)
        both = {"name": scene.topic, "topic_id": "0d5c8e9a-6b0f-4a4e-9f43-0123456789ab"}
        asking.ask("delete by both", "delete_topics", 6, topics=[both], timeout=10_000)
        for offset in (0, -1, 5, -2):
            parts = [{"partition_index": 0, "offset": offset}, {"partition_index": 9, "offset": 0}]
            topics = [
                {"name": scene.topic, "partitions": parts},
                {"name": "no-such-topic", "partitions": parts},
            ]
            asking.ask(f"records to {offset}", "delete_records", 1, topics=topics, timeout=10_000)


def _changed(data: bytes, position: int, with_bytes: bytes, *, crc: bool = True) -> bytes:
    """A batch with other bytes at a position, and a new checksum unless it is to be wrong."""
    from crc32c import crc32c

    made = bytearray(data)
    made[position : position + len(with_bytes)] = with_bytes
    if crc:
        made[17:21] = struct.pack(">I", crc32c(bytes(made[21:])))
    return bytes(made)


@scenario(CLIENT, "refused batches")
def bad_batches(scene: Scene) -> None:
    """A server must refuse each of these, and must keep serving."""
    with Asking(scene) as asking:
        asking.create()
        good = batch()
        zstd = batch(compression=Compression.ZSTD)
        for label, data in (
            ("crc", _changed(good, len(good) - 3, b"\xff", crc=False)),
            ("magic 1", _changed(good, 16, b"\x01")),
            ("magic 0", _changed(good, 16, b"\x00")),
            ("magic 3", _changed(good, 16, b"\x03")),
            ("too short", good[:40]),
            ("cut", good[:-1]),
            ("longer", good + b"x"),
            ("empty", b""),
            ("two", good + good),
            ("zero records", _changed(good, 57, struct.pack(">i", 0))),
            ("more records", _changed(good, 57, struct.pack(">i", 4))),
            ("negative records", _changed(good, 57, struct.pack(">i", -1))),
            ("last offset", _changed(good, 23, struct.pack(">i", 7))),
            ("control", _changed(good, 21, b"\x00\x20")),
            ("unknown codec", _changed(good, 21, b"\x00\x05")),
            ("codec that it is not", _changed(good, 21, b"\x00\x01")),
            ("not compressed", _changed(zstd, 65, b"\x00\x00\x00\x00")),
            ("log append time", _changed(good, 21, b"\x00\x08")),
            ("base offset", _changed(good, 0, struct.pack(">q", 77))),
            ("no timestamp", batch(timestamp=-1)),
            ("far timestamp", batch(timestamp=NOW * 10)),
            ("just not too large", batch(1, key=b"x" * 1_048_500)),
            ("a good one", good),
        ):
            response = asking.produce("", data, version=8)["responses"][0]["partition_responses"][0]
            scene.note(
                label, {"error_code": response["error_code"], "records": len(response["record_errors"])}
            )
        for acks in (2, -2):
            asking.produce(f"acks {acks}", good, acks=acks)
        asking.produce("no topic", good, topic="no-such-topic/")
        asking.produce("no partition", good, partition=9)


@scenario(CLIENT, "sequences of producers")
def sequences(scene: Scene) -> None:
    """Idempotence: repeated, out of order, older and newer epochs, more than five repeats back."""
    with Asking(scene) as asking:
        asking.create()
        response = asking.settled(
            "", "init_producer_id", 1, transactional_id=None, transaction_timeout=60_000
        )
        me = {"producer_id": response["producer_id"], "producer_epoch": 0}

        def send(label: str, sequence: int, count: int = 3, **more: Any) -> None:
            asking.produce(label, batch(count, base_sequence=sequence, **{**me, **more}), version=8)

        send("first is not 0", 5, producer_id=response["producer_id"] + 1000)
        send("first", 0)
        send("again", 0)
        send("gap", 4)
        send("next", 3)
        send("partly again", 2)
        send("shorter again", 3, 2)
        for number in range(2, 8):
            send(f"number {number}", 3 * number)
        send("five back", 9)
        send("six back", 6)
        send("new epoch, not 0", 24, producer_epoch=1)
        send("new epoch", 0, producer_epoch=1)
        send("old epoch", 24, producer_epoch=0)
        send("unknown producer, not 0", 7, producer_id=response["producer_id"] + 5000)
        send("unknown producer", 0, producer_id=response["producer_id"] + 5000)
        wanted = [{"name": scene.topic, "partition_indexes": [0]}]
        found = asking.ask("", "describe_producers", 0, topics=wanted)
        for part in found["topics"][0]["partitions"]:
            part["active_producers"].sort(key=lambda each: each["producer_id"])
        scene.note("producers", found)
        asking.all_committed("all")


@scenario(CLIENT, "fetches at the ends of a log")
def fetches(scene: Scene) -> None:
    with Asking(scene) as asking:
        topic_id = asking.create()
        for number in range(4):
            asking.produce("", batch(timestamp=NOW + number))
        for offset in (-1, 0, 1, 11, 12, 13, 1 << 62):
            asking.fetch(f"from {offset}", offset=offset)
        for epoch in (0, 1, 5, -1):
            asking.fetch(f"epoch {epoch}", epoch=epoch)
        asking.fetch("no partition", partition=9)
        asking.fetch("no topic", topic="no-such-topic")
        asking.fetch("few bytes", max_bytes=1)
        asking.fetch("many bytes wanted", min_bytes=1 << 20)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": -1}
        asking.fetch("few of the partition", topics=[{"topic": scene.topic, "partitions": [part]}])
        parts = {"partition": 0, "fetch_offset": 3, "partition_max_bytes": 1 << 20}
        for wanted in (topic_id, "0d5c8e9a-6b0f-4a4e-9f43-0123456789ab"):
            topics = [{"topic_id": wanted, "partitions": [parts]}]
            asking.fetch(f"by id {wanted == topic_id}", version=13, topics=topics)
        asking.fetch("unknown session", session_id=12345, session_epoch=1)
        asking.fetch("session of no id", session_id=0, session_epoch=5)
        asking.fetch("nothing", topics=[])
        for epochs in ((0, 0), (0, 3), (5, 0)):
            part = {"partition": 0, "current_leader_epoch": epochs[0], "leader_epoch": epochs[1]}
            topics = [{"topic": scene.topic, "partitions": [part]}]
            asking.ask(f"end of {epochs}", "offset_for_leader_epoch", 3, replica_id=-2, topics=topics)


@scenario(CLIENT, "a fetch session")
def fetch_session(scene: Scene) -> None:
    """A full fetch, then incremental ones; a forgotten session."""
    with Asking(scene) as asking:
        asking.create(partitions=2)
        asking.produce("", batch())
        parts = [
            {
                "partition": number,
                "fetch_offset": 0,
                "partition_max_bytes": 1 << 20,
                "current_leader_epoch": -1,
            }
            for number in (0, 1)
        ]
        topics = [{"topic": scene.topic, "partitions": parts}]
        made = asking.fetch("full", topics=topics, session_epoch=0)
        session = made["session_id"]
        if not session:
            scene.note("session", "none is kept")
            return
        parts[0]["fetch_offset"] = 3
        moved = [{"topic": scene.topic, "partitions": parts[:1]}]
        asking.fetch("moved on", topics=moved, session_id=session, session_epoch=1)
        asking.produce("", batch())
        asking.fetch("news", topics=[], session_id=session, session_epoch=2)
        asking.fetch("old epoch", topics=[], session_id=session, session_epoch=1)
        asking.fetch("ended", topics=[], session_id=session, session_epoch=-1)
        asking.fetch("gone", topics=[], session_id=session, session_epoch=3)


@scenario(CLIENT, "invalid frames")
def frames(scene: Scene) -> None:
    """Each on a connection of its own: closed, answered, or not; and the system is there afterwards."""
    metadata = frame("metadata", 9, {"topics": []})
    whole = {
        "a negative size": struct.pack(">i", -1) + b"x" * 40,
        "a huge size": struct.pack(">i", 2**31 - 1) + b"x" * 40,
        "no bytes": struct.pack(">i", 0),
        "three bytes": struct.pack(">i", 3) + b"abc",
        "an unknown api": struct.pack(">ihhih", 10, 999, 0, 1, -1),
        "a version that is too high": struct.pack(">ihhih", 10, 3, 99, 1, -1),
        "a version below zero": struct.pack(">ihhih", 10, 3, -1, 1, -1),
        "versions of a version that is too high": struct.pack(">ihhihb", 11, 18, 99, 1, -1, 0),
        "a body that ends early": struct.pack(">i", len(metadata) - 6) + metadata[4:-2],
        "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "TLS": bytes.fromhex("16030100f8010000f40303") + b"\0" * 40,
        "an array of two billion": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    }
    for label, data in whole.items():
        with Wire(scene.bootstrap, 3) as wire:
            wire.send(data)
            try:
                answer: Any = wire.answer()
                noted = {"crc": zlib.crc32(answer)} if len(answer) < 12 else {"code": answer[4:6].hex()}
            except Closed:
                noted = {"closed": True}
            except TimeoutError:
                noted = {"waits": True}
            scene.note(label, noted)
    with Asking(scene) as asking:
        scene.note("alive", len(asking.ranges) > 0)
