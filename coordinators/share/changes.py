"""What a share-partition takes and gives: acknowledgements, acquired records, changes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .runs import Delivery


class AckType(IntEnum):
    """What a member decides on a record, by its number in requests. Source: Kafka AcknowledgeType.java."""

    GAP = 0  # the offset holds no record
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Cause(IntEnum):
    """Why a record is archived without having been accepted."""

    NONE = 0
    REJECTED = 1  # by a member
    DELIVERY_LIMIT = 2  # released, or its lock expired, at the last permitted delivery


class Acknowledgement(NamedTuple):
    """The decision on the offsets from `first` to `last`, both included.

    `types` has one element for all offsets or one for each. `delay_ms` is the time until a released record
    may be delivered again.
    """

    first: int
    last: int
    types: tuple[AckType, ...]
    delay_ms: int = 0


class Acquired(NamedTuple):
    """Offsets that a member has acquired, both included, with the number of their delivery, from 1 on."""

    first: int
    last: int
    deliveries: int


class StateBatch(NamedTuple):
    """The durable state of the offsets from `first` to `last`, both included.

    `until_ms` is the earliest next delivery in wall-clock milliseconds, 0 for now.
    """

    first: int
    last: int
    state: Delivery
    deliveries: int
    until_ms: int = 0
    cause: Cause = Cause.NONE


@dataclass(slots=True, frozen=True)
class Change:
    """New states that become effective when they are durable. `number` is unique in a share-partition.

    The records of a change are neither delivered nor acknowledged until it is committed or rolled back.
    """

    number: int
    batches: list[StateBatch] = field(default_factory=list)

    @property
    def dead(self) -> list[StateBatch]:
        """The batches that go to the dead letter topic."""
        return [batch for batch in self.batches if batch.cause]
