"""The sampled records among decoded rows, found in the bytes of their headers. Pure.

The names of all headers are one buffer: a search in it costs nothing for rows without headers, and makes no
object for rows that are not sampled.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.columns import items
from ...runtime.tracing.contexts import TRACEPARENT, TraceContext, sampled_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.records.columns import DecodedColumns, HeaderColumn

_BYTES = TRACEPARENT.encode()
# Finds places that overlap, too: a name may begin with the last letter of what looks like one before.
_NAME = re.compile(_BYTES[:1] + b"(?=" + _BYTES[1:] + b")")


class SampledRow(NamedTuple):
    """A record with the context of its producer."""

    topic: str
    partition: int
    offset: int
    context: TraceContext


def sampled_rows(decoded: DecodedColumns, topics: Sequence[tuple[str, int]], most: int) -> list[SampledRow]:
    """The first `most` sampled rows; `topics` are runs of (name, rows). Of several contexts of a row the last
    one counts."""
    if decoded.headers is None:
        return []
    found: dict[int, TraceContext] = {}
    for row, context in _contexts(decoded.headers):
        if len(found) >= most and row not in found:
            break
        if context is None:
            found.pop(row, None)
        else:
            found[row] = context
    partitions, offsets = items(decoded.partitions, "i"), items(decoded.offsets, "q")
    names = _Names(topics)
    return [
        SampledRow(names.of(row), partitions[row], offsets[row], context) for row, context in found.items()
    ]


def _contexts(headers: HeaderColumn) -> Iterator[tuple[int, TraceContext | None]]:
    """Rows that have the header, ascending, with its context if that is sampled."""
    keys, values = headers.keys, headers.values
    if not len(memoryview(keys.data)):
        return
    key_offsets, value_offsets = items(keys.offsets, "i"), items(values.offsets, "i")
    row_offsets, data = items(headers.offsets, "i"), items(values.data, "B")
    for match in _NAME.finditer(keys.data):
        pair = bisect_right(key_offsets, match.start()) - 1
        if key_offsets[pair] == match.start() and key_offsets[pair + 1] == match.start() + len(_BYTES):
            value = bytes(data[value_offsets[pair] : value_offsets[pair + 1]])
            yield bisect_right(row_offsets, pair) - 1, sampled_context(value)


class _Names:
    """The topic of each row."""

    def __init__(self, runs: Sequence[tuple[str, int]]) -> None:
        self._names = [name for name, _ in runs]
        self._starts = [0]
        for _, rows in runs:
            self._starts.append(self._starts[-1] + rows)

    def of(self, row: int) -> str:
        return self._names[bisect_right(self._starts, row) - 1]
