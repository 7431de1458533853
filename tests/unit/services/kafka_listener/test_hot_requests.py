"""The hand-written decoding of Produce and Fetch equals kio's, or leaves the request to kio."""

import dataclasses
import datetime
import uuid
from typing import Any, get_args

import pytest
from headrace.services.kafka_listener.entities import id_of, layout, ms_of
from headrace.services.kafka_listener.hot_requests import HOT_REQUESTS
from headrace.services.kafka_listener.served import SERVED
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_wire import decoded, example_request, written
from kio.index import load_request_schema

PRODUCE, FETCH = 0, 1
MS = datetime.timedelta(milliseconds=1)
VERSIONS = [
    (key, version) for key in (PRODUCE, FETCH) for version in range(SERVED[key].low, SERVED[key].high + 1)
]
SHORTS, INTS = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=200)
IDS = st.uuids()
TIMES = st.integers(0, 2**31 - 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "transactional_id": st.none() | NAMES,
    "acks": SHORTS,
    "timeout": TIMES.map(MS.__mul__),
    "max_wait": TIMES.map(MS.__mul__),
    "name": NAMES,
    "topic": NAMES,
    "topic_id": IDS,
    "index": INTS,
    "records": st.binary(max_size=400),
    "replica_id": INTS,
    "min_bytes": INTS,
    "max_bytes": INTS,
    "isolation_level": st.integers(-128, 127),
    "session_id": INTS,
    "session_epoch": INTS,
    "partition": INTS,
    "current_leader_epoch": INTS,
    "fetch_offset": LONGS,
    "last_fetched_epoch": INTS,
    "log_start_offset": LONGS,
    "partition_max_bytes": INTS,
    "rack_id": NAMES,
}
ARRAYS = ("topic_data", "partition_data", "topics", "partitions", "forgotten_topics_data")


def drawn(draw: st.DrawFn, schema: Any) -> Any:
    """An entity without tagged fields."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        if "tag" in field.metadata:
            continue
        if field.name not in ARRAYS:
            values[field.name] = draw(FIELDS[field.name])
            continue
        inner = get_args(field.type)[0]
        if dataclasses.is_dataclass(inner):
            values[field.name] = tuple(drawn(draw, inner) for _ in range(draw(st.integers(0, 3))))
        else:
            values[field.name] = tuple(draw(st.lists(INTS, max_size=3)))
    return schema(**values)


def same(hot: Any, kio: Any) -> None:
    """All that the handlers ask for."""
    if isinstance(kio, datetime.timedelta):
        assert hot == ms_of(kio)
    elif isinstance(kio, uuid.UUID):
        assert hot == id_of(kio)
    elif isinstance(kio, tuple):
        assert len(hot) == len(kio)
        for one, other in zip(hot, kio, strict=True):
            same(one, other)
    elif dataclasses.is_dataclass(kio):
        for field in dataclasses.fields(kio):
            if field.name not in ("replica_id", "log_start_offset") and "tag" not in field.metadata:
                same(getattr(hot, field.name), getattr(kio, field.name))
    else:
        assert hot == (b"\0" * 16 if kio is None and isinstance(hot, bytes) and len(hot) == 16 else kio)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@given(data=st.data())
@settings(max_examples=20)
def test_decoding_equals_kio(key: int, version: int, data: st.DataObject) -> None:
    """Any field values, at any position of the body in its frame."""
    entity = data.draw(st.composite(drawn)(load_request_schema(key, version)))
    frame = memoryview(b"head" + written(entity) + b"behind")
    same(HOT_REQUESTS[key](version)(frame, 4), entity)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@given(data=st.data())
@settings(max_examples=20)
def test_damaged_requests_are_left_to_kio_or_equal(key: int, version: int, data: st.DataObject) -> None:
    """Without an error, and without more objects than kio makes."""
    entity = data.draw(st.composite(drawn)(load_request_schema(key, version)))
    frame = bytearray(written(entity))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    damaged = memoryview(bytes(frame[: len(frame) - cut * data.draw(st.integers(0, 1))]))
    hot = HOT_REQUESTS[key](version)(damaged, 0)
    if hot is not None:
        whole = layout(key, version)._replace(read_hot=None)
        same(hot, decoded(whole, damaged))


@pytest.mark.parametrize(
    ("key", "version", "count"), [(0, 9, 1001), (0, 8, 1001), (1, 11, 1001), (1, 12, 1001)]
)
def test_many_elements_are_left_to_the_general_decoder(key: int, version: int, count: int) -> None:
    """It counts them first."""
    announced = b"\xea\x07" if version >= (9 if key == 0 else 12) else (1001).to_bytes(4, "big")
    none = b"\0" if version >= 9 else b"\xff\xff"
    head = (none + bytes(6)) if key == 0 else bytes(4 + 13 + 8)
    frame = memoryview(head + announced + bytes(50_000))
    assert HOT_REQUESTS[key](version)(frame, 0) is None


def test_partitions_of_all_topics_are_counted_together() -> None:
    """Two topics share the limit, and the count equals that of the general decoder."""
    shape = layout(FETCH, 12)
    for each, is_few in ((500, True), (501, False)):
        partitions = [example_request(FETCH, 12).topics[0].partitions[0]] * each
        topic = dataclasses.replace(example_request(FETCH, 12).topics[0], partitions=tuple(partitions))
        made = dataclasses.replace(drawn_example(FETCH, 12), topics=(topic, topic))
        skimmed = shape.skim(memoryview(written(made)), 0)
        assert (skimmed.body is not None) is is_few
        assert skimmed.elements == 2 + 2 * each


@pytest.mark.parametrize("version", [3, 9, 13])
def test_null_records_are_left_to_kio(version: int) -> None:
    """A Produce partition with null records."""
    body = example_request(PRODUCE, version, records=None, transactional_id=None)
    assert HOT_REQUESTS[PRODUCE](version)(memoryview(written(body)), 0) is None


@pytest.mark.parametrize(("key", "version"), [(0, 9), (1, 12), (1, 18)])
def test_tagged_fields_are_left_to_kio(key: int, version: int) -> None:
    """The hand-written decoder knows none."""
    frame = written(drawn_example(key, version))
    assert HOT_REQUESTS[key](version)(memoryview(frame), 0) is not None
    tagged = frame[:-1] + b"\x01\x63\x01x"
    assert HOT_REQUESTS[key](version)(memoryview(tagged), 0) is None


def drawn_example(key: int, version: int) -> Any:
    """An entity whose tagged fields have their defaults, which are not written."""
    made = example_request(key, version)
    plain = {f.name: getattr(made, f.name) for f in dataclasses.fields(made) if "tag" not in f.metadata}
    if key == FETCH:
        plain |= {"topics": (), "forgotten_topics_data": ()}
    return type(made)(**plain)
