"""Requests whose lengths exceed their frame do not reach kio, which would allocate memory for them."""

from typing import Any

import pytest
from headrace.protocol.errors import InvalidRequestError
from headrace.services.kafka_listener.calls import KafkaApi
from headrace.services.kafka_listener.entities import layout
from headrace.services.kafka_listener.framing import read_header
from headrace.services.kafka_listener.served import SERVED
from headrace.services.kafka_listener.skimming import MAX_ELEMENTS, MAX_TAGS, no_tags, skim, unsigned, varint
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_wire import decoded, example_request, request_frame

VERSIONS = [(api, version) for api in SERVED.values() for version in range(api.low, api.high + 1)]


def body_of(api: KafkaApi, version: int) -> tuple[Any, bytes]:
    """An example of a request, and its layout."""
    frame = memoryview(request_frame(api.key, version, example_request(api.key, version)))
    shape = layout(api.key, version)
    end = read_header(frame).end
    return shape, bytes(frame[no_tags(frame, end) if shape.is_flexible else end :])


@settings(max_examples=400)
@given(st.sampled_from(VERSIONS), st.data())
def test_damaged_requests_are_refused_or_read(which: tuple[KafkaApi, int], data: st.DataObject) -> None:
    """Any byte changed, cut or added: InvalidRequestError or a request, with bounded memory."""
    api, version = which
    shape, body = body_of(api, version)
    place = data.draw(st.integers(0, len(body)))
    patch = data.draw(st.binary(max_size=6) | st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"]))
    cut = data.draw(st.integers(0, 8))
    damaged = memoryview(body[:place] + patch + body[place + cut :])
    try:
        decoded(shape, damaged)
    except InvalidRequestError:
        return
    assert skim(shape.request, damaged, 0).end <= len(damaged)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("count", [MAX_ELEMENTS + 1, 2**31 - 1, 2**32 - 2])
def test_arrays_are_bounded(version: int, count: int) -> None:
    """By MAX_ELEMENTS, and by the bytes of the frame."""
    if version == 8 and count > 2**31 - 1:
        return
    head = count.to_bytes(4, "big") if version == 8 else compact(count)
    with pytest.raises(InvalidRequestError, match="elements"):
        decoded(layout(3, version), memoryview(head + bytes(3 * MAX_ELEMENTS)))


def compact(count: int) -> bytes:
    """Kafka's unsigned varint of one more."""
    return unsigned(count + 1)


@given(st.integers(0, 2**35 - 1))
def test_unsigned_varints_round_trip(value: int) -> None:
    """Seven bits per byte."""
    data = unsigned(value)
    assert varint(memoryview(data + b"\xff"), 0) == (value, len(data))


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (2, 7, b"\xff\xff\xff\xff\0\0\0\0\1\0\1t\xff\xff\xff\xff"),  # ListOffsets: no partitions
        (10, 5, b"\0\0\0"),  # FindCoordinator: no keys
        (3, 8, b"\xff\xff\xff\xfe\0\0\0"),  # Metadata: topics may be null, there are not -2 of them
        (20, 4, b"\0\0\0\1\xff\xff\0\0\0\0"),  # DeleteTopics: a name
        (0, 8, b"\xff\xfe" + bytes(10)),  # Produce: transactional id of -2 bytes
    ],
)
def test_null_in_non_nullable_arrays_is_refused(api_key: int, version: int, body: bytes) -> None:
    """kio accepts null arrays everywhere; handlers do not."""
    with pytest.raises(InvalidRequestError, match="null"):
        decoded(layout(api_key, version), memoryview(body))


def test_elements_of_all_arrays_are_counted_together() -> None:
    """Many small arrays are as much as a large one."""
    topic = b"\2t" + compact(1_000) + bytes(1_000 * 4) + b"\0"
    schema = layout(9, 6).request
    small = b"\2g" + compact(2) + topic * 2 + b"\0"
    assert skim(schema, memoryview(small), 0).end == len(small)
    with pytest.raises(InvalidRequestError, match="elements"):
        skim(schema, memoryview(b"\2g" + compact(300) + topic * 300 + b"\0"), 0)


def test_elements_are_counted_before_decoding() -> None:
    """With nested elements; memory is charged by them."""
    topic = b"\2t" + compact(3) + bytes(3 * 4) + b"\0"
    body = memoryview(b"\2g" + compact(2) + topic * 2 + b"\0")
    shape = layout(9, 6)
    assert shape.skim(body, 0).elements == 8
    assert shape.skim(body, 0, 8).elements == 8
    with pytest.raises(InvalidRequestError, match="more than 7 elements"):
        shape.skim(body, 0, 7)


def test_strings_are_bounded() -> None:
    """A compact string may claim any length; Kafka allows 32767 bytes in both encodings."""
    for size in (2**15 - 1, 2**15):
        body = memoryview(compact(1) + compact(size) + bytes(size) + b"\0\0\0\0" + b"\0")
        if size < 2**15:
            assert layout(3, 9).skim(body, 0).elements == 1
        else:
            with pytest.raises(InvalidRequestError, match="string of 32768 bytes"):
                layout(3, 9).skim(body, 0)


def test_tagged_fields_are_bounded() -> None:
    """As in Kafka; unknown ones are skipped, known ones read."""
    with pytest.raises(InvalidRequestError, match="tagged"):
        no_tags(memoryview(compact(MAX_TAGS) + bytes(2 * MAX_TAGS + 2)), 0)
    fetch = layout(1, 12)
    _, body = body_of(SERVED[1], 12)
    assert body[-1:] != b"\0", "the example has the tagged cluster id"
    lying = body.replace(b"\1\0\5\5text", b"\1\0\5\x7ftext")
    assert lying != body
    with pytest.raises(InvalidRequestError):
        decoded(fetch, memoryview(lying))


NEW = b"\x63\3abc"  # tag 99, of three bytes


def test_unknown_tagged_fields_are_ignored() -> None:
    """In the body and in nested structures, also twice; kio would refuse them."""
    metadata = layout(3, 9)
    plain = b"\3" + b"\2t\0" + b"\2u\0" + b"\0\0\0" + b"\0"
    newer = b"\3" + b"\2t\1" + NEW + b"\2u\0" + b"\0\0\0" + b"\2" + NEW + NEW
    assert decoded(metadata, memoryview(newer), 0) == decoded(metadata, memoryview(plain), 0)
    assert decoded(metadata, memoryview(b"head" + newer), 4) == decoded(metadata, memoryview(plain), 0)


def test_unknown_tagged_fields_beside_known_ones() -> None:
    """A Fetch has the cluster id and the replica state as tagged fields."""
    fetch = layout(1, 15)
    _, body = body_of(SERVED[1], 15)
    tags = b"\2\0\5\5text\1\x0d" + (3).to_bytes(4, "big") + (3).to_bytes(8, "big") + b"\0"
    assert body.endswith(tags), body
    state = tags[10:22] + b"\1" + NEW
    newer = b"\3\0\5\5text\1" + bytes([len(state)]) + state + NEW
    assert decoded(fetch, memoryview(body[: -len(tags)] + newer)) == decoded(fetch, memoryview(body))


@pytest.mark.parametrize(
    ("tags", "end"), [(b"\0", 1), (b"\1\0\0", 3), (b"\2\0\2ab\1\0", 7), (b"\1\0\x80\0", 4)]
)
def test_tags_of_the_header_are_skipped(tags: bytes, end: int) -> None:
    """Newer clients may add some."""
    assert no_tags(memoryview(tags + b"rest"), 0) == end


@pytest.mark.parametrize(
    "tags", [b"", b"\x80", b"\1", b"\1\0\5ab", b"\xff\xff\xff\xff\xff\1", b"\xff\xff\xff\xff\x07"]
)
def test_invalid_tags_are_refused(tags: bytes) -> None:
    """A count or a length beyond the frame."""
    with pytest.raises(InvalidRequestError):
        no_tags(memoryview(tags), 0)
