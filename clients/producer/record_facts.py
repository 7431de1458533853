"""The fields of a record's future: compiled where the codec is, because there is one for every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.environment_io import codec_choice

if TYPE_CHECKING:
    from .delivery_io import Delivery

__all__ = ["PythonRecordFacts", "RecordFacts"]


class PythonRecordFacts:
    """Five slots: the batch's delivery, the place in it, and what the user gave. Sizes are -1 for null."""

    __slots__ = ("_index", "_key_size", "_timestamp", "_value_size", "delivery")

    def __init__(
        self, delivery: Delivery, index: int, timestamp: int, key_size: int, value_size: int
    ) -> None:
        self.delivery, self._index, self._timestamp = delivery, index, timestamp
        self._key_size, self._value_size = key_size, value_size


if TYPE_CHECKING or codec_choice() == "python":
    RecordFacts = PythonRecordFacts
else:
    try:
        from ...protocol.records._batch import RecordFacts
    except ModuleNotFoundError:  # not built: whoever asks for the codec is told so, with what to do
        RecordFacts = PythonRecordFacts
