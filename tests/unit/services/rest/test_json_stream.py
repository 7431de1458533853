"""Concatenated JSON objects, divided wherever their bytes are cut."""

import json

import pytest
from headrace.services.rest.json_stream import JsonSplitter
from headrace.services.web.problems import Problem
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)


@given(
    st.lists(OBJECTS, max_size=5),
    st.lists(st.integers(0, 200), max_size=20),
    st.sampled_from(["", " ", "\r\n"]),
)
def test_documents_are_those_that_were_joined(objects: list[object], cuts: list[int], space: str) -> None:
    """Whatever the parts are in which the bytes arrive."""
    data = space.join(json.dumps(each, ensure_ascii=bool(cuts)) for each in objects).encode()
    splitter, found, at = JsonSplitter(1 << 20), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += splitter.feed(data[at:cut])
        at = max(at, cut)
    splitter.end()
    assert [json.loads(each) for each in found] == objects


@pytest.mark.parametrize("data", [b'{"a":1}, {"b":2}', b"[1]", b"}", b'"text"', b"null", b"{} x {}"])
def test_text_between_documents(data: bytes) -> None:
    """Only white space may be there."""
    with pytest.raises(Problem) as refused:
        JsonSplitter(100).feed(data)
    assert refused.value.status == 400


@pytest.mark.parametrize("data", [b'{"a":', b'{"a":"', b'{"a":"\\', b" {"])
def test_cut_document(data: bytes) -> None:
    """The end of the stream ends no document."""
    splitter = JsonSplitter(100)
    assert splitter.feed(data) == []
    with pytest.raises(Problem):
        splitter.end()


def test_large_document() -> None:
    """It is refused when the limit is reached, and not held."""
    splitter = JsonSplitter(100)
    splitter.feed(b'{"a":"' + b"x" * 90)
    with pytest.raises(Problem) as refused:
        splitter.feed(b"x" * 20)
    assert refused.value.status == 413
