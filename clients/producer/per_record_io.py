"""Per-record operations, compiled where the codec is: the future of a record, and sizes of values."""

from __future__ import annotations

from array import array
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from ...protocol.records.environment_io import codec_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["compiled_twin", "plain_sizes", "python_plain_sizes"]


def python_plain_sizes(values: list[Any], start: int, max_bytes: int) -> Sequence[int]:
    """The sizes of the values from `start` on, up to the first that is not bytes of at most `max_bytes`."""
    fit = takewhile(
        lambda value: type(value) is bytes and len(value) <= max_bytes, islice(values, start, None)
    )
    return array("i", map(len, fit))


def _itself(readable: type) -> type:
    """`compiled_twin` without the compiled codec."""
    return readable


if TYPE_CHECKING or codec_choice() == "python":
    compiled_twin, plain_sizes = _itself, python_plain_sizes
else:
    try:
        from ...protocol.records._batch import adopt as compiled_twin
        from ...protocol.records._batch import plain_sizes
    except ModuleNotFoundError:  # not built: `pick_codec` raises the error
        compiled_twin, plain_sizes = _itself, python_plain_sizes
