"""Offsets and limits of micro-batches, as Spark hands them over. Pure, and without Spark: limits are known by
the names of their classes and fields.

Source: pyspark.sql.streaming.datasource.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ..pipeline.offsets import position_from_json, position_of, position_to_json
from ..pipeline.source_options import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ..pipeline.offsets import Position


def to_spark(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """{"topic": {"0": 23}}, and the ids of topics if they are known, in one order: Spark compares offsets as
    text."""
    found: dict[str, Any] = json.loads(position_to_json(position_of(offsets)))
    return found


def from_spark(given: Mapping[str, Any]) -> Position:
    """Of `to_spark`, perhaps out of a checkpoint, also one without ids. Errors: ConfigError for what has
    another form."""
    return position_from_json(given, "the offset of a checkpoint")


def limits_for(limit: Any, options: Limits) -> Limits:
    """Of a micro-batch: all that there is, if the engine says so; else what it says, and what the options say
    beside that, for the engine knows only one of these. Errors: ConfigError for other limits."""
    name = type(limit).__name__
    if name == "ReadAllAvailable":
        return Limits()
    if name == "ReadMaxRows":
        return options._replace(max_offsets=limit.max_rows)
    if name == "ReadMaxBytes":
        return options._replace(max_bytes=limit.max_bytes)
    if name == "ReadMinRows":
        return options._replace(min_offsets=limit.min_rows)
    raise ConfigError(f"a micro-batch of topics cannot be limited by {name}")
