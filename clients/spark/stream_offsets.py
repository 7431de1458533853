"""Offsets and limits of micro-batches in Spark's form. Pure: limits are matched by the names of their classes
and fields, without importing Spark.

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
    """{"topic": {"0": 23}} and known topic ids, sorted: Spark compares offsets as text."""
    found: dict[str, Any] = json.loads(position_to_json(position_of(offsets)))
    return found


def from_spark(given: Mapping[str, Any]) -> Position:
    """The inverse of `to_spark`, also for checkpoints without topic ids. Errors: ConfigError for another
    form."""
    return position_from_json(given, "the offset of a checkpoint")


def limits_for(limit: Any, options: Limits) -> Limits:
    """The limits of a micro-batch: none if the engine requests all records; else its limit together with
    those of the options, as the engine passes only one of them. Errors: ConfigError for other limits."""
    name = type(limit).__name__
    if name == "ReadAllAvailable":
        return Limits()
    if name == "ReadMaxRows":
        return options._replace(max_offsets=limit.max_rows)
    if name == "ReadMaxBytes":
        return options._replace(max_bytes=limit.max_bytes)
    if name == "ReadMinRows":
        return options._replace(min_offsets=limit.min_rows)
    raise ConfigError(f"the read limit {name} is not supported")
