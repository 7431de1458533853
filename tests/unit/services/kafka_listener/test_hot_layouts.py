"""The hand-written encoding of Produce and Fetch responses equals kio's, byte for byte."""

from typing import Any

import pytest
from headrace.services.kafka_listener.entities import Records, Sink, kio_layout
from headrace.services.kafka_listener.hot_layouts import HOT_LAYOUTS
from headrace.services.kafka_listener.served import SERVED
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema

PRODUCE, FETCH = 0, 1
SHORTS, INTS, LONGS = st.integers(0, 120), st.integers(-1, 2**31 - 1), st.integers(-1, 2**63 - 1)
NAMES = st.text(max_size=200)
IDS = st.binary(min_size=16, max_size=16)
LEADERS = st.fixed_dictionaries({"leader_id": st.integers(0, 2**31 - 1), "leader_epoch": INTS})
NODES = st.lists(
    st.fixed_dictionaries({"node_id": INTS, "host": NAMES, "port": INTS, "rack": st.none() | NAMES}),
    max_size=3,
)


def topics(partitions: str, partition: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Topics as answers have them, by name and by id."""
    parts = st.lists(partition, max_size=4)
    both = {"topic": NAMES, "name": NAMES, "topic_id": IDS, partitions: parts}
    return st.lists(st.fixed_dictionaries(both), max_size=3)


RECORD_ERRORS = st.fixed_dictionaries({"batch_index": INTS, "batch_index_error_message": st.none() | NAMES})
PRODUCED = st.fixed_dictionaries(
    {
        "index": INTS,
        "error_code": SHORTS,
        "base_offset": LONGS,
        "log_append_time": st.integers(-1, 2**41),
        "record_errors": st.just(()) | st.lists(RECORD_ERRORS, max_size=3),
    },
    optional={"log_start_offset": LONGS, "error_message": st.none() | NAMES, "current_leader": LEADERS},
)
ABORTED = st.lists(st.fixed_dictionaries({"producer_id": LONGS, "first_offset": LONGS}), max_size=3)
FETCHED = st.fixed_dictionaries(
    {
        "partition_index": INTS,
        "error_code": SHORTS,
        "high_watermark": LONGS,
        "aborted_transactions": st.none() | ABORTED,
        "records": st.lists(st.binary(max_size=300), max_size=3),
    },
    optional={
        "last_stable_offset": LONGS,
        "log_start_offset": LONGS,
        "preferred_read_replica": INTS,
        "current_leader": LEADERS,
        "diverging_epoch": st.fixed_dictionaries({"epoch": st.integers(0, 9), "end_offset": LONGS}),
    },
)
ANSWERS = {
    PRODUCE: st.fixed_dictionaries(
        {"responses": topics("partition_responses", PRODUCED), "node_endpoints": NODES}
    ),
    FETCH: st.fixed_dictionaries(
        {"error_code": SHORTS, "responses": topics("partitions", FETCHED), "node_endpoints": NODES},
        optional={"session_id": INTS, "throttle_time": st.integers(0, 9_999)},
    ),
}
VERSIONS = [(key, version) for key in HOT_LAYOUTS for version in range(SERVED[key].low, SERVED[key].high + 1)]


def prepared(answer: dict[str, Any]) -> dict[str, Any]:
    """With records as handlers give them."""
    for topic in answer["responses"]:
        for partition in topic.get("partitions", ()):
            partition["records"] = Records(partition["records"])
    return answer


def written(write: Any, answer: dict[str, Any]) -> bytes:
    sink = Sink()
    sink.write(b"")
    write(sink, answer)
    return b"".join(map(bytes, sink.framed()))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_encoding_equals_kio(key: int, version: int) -> None:
    """All versions, with any response that handlers give."""
    hot = HOT_LAYOUTS[key](version)
    kio = kio_layout(load_response_schema(key, version))

    @settings(max_examples=40)
    @given(ANSWERS[key])
    def check(answer: dict[str, Any]) -> None:
        prepared(answer)
        assert written(hot, answer) == written(kio, answer)

    check()
