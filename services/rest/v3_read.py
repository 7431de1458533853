"""Version 3, an addition of headrace: reading the records of a topic."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from ...clients.admin.admin_types import EARLIEST, LATEST, OffsetSpec
from ...protocol.errors import NoOffsetError, OffsetOutOfRangeError
from ...protocol.model import TopicPartition
from ..web.problems import Problem, text_of_error
from ..web.routes import Route, integer, text
from .formats import AUTO, SHOWN, ShownData
from .shapes import ListMetadata, RecordHeader
from .v3_clusters import links_of
from .v3_produce import timestamp_text
from .v3_topics import TOPIC, described

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.records import Record
    from ..web.calls_io import Call
    from .restrictions import MaskedRecords, Restrictions

DEFAULT_MAX, MOST = 100, 10_000
# The longest wait for records.
MOST_WAIT_MS = 30_000
DEFAULT_WAIT_MS = 500


class ReadRecord(msgspec.Struct, kw_only=True):
    """A record of a topic; `key` and `value` are null for null."""

    partition_id: int
    offset: int
    timestamp: str | None
    headers: list[RecordHeader]
    key: ShownData | None
    value: ShownData | None


class RecordPage(msgspec.Struct, kw_only=True):
    """Records, each partition in its order. `metadata.next` continues after the last ones; `next_offsets` has
    the offset of the next record of each partition that was read."""

    kind: str = "KafkaRecordList"
    metadata: ListMetadata
    data: list[ReadRecord]
    next_offsets: dict[str, int]


START_PARAMS = (
    integer("partition", "Read this partition only [default: all]."),
    text("offset", "Where to start: earliest, latest, or an offset of the partition."),
    text("timestamp", "Start at the first record at or after this time, in ms since 1970."),
    text("format", "Form of keys and values: AUTO is JSON, text or base64, as the bytes allow.", *SHOWN),
)


class ReadRoutes:
    """How requests read records."""

    def __init__(self, restrictions: Restrictions) -> None:
        self._restrictions = restrictions
        self.ROUTES = (
            Route(
                "GET", f"{TOPIC}/records", self._read, "Read records", "v3 Records", None, RecordPage,
                params=(
                    *START_PARAMS,
                    integer("max", "Most records of the response.", default=DEFAULT_MAX),
                    integer("timeout", "Longest wait for the first record, in ms.", default=DEFAULT_WAIT_MS),
                ),
                doc="Not a part of Confluent's API. `offset` may also be the positions of several partitions,"
                " such as 0:15,1:22; `metadata.next` has them for the records after these.",
            ),
        )  # fmt: skip

    async def _read(self, call: Call) -> RecordPage:
        links = await links_of(call)
        most = call.number("max", DEFAULT_MAX, most=MOST)
        wait_ms = call.number("timeout", DEFAULT_WAIT_MS, most=MOST_WAIT_MS)
        wanted = format_of(call)
        assert most is not None
        assert wait_ms is not None
        topic = await described(call)
        starts = await start_offsets(
            call, topic.name, [each.partition for each in topic.partitions], EARLIEST
        )
        records = await _fetched(call, starts, most, wait_ms / 1000)
        ends = {tp.partition: offset for tp, offset in starts.items()}
        for record in records:
            ends[record.partition] = record.offset + 1
        following = ",".join(f"{partition}:{offset}" for partition, offset in sorted(ends.items()))
        masked = self._restrictions.of_topic(topic.name)
        path = ("topics", topic.name, "records")
        query = f"?offset={following}&max={most}&format={wanted}"
        return RecordPage(
            metadata=ListMetadata(links.url(*path), links.url(*path) + query),
            data=[document(record, wanted, masked) for record in records],
            next_offsets={str(partition): offset for partition, offset in sorted(ends.items())},
        )


def document(record: Record[bytes, bytes], wanted: str, masked: MaskedRecords) -> ReadRecord:
    """A record as JSON, without masked fields."""
    return ReadRecord(
        partition_id=record.partition,
        offset=record.offset,
        timestamp=timestamp_text(record.timestamp),
        headers=masked.headers(record.headers),
        key=masked.shown("key", record.key, wanted),
        value=masked.shown("value", record.value, wanted),
    )


def format_of(call: Call) -> str:
    """The `format` parameter. Errors: Problem 400."""
    wanted = (call.text("format") or AUTO).upper()
    if wanted not in SHOWN:
        raise Problem(400, f"format must be one of {', '.join(SHOWN)}", 40002)
    return wanted


async def start_offsets(
    call: Call, topic: str, partitions: list[int], default: OffsetSpec, resumed: str | None = None
) -> dict[TopicPartition, int]:
    """The offsets to start at, from `resumed` (the text of a position), or the parameters partition, offset
    and timestamp. Errors: Problem 400, 404."""
    one = call.number("partition", most=2**31 - 1)
    if one is not None:
        if one not in partitions:
            raise Problem(404, f"partition {topic}-{one} does not exist", 40403)
        partitions = [one]
    tps = [TopicPartition(topic, partition) for partition in partitions]
    given, timestamp = call.text("offset"), call.number("timestamp")
    if resumed:
        positions = positions_of(resumed)
    elif given is not None and timestamp is not None:
        raise Problem(400, "offset and timestamp exclude each other", 40002)
    elif given is not None and ":" in given:
        positions = positions_of(given)
    elif given is not None and given not in ("earliest", "latest"):
        offset = call.number("offset")
        assert offset is not None
        if len(tps) > 1:
            raise Problem(400, "an offset needs the parameter partition, or the form 0:15,1:22", 40002)
        positions = {tps[0].partition: offset}
    else:
        positions = {}
        default = {"earliest": EARLIEST, "latest": LATEST}.get(given or "", default)
        default = default if timestamp is None else OffsetSpec(timestamp)
    return await _resolved(call, tps, positions, default)


def positions_of(text: str) -> dict[int, int]:
    """The positions in text like `0:15,1:22`: offset of the next record by partition. Errors: Problem 400."""
    found: dict[int, int] = {}
    for part in text.split(","):
        partition, separator, offset = part.partition(":")
        if not (separator and _is_number(partition) and _is_number(offset)):
            raise Problem(400, "positions have the form 0:15,1:22", 40002)
        found[int(partition)] = int(offset)
    return found


async def _resolved(
    call: Call, tps: list[TopicPartition], positions: Mapping[int, int], default: OffsetSpec
) -> dict[TopicPartition, int]:
    starts = {tp: positions[tp.partition] for tp in tps if tp.partition in positions}
    others = [tp for tp in tps if tp not in starts]
    if not others:
        return starts
    admin = call.clients.admin
    found = await admin.list_offsets(dict.fromkeys(others, default))
    missing = [tp for tp in others if found[tp].offset < 0]  # no record at or after the time
    ends = await admin.list_offsets(dict.fromkeys(missing, LATEST)) if missing else {}
    return starts | {tp: (ends if tp in missing else found)[tp].offset for tp in others}


async def _fetched(
    call: Call, starts: Mapping[TopicPartition, int], most: int, wait_s: float
) -> list[Record[bytes, bytes]]:
    """At most so many records, and bytes of max.response.bytes, as soon as there are some: it ends when no
    more come at once."""
    records: list[Record[bytes, bytes]] = []
    left = call.web.max_response_bytes
    clock = asyncio.get_running_loop().time
    ends_at = clock() + wait_s
    options: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "none"}
    consumer = call.clients.cluster.consumer(**options)
    try:
        await consumer.assign(list(starts))
        for tp, offset in starts.items():
            await consumer.seek(tp, offset)
        while len(records) < most and left > 0:
            wait = 0.02 if records else max(ends_at - clock(), 0)
            batch = await consumer.poll(wait, most - len(records))
            if not batch:
                break
            for record in batch:
                left -= len(record.key or b"") + len(record.value or b"")
                if left < 0 and records:
                    return records
                records.append(record)
    except (OffsetOutOfRangeError, NoOffsetError) as error:
        raise Problem(
            400, f"{text_of_error(error)}: offset=earliest starts at the first record", 40002
        ) from None
    finally:
        await consumer.close()
    return records


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
