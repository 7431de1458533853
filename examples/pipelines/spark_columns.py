"""An access log as columns of Spark, for both of its lines: records to hits, sessions to records and back."""

from __future__ import annotations

import json
from typing import Any

from access_log import ASSET_PATTERN, PATTERN, SPARK_TIME, Session
from pyspark.sql import functions as f


def hits_of(records: Any) -> Any:
    """client, time, path, status, size of each request; `records` has its line as `value`."""
    line = f.col("value").cast("string")
    parts = {
        name: f.regexp_extract(line, PATTERN, place)
        for place, name in enumerate(("client", "text", "path", "code", "bytes"), start=1)
    }
    return (
        records.select(*(part.alias(name) for name, part in parts.items()))
        .where("client <> ''")
        .select(
            "client",
            f.to_timestamp("text", SPARK_TIME).alias("time"),
            "path",
            f.col("code").cast("int").alias("status"),
            f.when(f.col("bytes") == "-", "0").otherwise(f.col("bytes")).cast("long").alias("size"),
        )
    )


def is_page() -> Any:
    """As `Hit.is_page`."""
    return (f.col("status") == 200) & ~f.col("path").rlike(ASSET_PATTERN)


def as_records(sessions: Any, *more: str) -> Any:
    """key and value from client, start, end, hits, size, and `more` columns of the value."""
    times = [f.unix_millis(name).alias(name) for name in ("start", "end")]
    value = f.to_json(f.struct(*times, "hits", "size", *more))
    return sessions.select(f.col("client").cast("binary").alias("key"), value.alias("value"))


def session_of(row: Any) -> Session:
    """Out of a record."""
    value = json.loads(bytes(row.value))
    return Session(bytes(row.key).decode(), value["start"], value["end"], value["hits"], value["size"])
