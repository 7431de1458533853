"""Version 3: producing, as a stream of concatenated JSON objects and in batches."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...clients.records import ProducerRecord
from ...protocol.errors import HeadraceError
from ..web.calls_io import Reply, decoded, encode
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
from .json_stream import JsonSplitter
from .shapes import BatchFailure, BatchOutcome, BatchSuccess, ProducedData, ProducedRecord, RecordHeader
from .v3_clusters import links_of
from .v3_topics import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ...clients.records import RecordMetadata
    from ..web.calls_io import Call

# Bound: records of one request that are sent and not acknowledged.
MAX_IN_FLIGHT = 4000
# Bound: responses that are encoded in one part of the body.
MAX_REPORTS = 1000
# Bound: records of one batch request.
MAX_BATCH = 10_000
_FORMATS = {JSON: json_bytes, STRING: string_bytes, BINARY: binary_bytes}


class RecordData(msgspec.Struct):
    """A key or value to produce: `data` is any JSON for JSON, text for STRING, base64 text for BINARY."""

    data: msgspec.Raw = embedded()
    type: str | None = None
    subject: Any = None
    subject_name_strategy: Any = None
    schema: Any = None
    schema_id: Any = None
    schema_version: Any = None


class ProduceRecord(msgspec.Struct):
    """A record to produce. `timestamp`: RFC 3339."""

    partition_id: int | None = None
    headers: list[RecordHeader] = []
    key: RecordData | None = None
    value: RecordData | None = None
    timestamp: datetime | None = None


class BatchEntry(ProduceRecord, kw_only=True):
    """A record of a batch; `id` identifies it in the response."""

    id: str


class ProduceBatch(msgspec.Struct):
    """Records to produce, at most 10,000."""

    entries: list[BatchEntry]


class _Report(NamedTuple):
    """What becomes a response: the outcome of a record, or the error that ends the stream."""

    outcome: asyncio.Future[RecordMetadata] | Problem
    key_type: str | None
    value_type: str | None


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
        self._waiting: deque[_Report] = deque()
        self._changed, self._has_room = asyncio.Event(), asyncio.Event()
        self._is_read = False

    async def reports(self) -> AsyncIterator[bytes]:
        """The body of the response."""
        reader = asyncio.get_running_loop().create_task(self._read())
        try:
            while True:
                while not self._waiting and not self._is_read:
                    self._changed.clear()
                    await self._changed.wait()
                if not self._waiting:
                    break
                first = self._waiting[0].outcome
                if not isinstance(first, Problem):
                    await asyncio.wait((first,))
                part = self._ready()
                self._has_room.set()
                yield part
            await reader
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
            for report in self._waiting:
                if not isinstance(report.outcome, Problem):
                    report.outcome.add_done_callback(_retrieved)

    def _ready(self) -> bytes:
        """The reports that have an outcome, from the first on."""
        parts: list[bytes] = []
        while self._waiting and len(parts) < MAX_REPORTS:
            outcome = self._waiting[0].outcome
            if not isinstance(outcome, Problem) and not outcome.done():
                break
            parts.append(encode(self._report(self._waiting.popleft())))
        return b"\r\n".join((*parts, b""))

    def _report(self, report: _Report) -> ProducedRecord:
        if isinstance(report.outcome, Problem):
            return _failed(report.outcome)
        error = report.outcome.exception()
        if error is not None:
            return _failed(_known(error))
        done = report.outcome.result()
        return ProducedRecord(
            200,
            self._cluster_id,
            done.topic,
            done.partition,
            done.offset,
            timestamp_text(done.timestamp),
            _size(report.key_type, done.serialized_key_size),
            _size(report.value_type, done.serialized_value_size),
        )

    async def _read(self) -> None:
        """Send the records as they arrive; an error of the stream itself ends it."""
        splitter = JsonSplitter(self._call.web.max_request_bytes)
        try:
            async for part in self._call.stream():
                for document in splitter.feed(part):
                    self._send(document)
                self._changed.set()
                await self._until_room()
            splitter.end()
        except (Problem, HeadraceError) as error:
            self._waiting.append(_Report(_known(error), None, None))
        finally:
            self._is_read = True
            self._changed.set()

    def _send(self, document: bytes) -> None:
        """Send one record; a record that cannot be sent is reported, and the others go on."""
        try:
            record = _decoded(document)
            made = to_record(record)
            outcome = self._call.clients.producer.send(
                self._topic,
                made.value,
                key=made.key,
                partition=made.partition,
                timestamp=made.timestamp,
                headers=made.headers,
            )
        except (Problem, HeadraceError) as error:
            self._waiting.append(_Report(_known(error), None, None))
        else:
            self._waiting.append(_Report(outcome, _type(record.key), _type(record.value)))

    async def _until_room(self) -> None:
        """Back-pressure: the rest of the request is read once the cluster has acknowledged enough."""
        while len(self._waiting) >= MAX_IN_FLIGHT:
            self._has_room.clear()
            await self._has_room.wait()
        await self._call.clients.producer.drain()


async def _produce_batch(call: Call) -> Reply:
    """Produce many records with one request: the response has the outcome of each."""
    links = await links_of(call)
    batch = await call.json(ProduceBatch)
    topic = call.params["topic_name"]
    if not 0 < len(batch.entries) <= MAX_BATCH:
        raise Problem(422, f"entries must have 1 to {MAX_BATCH} records, not {len(batch.entries)}")
    await call.clients.check_topic(topic)
    failures: list[BatchFailure] = []
    sent: list[tuple[BatchEntry, ProducerRecord[bytes, bytes]]] = []
    for entry in batch.entries:
        try:
            sent.append((entry, to_record(entry)))
        except Problem as problem:
            failures.append(BatchFailure(entry.id, problem.error_code, problem.detail))
    result = await call.clients.producer.send_many(topic, [record for _, record in sent])
    successes: list[BatchSuccess] = []
    for (entry, _), future in zip(sent, result, strict=True):
        error = future.exception()
        if error is not None:
            known = _known(error)
            failures.append(BatchFailure(entry.id, known.error_code, known.detail))
            continue
        done = future.result()
        successes.append(
            BatchSuccess(
                id=entry.id,
                cluster_id=links.cluster_id,
                topic_name=done.topic,
                partition_id=done.partition,
                offset=done.offset,
                timestamp=timestamp_text(done.timestamp),
                key=_size(_type(entry.key), done.serialized_key_size),
                value=_size(_type(entry.value), done.serialized_value_size),
            )
        )
    return Reply(encode(BatchOutcome(successes, failures)), 207)


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


def _decoded(document: bytes) -> ProduceRecord:
    try:
        str(document, "utf-8")  # embedded values are taken as they are
    except UnicodeDecodeError as error:
        raise Problem(400, f"the record is not UTF-8: {error}", 40001) from None
    return decoded(document, ProduceRecord)


def _known(error: BaseException) -> Problem:
    return problem_of(error) or Problem(500, text_of_error(error), 50002)


def _failed(problem: Problem) -> ProducedRecord:
    return ProducedRecord(problem.error_code, message=problem.detail)


def _type(given: RecordData | None) -> str | None:
    return None if given is None or given.type is None else given.type.upper()


def _size(kind: str | None, size: int) -> ProducedData | None:
    return None if kind is None or size < 0 else ProducedData(kind, size)


def _retrieved(outcome: asyncio.Future[RecordMetadata]) -> None:
    """The client has gone: the error of its record is not logged as one that was forgotten."""
    if not outcome.cancelled():
        outcome.exception()


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
