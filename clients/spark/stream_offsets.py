"""Offsets and limits of micro-batches, as Spark hands them over. Pure, and without Spark: limits are known by
the names of their classes and fields.

Source: pyspark.sql.streaming.datasource.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ..pipeline.offsets import offsets_from_json, offsets_to_json
from ..pipeline.source_options import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ..pipeline.offsets import Offsets


def to_spark(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """{"topic": {"0": 23}}, in one order: Spark compares offsets as text."""
    found: dict[str, dict[str, int]] = json.loads(offsets_to_json(offsets))
    return found


def from_spark(given: Mapping[str, Any]) -> Offsets:
    """Of `to_spark`, perhaps out of a checkpoint. Errors: ConfigError for what has another form."""
    # A pattern may have matched nothing so far.
    return offsets_from_json(given, "the offset of a checkpoint", low=0) if given else {}


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
