"""Spark's types of the columns."""

import pytest
from headrace.clients.spark.schemas import schema_of


def test_requested_columns() -> None:
    """All but the headers, all, or some in their order."""
    names, schema = schema_of(None, include_headers=False)
    assert names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert schema.startswith("`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint")
    assert schema_of(None, include_headers=True)[0] == [*names, "headers"]
    assert schema_of(["offset", "key"], include_headers=False) == (
        ["offset", "key"],
        "`offset` bigint, `key` binary",
    )


def test_unknown_columns_are_errors() -> None:
    """As with Arrow."""
    with pytest.raises(ValueError, match="unknown column 'size'"):
        schema_of(["size"], include_headers=False)
