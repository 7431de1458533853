"""Options by the names of Spark's connector: accepted values, and errors."""

import json
import pickle
from typing import Any

import pytest
from headrace.clients.arrow.library import pa
from headrace.clients.pipeline import offsets_from_json, offsets_to_json, read_options, write_options
from headrace.clients.pipeline.offsets import Position, position_from_json, position_to_json
from headrace.clients.pipeline.sink_options import checked_names
from headrace.clients.pipeline.source_options import Edge, Limits, Subscription
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC = {"subscribe": "t"}


def test_option_names_ignore_case_and_values_are_text_or_typed() -> None:
    """Spark passes all values as text, its data source API in lower case."""
    typed = read_options(
        {
            "bootstrap": ["a:1", "b:2"],
            "assign": {"t": [1, 0]},
            "startingOffsets": {"t": {"0": 5, 1: -2}},
            "endingOffsets": {"t": {"0": -1, "1": 9}},
            "failOnDataLoss": False,
            "minPartitions": 4,
            "maxRecordsPerPartition": 10,
            "includeHeaders": True,
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": 100,
        }
    )
    text = read_options(
        {
            "KAFKA.bootstrap.servers": "a:1,b:2",
            "ASSIGN": '{"t": [0, 1]}',
            "startingoffsets": '{"t": {"0": 5, "1": -2}}',
            "endingoffsets": ' {"t": {"0": -1, "1": 9}}',
            "failondataloss": "FALSE",
            "minpartitions": "4",
            "maxRecordsPerPartition": "10",
            "includeheaders": "true",
            "headrace.isolation.level": "read_committed",
            "headrace.fetch.max.wait.ms": 100,
        }
    )
    assert typed == text
    assert typed.bootstrap == "a:1,b:2"
    assert typed.subscription == Subscription(partitions=(T0, T1))
    assert typed.starting == Edge("startingOffsets", offsets={T0: 5, T1: -2})
    assert typed.is_read_committed
    assert not typed.fail_on_data_loss
    assert pickle.loads(pickle.dumps(typed)) == typed


def test_defaults_are_sparks() -> None:
    """A batch reads all; a stream begins at the end, and fails on loss."""
    batch, stream = read_options(TOPIC), read_options(TOPIC, stream=True)
    assert (batch.starting.offset, batch.ending.offset, stream.starting.offset) == (-2, -1, -1)
    assert batch.fail_on_data_loss
    assert batch.limits == Limits(None, None, 900_000, None)
    assert (batch.fetch_retries, batch.fetch_retry_ms, batch.poll_timeout_ms) == (3, 10, 120_000)
    assert (batch.group_id, batch.group_id_prefix) == (None, "spark-kafka-source")
    assert not batch.is_read_committed


def test_precedence_of_timestamps_and_offsets() -> None:
    """Spark's: timestamps before offsets, one value for all partitions before one each, at both ends."""
    given: dict[str, Any] = {**TOPIC}
    for name, edge in (
        ("Offsets", {"t": {"0": 1}}),
        ("OffsetsByTimestamp", {"t": {"0": 7}}),
        ("Timestamp", 9),
    ):
        given |= {f"starting{name}": edge, f"ending{name}": edge}
        options = read_options(given)
        assert options.starting.option == f"starting{name}"
        assert options.ending.option == f"ending{name}"
    assert (options.starting.timestamp, options.starting.timestamps) == (9, None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "subscribe, subscribePattern, assign"),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "subscribe and assign"),
        ({"subscribe": " , "}, "subscribe"),
        ({"subscribe": "a b"}, "subscribe"),
        ({"subscribe": 5}, "subscribe"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"subscribePattern": ""}, "subscribePattern"),
        ({"assign": "{"}, "assign"),
        ({"assign": "{}"}, "assign"),
        ({"assign": '{"t": [-1]}'}, "assign"),
        ({"assign": '{"t": [true]}'}, "assign"),
        ({"assign": '{"t": 0}'}, "assign"),
        ({"assign": '["t"]'}, "assign"),
        ({**TOPIC, "startingOffsets": "latest"}, "startingOffsets must not be latest"),
        ({**TOPIC, "startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets must not be -1"),
        ({**TOPIC, "endingOffsets": "earliest"}, "endingOffsets must not be earliest"),
        ({**TOPIC, "endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets must not be -2"),
        ({**TOPIC, "startingOffsets": "begin"}, "earliest, latest or JSON"),
        ({**TOPIC, "startingOffsets": '{"t":{"0":-3}}'}, ">= -2"),
        ({**TOPIC, "startingOffsets": '{"t":{"0":1.5}}'}, "startingOffsets"),
        ({**TOPIC, "startingOffsets": '{"t":{"zero":1}}'}, "startingOffsets"),
        ({**TOPIC, "startingOffsets": '{"t":{"0":1,"0":2}}'}, "duplicate"),
        ({**TOPIC, "startingOffsets": '{"t":{"0":99999999999999999999}}'}, "startingOffsets"),
        ({**TOPIC, "startingTimestamp": "-1"}, "startingTimestamp"),
        ({**TOPIC, "startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, ">= 0"),
        ({**TOPIC, "startingOffsetsByTimestampStrategy": "first"}, "error, latest"),
        ({**TOPIC, "failOnDataLoss": "yes"}, "failOnDataLoss must be true or false"),
        ({**TOPIC, "minPartitions": "0"}, "minPartitions must be at least 1"),
        ({**TOPIC, "minPartitions": "two"}, "minPartitions must be a whole number"),
        ({**TOPIC, "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({**TOPIC, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": 4}, "minOffsetsPerTrigger"),
        ({**TOPIC, "startingOfsets": "earliest"}, "'startingOffsets'"),
        ({"topic": "t"}, "did you mean 'subscribe'?"),
        ({"topics": "t"}, "did you mean 'subscribe'?"),
        ({**TOPIC, "kafka.fetch.max.bites": "1"}, "'kafka.fetch.max.bytes'"),
        ({**TOPIC, "kafka.security.protocol": "SSL"}, "needs server.public.key"),
        ({**TOPIC, "isolation.level": "read_committed"}, "did you mean 'kafka.isolation.level'?"),
        ({**TOPIC, "kafka.enable.auto.commit": "true"}, "not supported"),
        ({**TOPIC, "kafka.isolation.level": "none"}, "read_uncommitted, read_committed"),
        ({**TOPIC, "kafka.group.id": " "}, "kafka.group.id"),
        ({**TOPIC, "bootstrap": "a:1", "kafka.bootstrap.servers": "b:1"}, "several bootstrap"),
        ({**TOPIC, "bootstrap": "a:b"}, "bad port"),
        ({**TOPIC, "bootstrap": 9092}, "host:port"),
        ({**TOPIC, "subscribe": "t", "Subscribe": "u"}, "given twice"),
    ],
)
def test_invalid_options_are_errors_with_the_option(given: dict[str, Any], says: str) -> None:
    """Before any request to a cluster."""
    with pytest.raises(ConfigError) as caught:
        read_options(given)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_streams_have_no_end(name: str) -> None:
    """But they may begin at the end."""
    value: Any = {"endingOffsets": "latest", "endingTimestamp": 5}.get(name, {"t": {"0": 5}})
    with pytest.raises(ConfigError, match=name):
        read_options({**TOPIC, name: value}, stream=True)
    assert read_options({**TOPIC, "startingOffsets": "latest"}, stream=True).starting.offset == -1


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("1h", 3_600_000), ("500", 500), ("2min", 120_000), ("3 s", 3000), (7, 7)],
)
def test_spark_durations(text: Any, ms: int) -> None:
    """With a unit, or in ms."""
    assert read_options({**TOPIC, "maxTriggerDelay": text}).limits.max_delay_ms == ms


def test_offsets_json_round_trip() -> None:
    """In Spark's form, sorted: equal offsets give equal text."""
    offsets = {T1: 3, T0: 2**62, TopicPartition("a.b", 10): 0}
    text = offsets_to_json(offsets)
    assert text == '{"a.b":{"10":0},"t":{"0":4611686018427387904,"1":3}}'
    assert offsets_from_json(text) == offsets


def test_positions_json_round_trip() -> None:
    """Spark's form with topic ids; Spark's form alone is a position too, and offsets are read from both."""
    known = Position({T1: 3, T0: 4, TopicPartition("a", 0): 0}, {"t": b"\x0f", "other": b"x"})
    text = position_to_json(known)
    assert text == '{"a":{"0":0},"t":{"0":4,"1":3},"topic ids":{"t":"0f"}}'
    again = position_from_json(text, "it")
    assert (again, again.topic_ids) == (known, {"t": b"\x0f"})
    assert position_to_json(Position()) == "{}"
    assert position_from_json("{}", "it") == position_from_json({"topic ids": {}}, "it") == Position()
    assert position_from_json(offsets_to_json(known), "it").topic_ids == {}
    assert offsets_from_json(text) == known
    assert pickle.loads(pickle.dumps(known)).topic_ids == known.topic_ids


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"t":{"0":-1}}',
        '{"t":{"0":1},"topic ids":[]}',
        '{"t":{"0":1},"topic ids":{"t":1}}',
        '{"t":{"0":1},"topic ids":{"t":"no"}}',
    ],
)
def test_invalid_positions_are_errors(text: str) -> None:
    """The error names the part."""
    with pytest.raises(ConfigError, match="the offset of it"):
        position_from_json(text, "the offset of it")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topik": "t"}, "'topic'"),
        ({"topic": "a b"}, "topic"),
        ({"kafka.acks": "1"}, "kafka.acks must be all"),
        ({"kafka.transactional.id": "x"}, "not supported"),
        ({"subscribe": "t"}, "did you mean 'topic'?"),
        ({"kafka.linger.mz": "1"}, "'kafka.linger.ms'"),
        ({"kafka.compression.type": "zip"}, "compression.type must be one of"),
    ],
)
def test_write_options(given: dict[str, Any], says: str) -> None:
    """As those of a read."""
    with pytest.raises(ConfigError) as caught:
        write_options(given)
    assert says in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**64) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON | st.text(max_size=30))
def test_any_json_is_offsets_or_an_error(value: Any) -> None:
    """Text and parsed values have the same result; no other error is raised."""
    found: list[Any] = []
    for given_ in (value, json.dumps(value)):
        try:
            found.append(offsets_from_json(given_, "startingOffsets"))
        except ConfigError as error:
            assert "startingOffsets" in str(error)  # noqa: PT017 - which option it is about
            found.append(None)
    if not isinstance(value, str):
        assert found[0] == found[1]
    if found[0]:
        assert offsets_from_json(offsets_to_json(found[0])) == found[0]


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.bool_(), pa.struct({"a": pa.int8()})])
def test_column_of_another_type_is_an_error_with_the_cast(field: str, kind: Any) -> None:
    """The error names column and type, the expected type and the casts, not the serdes of producers."""
    columns = {"value": pa.array([], pa.binary()), field: pa.array([], kind)}
    with pytest.raises(TypeError) as result:
        checked_names(pa.table(columns), "t")
    says = str(result.value)
    assert says.startswith(f"column {field!r} has type {kind}: keys and values must be binary or text.")
    assert '.cast("string")' in says
    assert "serde" not in says


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.binary(3), pa.string_view(), pa.null()])
def test_bytes_and_text_columns_of_all_layouts(kind: Any) -> None:
    """As values and as keys."""
    found = checked_names(pa.table({name: pa.array([], kind) for name in ("key", "value")}), "t")
    assert (found.key, found.value, found.partition) == ("key", "value", None)
