"""Batches of `format("headrace")`: what is written is read, by columns, filters and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def test_what_is_written_is_read(spark: Any, cluster: Any, topic: Callable[..., str]) -> None:
    """All columns there and back, headers too."""
    name = topic(2)
    rows = spark.range(0, 1000, 1, 1).selectExpr(
        "cast(id as string) as key",
        "cast(id * 2 as string) as value",
        "cast(id % 2 as int) as partition",
        "timestamp_millis(1700000000000 + id) as timestamp",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) as headers",
    )
    at = {"kafka.bootstrap.servers": cluster.bootstrap}
    rows.write.format("headrace").options(**at, topic=name).mode("append").save()
    read = spark.read.format("headrace").options(**at, subscribe=name, includeHeaders="true").load()
    assert [field.name for field in read.schema] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    found = sorted(read.collect(), key=lambda row: int(row.key))
    assert [int(row.key) for row in found] == list(range(1000))
    for number in (0, 999):
        row = found[number]
        assert (row.value, row.topic, row.partition) == (str(2 * number).encode(), name, number % 2)
        assert (row.offset, row.timestampType) == (number // 2, 0)
        assert row.timestamp.timestamp() == 1700000000 + number / 1000
        assert row.headers == [("n", str(number).encode())]
