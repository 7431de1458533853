"""Spark types of the columns of the Arrow layout. Pure."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..arrow.layout import projection

if TYPE_CHECKING:
    from collections.abc import Iterable

_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}


def schema_of(columns: Iterable[str] | None, *, include_headers: bool) -> tuple[list[str], str]:
    """The names of the columns and their types as Spark DDL; None for all columns, headers only with
    `include_headers`. Errors: TypeError, ValueError for empty, unknown or duplicate names."""
    names = list(projection(columns).schema.names)
    if columns is None and not include_headers:
        names.remove("headers")
    return names, ", ".join(f"`{name}` {_TYPES[name]}" for name in names)


def struct_of(names: Iterable[str]) -> Any:
    """Columns as a pyspark StructType: parsing DDL costs PySpark 3.5 10 ms of JVM calls."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(projection(names).schema)


def arrow_schema(schema: Any) -> Any:
    """A pyspark StructType as an Arrow schema. PySpark 4 needs the time zone of timestamps."""
    from pyspark.sql.pandas.types import to_arrow_schema

    is_asked = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, **({"timezone": "UTC"} if is_asked else {}))


def checked_columns(schema: Any) -> list[str]:
    """The column names of a pyspark StructType with columns of the layout. Errors: TypeError, ValueError."""
    found = arrow_schema(schema)
    wanted = projection(found.names).schema
    for name in found.names:
        if not found.field(name).type.equals(wanted.field(name).type):
            raise TypeError(
                f"column {name!r} must be {_TYPES[name]}, not {schema[name].dataType.simpleString()}"
            )
    return list(found.names)
