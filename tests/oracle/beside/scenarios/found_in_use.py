"""Requests made by hand in which headrace once differed from Kafka, unseen by the other scenarios."""

import time
from typing import Any

from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression

from ..asking import NOW, Asking, batch, batches
from ..scene import Scene, scenario

CLIENT = "raw"
HOUR_MS = 3_600_000
TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")


def _batch_of(*records: tuple[int, bytes | None]) -> bytes:
    """Records of these timestamps and keys."""
    builder = active_codec().builder(max_bytes=1 << 20, compression=Compression.NONE)
    for timestamp, key in records:
        builder.append(timestamp, key, b"v", [])
    return builder.build()


@scenario(CLIENT, "records that fail a batch")
def record_errors(scene: Scene) -> None:
    """KIP-467: Produce 8 and later name each wrong record of a refused batch by its index; earlier versions
    refuse the batch. Nothing of a refused batch is appended."""
    with Asking(scene) as asking:
        compacted, timed = f"{scene.topic}-compacted", f"{scene.topic}-timed"
        asking.create(compacted, cleanup_policy="compact")
        asking.create(
            timed, message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(HOUR_MS)
        )
        now_ms = int(time.time() * 1000)
        no_keys = _batch_of((NOW, b"a"), (NOW, None), (NOW, b"c"), (NOW, None))
        early = _batch_of((now_ms, b"a"), (now_ms - 2 * HOUR_MS, b"b"), (now_ms, b"c"))
        late = _batch_of((now_ms + 2 * HOUR_MS, b"a"), (now_ms, b"b"), (now_ms + 3 * HOUR_MS, b"c"))
        for version in (3, 7, 8, 9, 12):
            asking.produce(f"no keys v{version}", no_keys, version=version, topic=compacted)
            asking.produce(f"too early v{version}", early, version=version, topic=timed)
            asking.produce(f"too late v{version}", late, version=version, topic=timed)
        for topic in (compacted, timed):
            found = asking.fetch("", topic=topic, max_wait=0)
            scene.note(f"end of {topic}", found["responses"][0]["partitions"][0]["high_watermark"])


@scenario(CLIENT, "records deleted without a timeout")
def delete_records(scene: Scene) -> None:
    """A leader without followers deletes at once, so a timeout of 0 is enough."""
    with Asking(scene) as asking:
        asking.create()
        asking.produce("", batch(9))
        for version in (0, 1, 2):
            for label, offset in (("some", 2 * version + 1), ("the same again", 2 * version + 1)):
                part = {"partition_index": 0, "offset": offset}
                topics = [{"name": scene.topic, "partitions": [part]}]
                asking.ask(f"{label} v{version}", "delete_records", version, topics=topics, timeout=0)
        for label, offset in (("beyond the end", 99), ("all", -1)):
            part = {"partition_index": 0, "offset": offset}
            topics = [{"name": scene.topic, "partitions": [part]}]
            asking.ask(label, "delete_records", 2, topics=topics, timeout=0)


@scenario(CLIENT, "batches recompressed by compression.type")
def recompressed(scene: Scene) -> None:
    """Producers of three codecs, a topic of each type: codec and records of the stored batches."""
    codecs = (Compression.NONE, Compression.GZIP, Compression.ZSTD)
    with Asking(scene) as asking:
        for kind in TYPES:
            topic = f"{scene.topic}-{kind}"
            asking.create(topic, compression_type=kind)
            for codec in codecs:
                label = f"{codec.name} to {kind}"
                data = batch(5, compression=codec)
                asking.produce(label, data, topic=topic)
            scene.note(f"stored as {kind}", _stored(asking, topic))


def _stored(asking: Asking, topic: str) -> list[Any]:
    """All batches of partition 0."""
    found: list[Any] = []
    offset, end = 0, 1
    while offset < end:
        (part,) = asking.fetch("", topic=topic, offset=offset)["responses"][0]["partitions"]
        end, more = part["high_watermark"], batches(part["records"])
        found += more
        offset = more[-1]["offsets"][1] + 1
    return found
