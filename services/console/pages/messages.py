"""Records of a topic: search, one record, download, and a form to produce one."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from ....protocol.errors import ConfigError, HeadraceError
from ....protocol.model import TopicPartition
from ...web.problems import Problem
from ..browsing_io import read_page, read_record
from ..decoding import DETAIL_CHARACTERS, FORMATS, decode, hex_rows
from ..downloads import FILES
from ..masking import Masks
from ..page import Page
from ..search import LIMITS, STARTS, Search, cursor_of, cursor_text, row_of
from ..visit import time_ms, whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ....clients.records import Record
    from ..downloads import Writer
    from ..visit import Visit

MOST_DOWNLOADED = 10_000
MOST_DOWNLOADED_BYTES = 256 << 20
HAS_PARQUET = importlib.util.find_spec("pyarrow") is not None
_ATTACHMENT = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}
PRODUCE_FORMATS = ("utf-8", "json", "hex", "base64", "null")


def masks_of(visit: Visit, topic: str) -> Masks:
    """The masks of a topic."""
    return Masks(visit.shared.settings.masks, topic)


def search_of(visit: Visit, limit: int = 0) -> Search:
    """The search in the query. Errors: ConfigError."""
    topic, partition = visit.path("name"), visit.text("partition")
    return Search(
        topic,
        start=visit.text("start", "newest"),
        partition=whole("partition", partition, 2**31 - 1) if partition else None,
        offset=visit.number("offset"),
        time_ms=time_ms(visit.text("time")) if visit.text("time") else 0,
        until_ms=time_ms(visit.text("until")) if visit.text("until") else None,
        key=visit.text("key"),
        header=visit.text("header"),
        text=visit.text("text"),
        expression=visit.text("where"),
        key_format=visit.text("kf", "auto"),
        value_format=visit.text("vf", "auto"),
        limit=limit or visit.number("limit", 50, most=LIMITS[-1]),
        is_committed=visit.text("committed") == "1",
        cursor=cursor_of(visit.text("cursor")),
        masks=masks_of(visit, topic),
    )


async def messages(visit: Visit) -> Response:
    """Records of a topic that match a search."""
    name = visit.path("name")
    page, error, status = None, "", 200
    async with visit.shared.searching():
        try:
            page = await read_page(visit.clients, search_of(visit))
        except ConfigError as failure:
            error, status = str(failure), 400
            await visit.admin.describe_topics(name)
    query = {
        key: value for key, value in visit.request.query_params.items() if key not in ("cursor", "notice")
    }
    more = None if page is None or page.cursor is None else {**query, "cursor": cursor_text(page.cursor)}
    return visit.render(
        "messages.html",
        status,
        name=name,
        tab="messages",
        page=page,
        error=error,
        q=visit.text,
        query=query,
        more=more,
        starts=STARTS,
        formats=FORMATS,
        limits=LIMITS,
        has_parquet=HAS_PARQUET,
        masks=masks_of(visit, name).rules,
        is_open=any(
            query.get(each) for each in ("key", "header", "text", "where", "until", "committed", "kf", "vf")
        ),
    )


async def record(visit: Visit) -> Response:
    """One record with all its fields."""
    found = await _record(visit)
    masks = masks_of(visit, found.topic)
    formats = {"key": visit.text("kf", "auto"), "value": visit.text("vf", "auto")}
    if not set(formats.values()) <= set(FORMATS):
        raise ConfigError(f"a format is one of {', '.join(FORMATS)}")
    key = masks.applied("key", decode(found.key, formats["key"]))
    value = masks.applied("value", decode(found.value, formats["value"]))
    return visit.render(
        "record.html",
        name=found.topic,
        tab="messages",
        record=row_of(found, key, value, masks, DETAIL_CHARACTERS),
        leader_epoch=found.leader_epoch,
        formats=FORMATS,
        key_format=formats["key"],
        value_format=formats["value"],
        key_hex=[] if masks.hides("key") else hex_rows(found.key or b""),
        value_hex=[] if masks.hides("value") else hex_rows(found.value or b""),
        masks=masks.rules,
        is_masked={"key": masks.hides("key"), "value": masks.hides("value")},
    )


async def raw(visit: Visit) -> Response:
    """The bytes of a key or value as a file."""
    field = visit.path("field")
    if field not in ("key", "value"):
        raise Problem(404, "a record has a key and a value")
    found = await _record(visit)
    if masks_of(visit, found.topic).hides(field):
        raise Problem(403, f"the {field} has masked fields: it cannot be downloaded as it is")
    data = found.key if field == "key" else found.value
    if data is None:
        raise Problem(404, f"the {field} of this record is null")
    filename = f"{found.topic}-{found.partition}-{found.offset}.{field}"
    return Response(
        data,
        media_type="application/octet-stream",
        headers={**_ATTACHMENT, "content-disposition": f'attachment; filename="{filename}"'},
    )


async def _record(visit: Visit) -> Record[bytes, bytes]:
    tp = TopicPartition(visit.path("name"), visit.path_number("partition"))
    described = (await visit.admin.describe_topics(tp.topic))[tp.topic]
    if tp.partition >= len(described.partitions):
        raise Problem(404, f"topic {tp.topic} has {len(described.partitions)} partitions")
    offset = visit.path_number("offset")
    if offset >= 2**63:
        raise Problem(404, "an offset has at most 63 bits")
    found = await read_record(visit.clients, tp, offset)
    if found is None:
        raise Problem(404, f"partition {tp.partition} of {tp.topic} has no record at offset {offset}")
    return found


async def download(visit: Visit) -> Response:
    """The records of a search as a file; at most `MOST_DOWNLOADED`, and about `MOST_DOWNLOADED_BYTES`."""
    search = search_of(visit, LIMITS[-1])
    if search.start == "newest":
        search = replace(search, start="oldest")
    kind = visit.text("as", "jsonl")
    if kind not in FILES:
        raise ConfigError(f"a file is one of {', '.join(FILES)}, not {kind[:40]!r}")
    media_type, make = FILES[kind]
    try:
        writer = make()
    except ImportError as error:
        raise Problem(501, "Parquet needs pyarrow: pip install 'headrace[arrow]'") from error
    await visit.admin.describe_topics(search.topic)
    return StreamingResponse(
        _pieces(visit, search, writer),
        media_type=media_type,
        headers={**_ATTACHMENT, "content-disposition": f'attachment; filename="{search.topic}.{kind}"'},
    )


async def _pieces(visit: Visit, search: Search, writer: Writer) -> AsyncIterator[bytes]:
    count = size = 0
    async with visit.shared.pool.use(visit.credentials) as clients, visit.shared.searching():
        while count < MOST_DOWNLOADED and size < MOST_DOWNLOADED_BYTES:
            page = await read_page(clients, search)
            piece = writer.add(page.rows[: MOST_DOWNLOADED - count])
            count, size = count + len(page.rows), size + len(piece)
            yield piece
            if page.cursor is None:
                break
            search = replace(search, cursor=page.cursor)
            await asyncio.sleep(0)
        yield writer.end()


async def produce_form(visit: Visit, error: str = "", status: int = 200) -> Response:
    """The form for a record."""
    name = visit.path("name")
    described = (await visit.admin.describe_topics(name))[name]
    form = visit.form if status != 200 else {}
    return visit.render(
        "produce.html",
        status,
        name=name,
        tab="produce",
        formats=PRODUCE_FORMATS,
        partitions=len(described.partitions),
        form=form,
        error=error,
    )


async def produce(visit: Visit) -> Response:
    """Produce one record."""
    name = visit.path("name")
    try:
        partition = visit.field("partition")
        sent = await visit.clients.producer.send(
            name,
            bytes_of(visit.raw_field("value"), visit.field("value_format", "utf-8")),
            key=bytes_of(visit.raw_field("key"), visit.field("key_format", "utf-8"))
            if visit.raw_field("key")
            else None,
            headers=_headers(visit.raw_field("headers")),
            partition=whole("partition", partition, 2**31 - 1) if partition else None,
        )
    except HeadraceError as failure:
        return await produce_form(visit, visit.failed("produce", name, failure), 400)
    visit.did("produce", f"{name} partition {sent.partition} offset {sent.offset}")
    return visit.see(
        f"/topics/{name}/{sent.partition}/{sent.offset}",
        f"produced to partition {sent.partition}, offset {sent.offset}",
    )


def bytes_of(text: str, wanted: str) -> bytes | None:
    """The bytes that a form means. Errors: ConfigError."""
    try:
        if wanted == "null":
            return None
        if wanted == "json":
            json.loads(text)
        if wanted == "hex":
            return bytes.fromhex(text)
        if wanted == "base64":
            return base64.b64decode(text, validate=True)
        return text.replace("\r\n", "\n").encode()
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not {wanted}: {error}") from None


def _headers(text: str) -> list[tuple[str, str]]:
    headers = []
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if not line.strip():
            continue
        if not separator or not name.strip():
            raise ConfigError(f"header {line[:80]!r} is not name=value")
        headers.append((name.strip(), value.strip()))
    return headers


PAGES = (
    Page("GET", "/topics/{name}/messages", messages),
    Page("GET", "/topics/{name}/download", download),
    Page("GET", "/topics/{name}/produce", produce_form),
    Page("POST", "/topics/{name}/produce", produce),
    Page("GET", "/topics/{name}/{partition:int}/{offset:int}", record),
    Page("GET", "/topics/{name}/{partition:int}/{offset:int}/{field}", raw),
)
