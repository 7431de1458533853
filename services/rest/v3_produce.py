"""Version 3: producing, as a stream of concatenated JSON objects and in batches."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ...clients.records import ProducerRecord
from ...protocol.errors import HeadraceError
from ..web.calls_io import Reply, encode, encode_lines
from ..web.problems import Problem, problem_of, text_of_error
from ..web.routes import Route
from .formats import (
    BINARY,
    JSON,
    OF_REGISTRY,
    STRING,
    binary_bytes,
    embedded,
    from_base64,
    json_bytes,
    no_registry,
    string_bytes,
)
from .record_stream import RecordStream
from .shapes import BatchFailure, BatchOutcome, BatchSuccess, ProducedData, ProducedRecord, RecordHeader
from .v3_clusters import links_of
from .v3_topics import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ...clients.producer.delivery_io import RecordFuture
    from ...clients.records import RecordMetadata
    from ..web.calls_io import Call

# Bound: records of one request that are sent together, and that wait until those are acknowledged.
MAX_SENT = 4000
# Bound: bytes of the waiting ones, apart from the last part that was read.
MAX_WAITING_BYTES = 1 << 20
# Bound: records of one batch request.
MAX_BATCH = 10_000
_FORMATS = {JSON: json_bytes, STRING: string_bytes, BINARY: binary_bytes}


class RecordData(msgspec.Struct, gc=False):
    """A key or value to produce: `data` is any JSON for JSON, text for STRING, base64 text for BINARY."""

    data: msgspec.Raw = embedded()
    type: str | None = None
    subject: Any = None
    subject_name_strategy: Any = None
    schema: Any = None
    schema_id: Any = None
    schema_version: Any = None


class ProduceRecord(msgspec.Struct, gc=False):
    """A record to produce. `timestamp`: RFC 3339."""

    partition_id: int | None = None
    headers: list[RecordHeader] = []
    key: RecordData | None = None
    value: RecordData | None = None
    timestamp: datetime | None = None


class BatchEntry(ProduceRecord, kw_only=True, gc=False):
    """A record of a batch; `id` identifies it in the response."""

    id: str


class ProduceBatch(msgspec.Struct):
    """Records to produce, at most 10,000."""

    entries: list[BatchEntry]


async def _produce(call: Call) -> Reply:
    """Respond while the request arrives: one report per record, in their order."""
    links = await links_of(call)
    call.check_content_type()
    topic = call.params["topic_name"]
    await call.clients.check_topic(topic)
    stream = _Stream(call, topic, links.cluster_id)
    return Reply(stream.reports())


class _Stream:
    """The records of one request, and the reports about them."""

    def __init__(self, call: Call, topic: str, cluster_id: str) -> None:
        self._call, self._topic, self._cluster_id = call, topic, cluster_id
        self._waiting: list[ProduceRecord | Problem] = []
        self._waiting_bytes = 0
        self._changed, self._has_room = asyncio.Event(), asyncio.Event()
        self._is_read = False

    async def reports(self) -> AsyncIterator[bytes]:
        """The body of the response: records that have arrived are sent together, while the next ones are
        read, and reported in one part."""
        reader = asyncio.get_running_loop().create_task(self._read())
        try:
            while True:
                while not self._waiting and not self._is_read:
                    self._changed.clear()
                    await self._changed.wait()
                if not self._waiting:
                    break
                records = self._waiting[:MAX_SENT]
                del self._waiting[:MAX_SENT]
                if not self._waiting:
                    self._waiting_bytes = 0
                    self._has_room.set()
                outcomes = await _sent(self._call, self._topic, records)
                reports = [
                    self._report(record, outcome) for record, outcome in zip(records, outcomes, strict=True)
                ]
                yield encode_lines(reports, b"\r\n")
            await reader
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader

    def _report(self, record: ProduceRecord | Problem, outcome: RecordMetadata | Problem) -> ProducedRecord:
        if isinstance(outcome, Problem):
            return ProducedRecord(outcome.error_code, message=outcome.detail)
        assert not isinstance(record, Problem)
        return ProducedRecord(
            200,
            self._cluster_id,
            outcome.topic,
            outcome.partition,
            outcome.offset,
            timestamp_text(outcome.timestamp),
            _size(record.key, outcome.serialized_key_size),
            _size(record.value, outcome.serialized_value_size),
        )

    async def _read(self) -> None:
        """Take the records as they arrive; an error of the stream itself ends it."""
        stream = RecordStream(ProduceRecord, self._call.web.max_request_bytes)
        try:
            async for part in self._call.stream():
                self._waiting += stream.feed(part)
                self._waiting_bytes += len(part)
                self._changed.set()
                await self._until_room()
            stream.end()
        except (Problem, HeadraceError) as error:
            self._waiting.append(_known(error))
        finally:
            self._is_read = True
            self._changed.set()

    async def _until_room(self) -> None:
        """Back-pressure: the rest of the request is read once the cluster has acknowledged enough."""
        while self._waiting and (len(self._waiting) >= MAX_SENT or self._waiting_bytes >= MAX_WAITING_BYTES):
            self._has_room.clear()
            await self._has_room.wait()


async def _produce_batch(call: Call) -> Reply:
    """Produce many records with one request: the response has the outcome of each."""
    links = await links_of(call)
    batch = await call.json(ProduceBatch)
    topic = call.params["topic_name"]
    if not 0 < len(batch.entries) <= MAX_BATCH:
        raise Problem(422, f"entries must have 1 to {MAX_BATCH} records, not {len(batch.entries)}")
    await call.clients.check_topic(topic)
    failures: list[BatchFailure] = []
    successes: list[BatchSuccess] = []
    for entry, done in zip(batch.entries, await _sent(call, topic, batch.entries), strict=True):
        if isinstance(done, Problem):
            failures.append(BatchFailure(entry.id, done.error_code, done.detail))
            continue
        successes.append(
            BatchSuccess(
                id=entry.id,
                cluster_id=links.cluster_id,
                topic_name=done.topic,
                partition_id=done.partition,
                offset=done.offset,
                timestamp=timestamp_text(done.timestamp),
                key=_size(entry.key, done.serialized_key_size),
                value=_size(entry.value, done.serialized_value_size),
            )
        )
    return Reply(encode(BatchOutcome(successes, failures)), 207)


async def _sent(
    call: Call, topic: str, given: Sequence[ProduceRecord | Problem]
) -> list[RecordMetadata | Problem]:
    """The outcome of each record, in their order; one that cannot be sent does not hold up the others."""
    made = [_made(each) for each in given]
    result = await call.clients.producer.send_many(
        topic, [each for each in made if not isinstance(each, Problem)]
    )
    futures = iter(result)
    return [each if isinstance(each, Problem) else _outcome(next(futures)) for each in made]


def _made(given: ProduceRecord | Problem) -> ProducerRecord[bytes, bytes] | Problem:
    if isinstance(given, Problem):
        return given
    try:
        return to_record(given)
    except Problem as problem:
        return problem


def _outcome(future: RecordFuture) -> RecordMetadata | Problem:
    metadata, error = future.outcome()
    return metadata if error is None else _known(error)


def to_record(given: ProduceRecord) -> ProducerRecord[bytes, bytes]:
    """A record of the clients. Errors: Problem."""
    try:
        headers = [
            (each.name, None if each.value is None else from_base64(each.value)) for each in given.headers
        ]
    except ValueError as error:
        raise Problem(422, f"headers: {error}", 42201) from None
    timestamp = given.timestamp
    if timestamp is not None and timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    return ProducerRecord(
        _bytes("value", given.value), _bytes("key", given.key), headers, given.partition_id, timestamp
    )


@lru_cache(1024)  # records of one request have few
def timestamp_text(ms: int) -> str | None:
    """A time as RFC 3339; None for a missing or senseless one."""
    try:
        text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
    return text.replace("+00:00", "Z") if ms >= 0 else None


def _bytes(name: str, given: RecordData | None) -> bytes | None:
    if given is None:
        return None
    kind = (given.type or "").upper()
    convert = _FORMATS.get(kind)
    if convert is None:
        if kind in OF_REGISTRY or given.schema_id is not None or given.schema is not None:
            raise no_registry(f"the type of the {name}")
        raise Problem(422, f"the type of the {name} must be {', '.join(_FORMATS)}, not {given.type!r}", 42201)
    try:
        return convert(given.data)
    except ValueError as error:
        raise Problem(422, f"the {name}: {error}", 42201) from None


def _known(error: BaseException) -> Problem:
    return problem_of(error) or Problem(500, text_of_error(error), 50002)


def _size(given: RecordData | None, size: int) -> ProducedData | None:
    if given is None or given.type is None or size < 0:
        return None
    return ProducedData(given.type.upper(), size)


ROUTES = (
    Route(
        "POST", f"{TOPIC}/records", _produce, "Produce records", "v3 Records", ProduceRecord, ProducedRecord,
        is_streamed=True,
        doc="Any number of records, one JSON object after the other, in a request of any length: the response"
        " has a report for each record, in their order, and begins while the request is sent.",
    ),
    Route(
        "POST", f"{TOPIC}/records:batch", _produce_batch, "Produce a batch of records", "v3 Records",
        ProduceBatch, BatchOutcome, 207,
    ),
)  # fmt: skip
