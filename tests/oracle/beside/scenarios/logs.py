"""The files of both systems: Kafka's dump tool reads both logs, and each system continues in the other's."""

import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.runtime.waiting_io import until

from ..asking import NOW, Asking, batch
from ..scene import Scene, pair, scenario
from .java_tools import PRODUCER

CLIENT = "logs"
ROUNDS = 3
KEYS = 5
CLEANED_S = 30.0
COMPACTED_BYTES = 300_000
DUMP = "org.apache.kafka.tools.DumpLogSegments"
# a checksum covers the time and the producer's id, which differ from run to run
DRAWN = re.compile(r"\b(CreateTime|LogAppendTime|crc|producerId): ?\d+")


def dumped(scene: Scene, *options: str) -> list[str]:
    """The scenario's partition 0, as Kafka's tool prints it."""
    paths = ",".join(map(str, sorted(folder(scene).glob("0*.log"))))
    printed = scene.tool(DUMP, "--files", paths, *options)
    assert printed.status == 0, printed.err
    assert printed.out, "the dump tool printed nothing: two empty dumps would be equal"
    return [DRAWN.sub(r"\1: <n>", line) for line in printed.out.splitlines()]


def folder(scene: Scene) -> Path:
    return scene.system.log_dir / f"{scene.topic}-0"


@scenario(CLIENT, "batches of every kind")
def kinds(scene: Scene) -> None:
    """Every compression, with and without a producer's id, in a transaction that ends either way."""
    with Asking(scene) as asking:
        asking.create()
        for compression in Compression:
            asking.produce("", batch(compression=compression))
        response = asking.settled(
            "", "init_producer_id", 1, transactional_id=None, transaction_timeout=60_000
        )
        me = {"producer_id": response["producer_id"], "producer_epoch": 0}
        for sequence in (0, 3):
            asking.produce("", batch(base_sequence=sequence, **me))
        for sequence, committed in ((0, True), (3, False)):
            _transaction(asking, sequence, committed=committed)
        asking.until_stable()
    for options in (("--print-data-log",), ("--deep-iteration",)):
        scene.note(str(options), dumped(scene, *options))


def _transaction(asking: Asking, sequence: int, *, committed: bool) -> None:
    txn = asking.scene.topic
    asking.settled("", "find_coordinator", 2, key=txn, key_type=1)
    fields = {"producer_id": -1, "producer_epoch": -1}
    response = asking.settled(
        "", "init_producer_id", 2, transactional_id=txn, transaction_timeout=60_000, **fields
    )
    mine = {name: response[name] for name in ("producer_id", "producer_epoch")}
    parts = {**mine, "transactional_id": txn, "topics": [{"name": txn, "partitions": [0]}]}
    fields = {f"v3_and_below_{name}": value for name, value in parts.items()}
    asking.settled("", "add_partitions_to_txn", 2, **fields)
    asking.produce("", batch(base_sequence=0, is_transactional=True, **mine), version=8, transactional_id=txn)
    asking.settled("", "end_txn", 2, transactional_id=txn, committed=committed, **mine)


@scenario(CLIENT, "log append time")
def of_the_server(scene: Scene) -> None:
    """message.timestamp.type LogAppendTime, of batches in every compression."""
    with Asking(scene) as asking:
        asking.create(message_timestamp_type="LogAppendTime")
        for compression in Compression:
            response = asking.produce("", batch(compression=compression))
            part = response["responses"][0]["partition_responses"][0]
            scene.note(f"{compression.name}", [part["base_offset"], part["log_append_time"] is not None])
    scene.note("dumped", dumped(scene, "--print-data-log"))


@scenario(CLIENT, "segments and indexes")
def segments(scene: Scene) -> None:
    """Rolled at the same batches, with the same entries in their indexes."""
    with Asking(scene) as asking:
        asking.create(segment_bytes="1048576", index_interval_bytes="1000")
        for number in range(40):
            asking.produce("", batch(1, key=b"x" * 60_000, timestamp=1_700_000_000_000 + number))
    files = sorted(path.name for path in folder(scene).glob("*.log"))
    scene.note("files", files)
    # that which is written to has its indexes in memory
    for name in (file.replace(".log", kind) for file in files[:-1] for kind in (".index", ".timeindex")):
        path = folder(scene) / name
        printed = scene.tool(DUMP, "--files", str(path))
        scene.note(name, [re.sub(r"^.*/", "", line) for line in printed.out.splitlines()])


@pair(CLIENT, "each continues from the other's files")
def exchanged(scenes: tuple[Scene, Scene]) -> None:
    """Written in every compression and in transactions; stopped, swapped, read, gone on with."""
    for scene in scenes:
        with Asking(scene) as asking:
            asking.create()
            for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
                arguments = ("--topic", scene.topic, "--sync", "--timeout", "0", "--compression-codec", codec)
                scene.tool(
                    PRODUCER,
                    "--bootstrap-server",
                    scene.bootstrap,
                    *arguments,
                    given=f"{scene.system.name}\n" * 3,
                )
            for committed in (True, False):
                _transaction(asking, 0, committed=committed)
            asking.until_stable()
    for scene in scenes:
        scene.system.stop()
    _swap(*map(folder, scenes))
    for scene, other in zip(scenes, reversed(scenes), strict=True):
        scene.system.start()
        with Asking(scene) as asking:
            before = read(asking)
            scene.note("whose", {each.decode() == other.system.name for each in before[:15]} == {True})
            scene.note("values", [b"<name>" if number < 15 else each for number, each in enumerate(before)])
            part = {"index": 0, "records": batch()}
            topics = [{"name": scene.topic, "partition_data": [part]}]
            asking.settled("goes on", "produce", 9, acks=-1, timeout=10_000, topic_data=topics)
            asking.all_committed("after")
        scene.notes["after"]["batches"] = scene.notes["after"]["batches"][15:]


@pair(CLIENT, "each continues from the other's compacted log of several leader epochs")
def exchanged_compacted(scenes: tuple[Scene, Scene]) -> None:
    """In every compression, with aborted and committed transactions, in segments with all index files,
    compacted by the system that wrote them; then by the other one too."""
    for scene in scenes:
        with Asking(scene) as asking:
            asking.create(
                cleanup_policy="compact",
                segment_bytes="1048576",
                index_interval_bytes="1000",
                min_cleanable_dirty_ratio="0.01",
            )
        for number in range(ROUNDS):
            with Asking(scene) as asking:
                _write_round(asking, number)
            if number + 1 < ROUNDS:
                scene.restart()
        assert until(partial(is_compacted, scene), CLEANED_S), scene.system.name
        scene.note("files", sorted({path.suffix for path in folder(scene).iterdir() if path.is_file()}))
    for scene in scenes:
        scene.system.stop()
    _swap(*map(folder, scenes))
    for scene in scenes:
        _check_indexes(scene, "indexes of the other")
        scene.system.start()
        with Asking(scene) as asking:
            asking.until_stable()
            scene.note("newest", newest(asking))
            _note_epochs(asking, "epochs")
            _write_round(asking, ROUNDS)
            assert until(partial(is_compacted, scene), CLEANED_S), scene.system.name
            scene.note("newest after", newest(asking))
            _note_epochs(asking, "epochs after")
        _check_indexes(scene, "indexes of both")


def _write_round(asking: Asking, number: int) -> None:
    """Over a segment's worth, of which compaction leaves one value of each key."""
    codec = active_codec()
    for turn in range(5):
        for compression in Compression:
            builder = codec.builder(max_bytes=1 << 20, compression=compression)
            for key in range(KEYS):
                value = b"%d-%d-%s-" % (number, turn, compression.name.encode()) + os.urandom(9_000)
                builder.append(NOW + 1000 * number + turn, b"k-%d" % key, value, [])
            part = {"index": 0, "records": builder.build()}
            topics = [{"name": asking.scene.topic, "partition_data": [part]}]
            asking.settled("", "produce", 9, acks=-1, timeout=10_000, topic_data=topics)
        for committed in (True, False):
            _transaction(asking, 0, committed=committed)
    asking.until_stable()


def newest(asking: Asking) -> dict[str, Any]:
    """Offset and value, as far as it is not drawn, of each key's last committed record."""
    asking.all_committed("all")
    response = asking.scene.notes.pop("all")
    skipped = {(each["producer_id"], each["first_offset"]) for each in response["aborted"]}
    found: dict[str, Any] = {}
    for each in response["batches"]:
        if not each["kind"][1] and (each["producer_id"], each["offsets"][0]) not in skipped:
            found |= {
                record[2].decode(): [record[0], record[3].split(b"-")[:3]] for record in each["records"]
            }
    return found


def _note_epochs(asking: Asking, label: str) -> None:
    """Where each leader epoch ends."""
    response = []
    for epoch in range(ROUNDS + 2):
        part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        topics = [{"topic": asking.scene.topic, "partitions": [part]}]
        (topic,) = asking.settled("", "offset_for_leader_epoch", 4, replica_id=-1, topics=topics)["topics"]
        response.append(topic["partitions"])
    asking.scene.note(label, response)


def _check_indexes(scene: Scene, label: str) -> None:
    """Kafka's tool finds every batch valid and every index in agreement with its segment."""
    logs, indexes = (sorted(map(str, folder(scene).glob(kind))) for kind in ("0*.log", "0*index"))
    printed = scene.tool(DUMP, "--files", ",".join(logs), "--deep-iteration").out
    checked = scene.tool(DUMP, "--files", ",".join(indexes), "--verify-index-only")
    complaints = ("Mismatches", "Index mismatch", "not found", "out of order", "corrupt")
    found = [each for each in complaints if each in checked.out + checked.err]
    scene.note(label, ["isvalid: true" in printed, "isvalid: false" in printed, checked.status, found])


def is_compacted(scene: Scene) -> bool:
    """Whether hardly anything is left in the segments that are not written to."""
    sizes = [path.stat().st_size for path in sorted(folder(scene).glob("0*.log"))[:-1]]
    return bool(sizes) and sum(sizes) < COMPACTED_BYTES


def _swap(one: Path, other: Path) -> None:
    """What two folders hold, but for the ids of their topics."""
    kept = {path: (path / "partition.metadata").read_bytes() for path in (one, other)}
    between = one.with_name("between")
    one.rename(between)
    shutil.move(other, one)
    shutil.move(between, other)
    for path, data in kept.items():
        (path / "partition.metadata").write_bytes(data)


def read(asking: Asking) -> list[bytes]:
    """Every value of partition 0, as soon as the partition is led again."""
    found: list[Any] = []
    asking.until_stable()
    asking.all_committed("before")
    for each in asking.scene.notes.pop("before")["batches"]:
        found += [record[3] for record in each["records"] if not each["kind"][1]]
    return found
