"""Records of concatenated JSON objects: many at once, and one at a time, give the same."""

import json
from typing import Any

import msgspec
import pytest
from headrace.services.rest.record_stream import RecordStream
from headrace.services.web.problems import Problem
from hypothesis import given
from hypothesis import strategies as st


class Thing(msgspec.Struct):
    """A record."""

    data: msgspec.Raw
    n: int = 0


# Text that looks like the end of an object and the begin of the next one.
TEXT = st.text(st.sampled_from('}{",:\\ \n\u00e4a'), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def fed(data: bytes, cuts: list[int]) -> list[Any]:
    """What a stream gives for the bytes in these parts: data, or the status of a problem."""
    stream, found, at = RecordStream(Thing, 1 << 20), list[Any](), 0
    for cut in [*sorted(cuts), len(data)]:
        found += stream.feed(data[at:cut])
        at = max(at, cut)
    stream.end()
    return [each.status if isinstance(each, Problem) else json.loads(bytes(each.data)) for each in found]


@given(
    st.lists(VALUES, max_size=5), st.lists(st.integers(0, 200), max_size=6), st.sampled_from(["", " \r\n"])
)
def test_records_are_those_that_were_joined(values: list[object], cuts: list[int], space: str) -> None:
    """Whatever text they have, and wherever their bytes are cut."""
    data = space.join(json.dumps({"data": each}, ensure_ascii=False) for each in values).encode()
    assert fed(data, cuts) == values


@pytest.mark.parametrize("cuts", [[], [20], [45], [1, 2, 3, 30, 50]])
def test_malformed_record_is_one_problem(cuts: list[int]) -> None:
    """The records around it are not affected, in whatever parts they arrive."""
    data = b'{"data":1}{"data":2,"n":"x"}{"data":nonsense}{"data":[{}{}]}{"data":"\xff"}{"data":"}{"}'
    assert fed(data, cuts) == [1, 422, 400, 400, 400, "}{"]


@pytest.mark.parametrize(
    "data", [b'{"data":1},{"data":2}', b'{"data":"}{"},{"data":2}', b'[{"data":1}]', b"1"]
)
def test_text_between_records(data: bytes) -> None:
    """It ends the stream, also where the number of records would be right by chance."""
    with pytest.raises(Problem, match="one after the other"):
        fed(data, [])


def test_large_record() -> None:
    """It is refused when the limit is reached; many small ones are no large one."""
    stream = RecordStream(Thing, 100)
    assert len(stream.feed(b'{"data":1}' * 50)) == 50
    stream.feed(b'{"data":"' + b"x" * 80)
    with pytest.raises(Problem) as refused:
        stream.feed(b"x" * 20)
    assert refused.value.status == 413
