"""Spark's names for the columns of the Arrow layout. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """The names of the columns, and Spark's text for their types; None for all, headers only with
    `include_headers`. Errors: TypeError, ValueError for no, unknown or doubled names."""
    names = list(projection(columns).schema.names)
    if columns is None and not include_headers:
        names.remove("headers")
    return names, ", ".join(f"`{name}` {_TYPES[name]}" for name in names)
