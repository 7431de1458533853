"""Contexts in headers and in the bytes of batches; what is not valid is not there."""

import pytest
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.header import HEADER_BYTES
from headrace.runtime.tracing.contexts import (
    MAX_CONTEXTS,
    TraceContext,
    context_of,
    contexts_in,
    sampled_context,
    sampled_texts,
)
from hypothesis import given
from hypothesis import strategies as st

GOOD = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CONTEXT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 1)


@pytest.mark.parametrize(
    ("value", "context"),
    [
        (GOOD, CONTEXT),
        (GOOD[:-2] + b"03", CONTEXT._replace(flags=3)),
        (b"cc" + GOOD[2:] + b"-later", CONTEXT),  # a later version may have more fields
        (GOOD[:-2] + b"00", None),  # not sampled
        (GOOD + b"-later", None),
        (b"ff" + GOOD[2:], None),
        (GOOD.upper(), None),
        (b"00-" + b"0" * 32 + GOOD[35:], None),
        (GOOD[:36] + b"0" * 16 + b"-01", None),
        (b"cc" + GOOD[2:] + b"-" + b"x" * 500, None),
        (GOOD[:-1] + b"\xe9", None),
        (GOOD + b"\n", None),
        (None, None),
        (b"", None),
    ],
)
def test_only_valid_sampled_contexts_count(value: bytes | None, context: TraceContext | None) -> None:
    """W3C Trace Context, 3.2."""
    assert sampled_context(value) == context


def test_last_header_counts() -> None:
    """A record that was forwarded may have several."""
    assert context_of([("traceparent", b"bad"), ("traceparent", GOOD), ("x", b"y")]) == CONTEXT
    assert context_of([("traceparent", GOOD), ("traceparent", b"bad")]) is None


@given(st.text(max_size=60))
def test_any_text_of_a_client_is_checked(text: str) -> None:
    """Requests have them as text."""
    assert sampled_texts([text, GOOD.decode()])[-1:] == (GOOD.decode(),)
    assert sampled_texts([GOOD.decode()] * (MAX_CONTEXTS + 1)) == (GOOD.decode(),) * MAX_CONTEXTS


@given(st.lists(st.tuples(st.sampled_from([GOOD, b"bad", b"", None]), st.binary(max_size=40)), min_size=1))
def test_search_finds_the_contexts_of_the_records(rows: list[tuple[bytes | None, bytes]]) -> None:
    """As decoding the batch would, up to the bound."""
    builder = pick_codec("compiled").builder(max_bytes=1 << 20)
    for context, value in rows:
        builder.append(7, None, value, [("before", value), ("traceparent", context), ("after", None)])
    found = contexts_in(memoryview(builder.build())[HEADER_BYTES:])
    good = [context for context, _ in rows if context == GOOD]
    assert found == (GOOD.decode(),) * min(len(good), MAX_CONTEXTS)
