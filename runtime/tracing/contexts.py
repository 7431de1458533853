"""Trace contexts in record headers, as W3C Trace Context writes them. Pure; needs no SDK.

A header that is not a valid `traceparent` is ignored: it is input from any client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.header import ATTRIBUTES_POSITION, COMPRESSION_MASK, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.records.header import Buffer

TRACEPARENT = "traceparent"
HEADER_NAMES = (TRACEPARENT, "tracestate", "baggage")
MAX_HEADER_BYTES = 512  # Bound: W3C lets a later version append fields to the 55 bytes of version 00
MAX_CONTEXTS = 32  # Bound: contexts of one batch that get spans
_SAMPLED = 0x01
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
# A header in a batch: varint of the length of its name, 11; the name; varint of the length of its value, 55.
_IN_BATCH = re.compile(rb"\x16traceparent\x6e([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})")


class TraceContext(NamedTuple):
    """The context of a sampled record."""

    trace_id: int
    span_id: int
    flags: int


def sampled_context(value: bytes | None) -> TraceContext | None:
    """The context of a `traceparent`; None if it is not valid, or not sampled."""
    if value is None or len(value) > MAX_HEADER_BYTES:
        return None
    parts = _FORM.fullmatch(value)
    if parts is None:
        return None
    version, trace_id, span_id, flags, rest = parts.groups()
    if version == b"ff" or (version == b"00" and rest):
        return None
    found = TraceContext(int(trace_id, 16), int(span_id, 16), int(flags, 16))
    return found if found.trace_id and found.span_id and found.flags & _SAMPLED else None


def context_of(headers: Sequence[tuple[str, bytes | None]]) -> TraceContext | None:
    """The context of a record with these headers; of several `traceparent` headers the last one counts."""
    for name, value in reversed(headers):
        if name == TRACEPARENT:
            return sampled_context(value)
    return None


def traceparents_of(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str, ...]:
    """The `traceparent` of a record with these headers, if it is valid and sampled."""
    return tuple(
        value.decode()
        for name, value in headers
        if name == TRACEPARENT and value is not None and sampled_context(value) is not None
    )


def sampled_texts(values: Iterable[str]) -> tuple[str, ...]:
    """Those of the `traceparent` values that are valid and sampled, at most MAX_CONTEXTS."""
    found: list[str] = []
    for value in values:
        if len(found) >= MAX_CONTEXTS:
            break
        if value.isascii() and sampled_context(value.encode()) is not None:
            found.append(value)
    return tuple(found)


def contexts_in(records: Buffer) -> tuple[str, ...]:
    """Sampled `traceparent` values in the uncompressed records of a batch, in order, at most MAX_CONTEXTS.

    The bytes are searched: a record's value that has the same bytes as a header counts, too.
    """
    found = (match[1].decode() for match in _IN_BATCH.finditer(records))
    return sampled_texts(found)


def is_compressed(batch: Buffer) -> bool:
    """Whether the records of a valid batch are compressed."""
    return len(batch) >= HEADER_BYTES and bool(batch[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK)
