"""The errors of the records that a leader names when it refuses a batch (KIP-467). Pure.

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
    """The errors of the records that `answer` names, by rising index below `count`; `error` is the batch's.

    One alone has the type of the batch's error. Of several the types are not known, only their messages.
    """
    named = answer.record_errors
    kind = type(error) if len(named) == 1 else InvalidRecordError
    return {index: kind(message) for index, message in sorted(named) if 0 <= index < count}


def reason_of(record_errors: dict[int, BaseException], count: int, error: HeadraceError) -> BaseException:
    """The error of a refused batch of `count` records, which those have that are not named; if all are named,
    the error of the first one. `error` is what the leader answered."""
    if len(record_errors) == count:
        return record_errors[min(record_errors)]
    others = BatchRefusedError(f"not stored, because other records of its batch were refused: {error}")
    others.__cause__ = error
    return others
