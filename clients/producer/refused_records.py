"""The errors of single records, when the leader rejects a batch because of them (KIP-467). Pure.

Source: Kafka Sender.java failBatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import BatchRefusedError, InvalidRecordError

if TYPE_CHECKING:
    from ...protocol.errors import HeadraceError
    from ...protocol.messages.data import ProducePartitionResponse


def record_errors_of(
    answer: ProducePartitionResponse, error: HeadraceError, count: int
) -> dict[int, BaseException]:
    """The errors of the records that the response names, by rising index below `count`.

    A single one has the type of `error`, the error of the batch. Of several only the messages are known.
    """
    named = answer.record_errors
    kind = type(error) if len(named) == 1 else InvalidRecordError
    return {index: kind(message) for index, message in sorted(named) if 0 <= index < count}


def reason_of(record_errors: dict[int, BaseException], count: int, error: HeadraceError) -> BaseException:
    """The error of a rejected batch of `count` records, for the records that the response does not name; if
    it names all, the error of the first one. `error` is that of the response."""
    if len(record_errors) == count:
        return record_errors[min(record_errors)]
    others = BatchRefusedError(f"not stored, because other records of its batch were rejected: {error}")
    others.__cause__ = error
    return others
