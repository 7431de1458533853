"""Arrow columns as NumPy arrays and as torch tensors. Pure; torch is imported when it is asked for."""

from __future__ import annotations

from typing import Any

from ..arrow.library import pa


def as_numpy(table: Any) -> dict[str, Any]:
    """A NumPy array for each column: numbers, datetime64[us] in UTC, objects for the others."""
    return {name: _array(table.column(name)) for name in table.schema.names}


def as_torch(table: Any) -> dict[str, Any]:
    """A tensor for each column: numbers; times as int64 microseconds; bytes as uint8 of shape (rows, length).

    Errors: ValueError for columns that have nulls, or bytes of several lengths: shape them by `decode`;
    ImportError without torch.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("tensors need torch, which is not installed here", name="torch") from error
    found = {}
    for name in table.schema.names:
        column = table.column(name)
        if column.null_count:
            raise ValueError(f"column {name!r} has {column.null_count} nulls: shape it by decode=")
        found[name] = torch.as_tensor(_numbers(name, column))
    return found


def _array(column: Any) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # NumPy knows no zones; it is UTC
    return column.to_numpy()


def _numbers(name: str, column: Any) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_binary(column.type):
        return _bytes(name, column)
    elif not pa.types.is_integer(column.type):
        raise ValueError(
            f"column {name!r} has type {column.type}, of which there are no tensors: use decode="
        )
    found = column.to_numpy()
    return found if found.flags.writeable else found.copy()  # torch warns of what it must not write


def _bytes(name: str, column: Any) -> Any:
    import numpy as np

    values = column.to_pylist()
    lengths = {len(value) for value in values}
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} has bytes of {len(lengths)} lengths: shape them by decode=")
    return np.frombuffer(bytearray(b"".join(values)), np.uint8).reshape(len(values), -1)
