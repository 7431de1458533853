"""What there is one of for every record: its future's fields, and its size. Compiled where the codec is."""

from __future__ import annotations

from array import array
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from ...protocol.records.environment_io import codec_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .delivery_io import Delivery

__all__ = ["PythonRecordFacts", "RecordFacts", "plain_sizes", "python_plain_sizes"]


class PythonRecordFacts:
    """Five slots: the batch's delivery, the place in it, and what the user gave. Sizes are -1 for null."""

    __slots__ = ("_index", "_key_size", "_timestamp", "_value_size", "delivery")

    def __init__(
        self, delivery: Delivery, index: int, timestamp: int, key_size: int, value_size: int
    ) -> None:
        self.delivery, self._index, self._timestamp = delivery, index, timestamp
        self._key_size, self._value_size = key_size, value_size


def python_plain_sizes(values: list[Any], start: int, max_bytes: int) -> Sequence[int]:
    """The sizes of the values from `start` on, up to the first that is not bytes of at most `max_bytes`."""
    fit = takewhile(
        lambda value: type(value) is bytes and len(value) <= max_bytes, islice(values, start, None)
    )
    return array("i", map(len, fit))


if TYPE_CHECKING:
    RecordFacts: TypeAlias = PythonRecordFacts
    plain_sizes = python_plain_sizes
elif codec_choice() == "python":
    RecordFacts, plain_sizes = PythonRecordFacts, python_plain_sizes
else:
    try:
        from ...protocol.records._batch import RecordFacts, plain_sizes
    except ModuleNotFoundError:  # not built: whoever asks for the codec is told so, with what to do
        RecordFacts, plain_sizes = PythonRecordFacts, python_plain_sizes
