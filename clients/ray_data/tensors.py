"""Arrow columns as NumPy arrays and torch tensors. Pure; torch is imported when used."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...runtime.extras import missing_extra
from ..arrow.library import pa


def as_numpy(table: Any) -> dict[str, Any]:
    """A NumPy array per column: numbers, datetime64[us] in UTC, objects for other types."""
    return {name: _array(table.column(name)) for name in table.schema.names}


def as_torch(table: Any) -> dict[str, Any]:
    """A tensor per column: numbers; timestamps as int64 microseconds; bytes as uint8 of shape (rows, length).
    Each has its own writable memory.

    Errors: ValueError for columns with nulls, or bytes of several lengths: convert them with `decode`;
    ImportError without torch.
    """
    try:
        import torch
    except ImportError as error:
        raise missing_extra(error, "tensors", "torch") from error
    found = {}
    for name in table.schema.names:
        column = table.column(name)
        if column.null_count:
            raise ValueError(f"column {name!r} has {column.null_count} nulls: convert it with decode=")
        found[name] = _tensor(torch, name, pa.concat_arrays(column.chunks or [pa.array([], column.type)]))
    return found


def _array(column: Any) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # NumPy has no time zones; it is UTC
    return column.to_numpy()


def _tensor(torch: Any, name: str, array: Any) -> Any:
    """Copied directly: conversion by NumPy would depend on the NumPy version that torch was built for."""
    if pa.types.is_binary(array.type):
        return _bytes(torch, name, array)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if not pa.types.is_integer(array.type):
        raise ValueError(f"column {name!r} has type {array.type}, which has no tensor type: use decode=")
    width = array.type.bit_width // 8
    return _copied(torch, array.buffers()[1], array.offset * width, len(array) * width, str(array.type))


def _bytes(torch: Any, name: str, array: Any) -> Any:
    ends = memoryview(array.buffers()[1]).cast("i")[array.offset :][: len(array) + 1]
    lengths = {last - first for first, last in pairwise(ends)}
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} has bytes of {len(lengths)} lengths: convert them with decode=")
    length = max(lengths, default=0)
    flat = _copied(torch, array.buffers()[2], ends[0] if length else 0, len(array) * length, "uint8")
    return flat.reshape(len(array), length)


def _copied(torch: Any, memory: Any, start: int, size: int, kind: str) -> Any:
    dtype = getattr(torch, kind)
    if not size:  # torch rejects an empty buffer
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(bytearray(memory[start : start + size]), dtype=dtype)
