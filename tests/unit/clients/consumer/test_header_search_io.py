"""The compiled search for headers is the one in Python."""

import pytest
from headrace.clients.consumer.header_search_io import python_with_header
from headrace.protocol.records._batch import with_header
from headrace.protocol.records.codec import pick_codec
from hypothesis import given
from hypothesis import strategies as st

names = st.sampled_from(["traceparent", "tracestate", "", "x"])
rows = st.lists(st.lists(st.tuples(names, st.none() | st.binary(max_size=3)), max_size=3), min_size=1)


@given(rows, st.integers(-1, 5), st.booleans())
def test_both_find_the_same_records(
    rows: list[list[tuple[str, bytes | None]]], start: int, is_replaced: bool
) -> None:
    """Of the codec, of interceptors, and of both codecs."""
    builder = pick_codec("compiled").builder(max_bytes=1 << 20)
    for headers in rows:
        builder.append(1, None, b"v", headers)
    data = builder.build()
    for name in ("compiled", "python"):
        records = list(pick_codec(name).decode(data))
        if is_replaced:
            records = [record.replace(value=b"w") for record in records]
        found = with_header(records, "traceparent", start)
        assert found == python_with_header(records, "traceparent", start)
        wanted = [place for place, row in enumerate(rows) if "traceparent" in dict(row)]
        assert found == [place for place in wanted if place >= start]


def test_record_of_another_kind_raises_its_error() -> None:
    """As in Python."""
    with pytest.raises(AttributeError):
        with_header([object()], "traceparent", 0)
