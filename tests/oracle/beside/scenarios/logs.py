"""What lies on the disks: Kafka's dump tool reads both systems' logs, and each goes on in the other's."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

from headrace.protocol.records.header import Compression

from ..asking import Asking, batch
from ..scene import Scene, pair, scenario
from .java_tools import PRODUCER

if TYPE_CHECKING:
    from pathlib import Path

CLIENT = "logs"
DUMP = "kafka.tools.DumpLogSegments"
# a checksum covers the time and the producer's id, which differ from run to run
DRAWN = re.compile(r"\b(CreateTime|LogAppendTime|crc|producerId): ?\d+")


def dumped(scene: Scene, *options: str) -> list[str]:
    """The scenario's partition 0, as Kafka's tool prints it."""
    paths = ",".join(map(str, sorted(folder(scene).glob("0*.log"))))
    printed = scene.tool(DUMP, "--files", paths, *options).out.splitlines()
    return [DRAWN.sub(r"\1: <n>", line) for line in printed]


def folder(scene: Scene) -> Path:
    return scene.system.log_dir / f"{scene.topic}-0"


@scenario(CLIENT, "batches of every kind")
def kinds(scene: Scene) -> None:
    """Every compression, with and without a producer's id, in a transaction that ends either way."""
    with Asking(scene) as asking:
        asking.create()
        for compression in Compression:
            asking.produce("", batch(compression=compression))
        told = asking.settled("", "init_producer_id", 1, transactional_id=None, transaction_timeout=60_000)
        me = {"producer_id": told["producer_id"], "producer_epoch": 0}
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
    told = asking.settled(
        "", "init_producer_id", 2, transactional_id=txn, transaction_timeout=60_000, **fields
    )
    mine = {name: told[name] for name in ("producer_id", "producer_epoch")}
    parts = {**mine, "transactional_id": txn, "topics": [{"name": txn, "partitions": [0]}]}
    fields = {f"v3_and_below_{name}": value for name, value in parts.items()}
    asking.settled("", "add_partitions_to_txn", 2, **fields)
    asking.produce("", batch(base_sequence=0, is_transactional=True, **mine), version=8, transactional_id=txn)
    asking.settled("", "end_txn", 2, transactional_id=txn, committed=committed, **mine)


@scenario(CLIENT, "in the server's time")
def of_the_server(scene: Scene) -> None:
    """message.timestamp.type LogAppendTime, of batches in every compression."""
    with Asking(scene) as asking:
        asking.create(message_timestamp_type="LogAppendTime")
        for compression in Compression:
            told = asking.produce("", batch(compression=compression))
            part = told["responses"][0]["partition_responses"][0]
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


@pair(CLIENT, "each goes on in the other's files")
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
