"""The sampled rows among decoded columns, compared with a search of each record."""

from array import array
from typing import Any

from column_bytes import header_column
from headrace.clients.tracing.sampled_rows import SampledRow, sampled_rows
from headrace.protocol.records.columns import DecodedColumns
from headrace.runtime.tracing.contexts import context_of
from hypothesis import given
from hypothesis import strategies as st

CONTEXT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = CONTEXT[:-1] + b"0"
NAMES = st.sampled_from(
    ("traceparent", "a", "xtraceparent", "traceparents", "tracepar", "traceparen", "ent", "")
)
VALUES = st.sampled_from((CONTEXT, UNSAMPLED, b"", None, b"traceparent", CONTEXT.replace(b"4bf9", b"0bf9")))
ROWS = st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=3), max_size=12)


def decoded(rows: list[list[tuple[str, Any]]]) -> DecodedColumns:
    """Rows with these headers; row n has the offset 10 * n in partition n % 3."""
    count = len(rows)
    partitions, offsets = array("i", [n % 3 for n in range(count)]), array("q", range(0, 10 * count, 10))
    return DecodedColumns(
        count, None, None, partitions, offsets, offsets, partitions, partitions, header_column(rows)
    )


@given(ROWS, st.integers(0, 12), st.integers(1, 4))
def test_sampled_rows_are_those_with_a_sampled_context(rows: Any, first_topic: int, most: int) -> None:
    """Names that only contain the header's, or join to it across two headers, do not count; the last header
    of a row does."""
    cut = min(first_topic, len(rows))
    topics = [("one", cut), ("two", len(rows) - cut)]
    wanted = [
        SampledRow("one" if row < cut else "two", row % 3, 10 * row, context)
        for row, headers in enumerate(rows)
        if (context := context_of(headers)) is not None
    ]
    found = sampled_rows(decoded(rows), topics, 100)
    assert found == wanted
    assert sampled_rows(decoded(rows), topics, most) == wanted[:most]


def test_without_headers_nothing_is_found() -> None:
    """Neither a column that was not decoded, nor rows without headers."""
    assert sampled_rows(decoded([[], []])._replace(headers=None), [("t", 2)], 8) == []
    assert sampled_rows(decoded([[], []]), [("t", 2)], 8) == []
