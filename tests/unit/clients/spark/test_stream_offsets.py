"""Offsets and limits of micro-batches in Spark's API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from headrace.clients.pipeline import Limits, read_options
from headrace.clients.pipeline.offsets import Position
from headrace.clients.spark.stream_offsets import from_spark, limits_for, to_spark
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "a.b"]), st.integers(0, 12)),
    st.integers(0, 2**63 - 1),
    max_size=30,
)


@dataclass
class ReadAllAvailable: ...


@dataclass
class ReadMaxRows:
    max_rows: int


@dataclass
class ReadMinRows:
    min_rows: int


@dataclass
class ReadMaxBytes:
    max_bytes: int


@dataclass
class ReadMaxFiles:
    max_files: int


@given(OFFSETS, st.dictionaries(st.sampled_from(["a", "b", "c"]), st.binary(max_size=3)), st.randoms())
def test_offsets_round_trip_through_a_checkpoint(
    offsets: dict[TopicPartition, int], ids: dict[str, bytes], random: Any
) -> None:
    """The text does not depend on the order of partitions: Spark compares texts."""
    position = Position(offsets, ids)
    text = json.dumps(to_spark(position))
    again = from_spark(json.loads(text))
    assert (again, again.topic_ids) == (offsets, position.topic_ids)
    shuffled = random.sample(list(offsets.items()), len(offsets))
    other = dict(random.sample(list(ids.items()), len(ids)))
    assert json.dumps(to_spark(Position(dict(shuffled), other))) == text


def test_checkpoints_of_earlier_releases_are_read() -> None:
    """Without topic ids; a pattern may have matched nothing so far."""
    assert from_spark({"t": {"0": 23}}) == {TopicPartition("t", 0): 23}
    assert from_spark({"t": {"0": 23}}).topic_ids == {}
    assert from_spark({}) == {}


@pytest.mark.parametrize("given_", [{"t": 3}, {"t": {"x": 3}}, {"t": {"0": -1}}, {"t": {"0": "3"}}])
def test_offsets_of_another_source_are_errors(given_: Any) -> None:
    """For instance from the checkpoint of another source."""
    with pytest.raises(ConfigError, match="the offset of a checkpoint"):
        from_spark(given_)


def test_limit_of_the_engine_overrides_the_options() -> None:
    """All available offsets if the engine says so; else the limits of the options."""
    options = read_options(
        {
            "subscribe": "t",
            "minOffsetsPerTrigger": "5",
            "maxOffsetsPerTrigger": "70",
            "maxBytesPerTrigger": "9000",
            "maxTriggerDelay": "3s",
        },
        stream=True,
    ).limits
    assert options == Limits(70, 5, 3000, 9000)
    assert limits_for(ReadAllAvailable(), options) == Limits()
    assert limits_for(ReadMaxRows(7), options) == options._replace(max_offsets=7)
    assert limits_for(ReadMinRows(7), options) == options._replace(min_offsets=7)
    assert limits_for(ReadMaxBytes(7), options) == options._replace(max_bytes=7)
    with pytest.raises(ConfigError, match="ReadMaxFiles"):
        limits_for(ReadMaxFiles(7), options)
