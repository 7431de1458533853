"""The queries of IQv2, and their results. Times in ms, inclusive at both ends; None: no bound. Pure.

Source: Kafka KeyQuery.java, RangeQuery.java, WindowKeyQuery.java, WindowRangeQuery.java,
TimestampedKeyQuery.java, TimestampedRangeQuery.java, VersionedKeyQuery.java, MultiVersionedKeyQuery.java
(KIP-796, KIP-805, KIP-806, KIP-960, KIP-968, KIP-985), StateQueryResult.java, FailureReason.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from .errors import QueryError, StoreMigratedError, StoreUnavailableError, WrongStoreKindError
from .position import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """The value of a key, None without one; of a timestamped store without its timestamp."""

    key: Any


@dataclass(frozen=True, slots=True)
class KeysQuery:
    """The values of several keys, a list in their order, as of KeyQuery. Its reads are not one snapshot."""

    keys: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery:
    """The ValueAndTimestamp of a key in a timestamped store."""

    key: Any


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """(key, value) by the bytes of the keys, both bounds inclusive."""

    lower: Any = None
    upper: Any = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery:
    """(key, ValueAndTimestamp) of a timestamped store, as RangeQuery."""

    lower: Any = None
    upper: Any = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class PrefixQuery:
    """(key, value) where the bytes of the key start with `prefix`."""

    prefix: bytes


@dataclass(frozen=True, slots=True)
class CountQuery:
    """The approximate number of entries of a key-value store."""


@dataclass(frozen=True, slots=True)
class WindowKeyQuery:
    """(window start, value) of a key in a window store."""

    key: Any
    from_time: int = 0
    to_time: int = MAX_TIME


@dataclass(frozen=True, slots=True)
class WindowRangeQuery:
    """(Windowed, value): with a key its sessions in a session store, else the windows of all keys that start
    between the times in a window store."""

    key: Any = None
    from_time: int = 0
    to_time: int = MAX_TIME


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery:
    """The VersionedRecord of a key: the latest, or the one that was valid at `as_of`."""

    key: Any
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery:
    """The VersionedRecords of a key that were valid between the times, newest first by default."""

    key: Any
    from_time: int = 0
    to_time: int = MAX_TIME
    ascending: bool = False


Query = (
    KeyQuery
    | KeysQuery
    | TimestampedKeyQuery
    | RangeQuery
    | TimestampedRangeQuery
    | PrefixQuery
    | CountQuery
    | WindowKeyQuery
    | WindowRangeQuery
    | VersionedKeyQuery
    | MultiVersionedKeyQuery
)


class FailureReason(Enum):
    """The reason why a partition of a store has no result."""

    UNKNOWN_QUERY_TYPE = "the store does not support this kind of query"
    NOT_ACTIVE = "require_active, and the task is a standby, or does not run yet"
    NOT_UP_TO_BOUND = "the store has not processed all records of the position bound"
    NOT_PRESENT = "the partition is not on this instance (now)"
    DOES_NOT_EXIST = "the store has no such partition"
    STORE_EXCEPTION = "the store failed"


_ERRORS: dict[FailureReason, type[QueryError]] = {
    FailureReason.UNKNOWN_QUERY_TYPE: WrongStoreKindError,
    FailureReason.NOT_ACTIVE: StoreUnavailableError,
    FailureReason.NOT_UP_TO_BOUND: StoreUnavailableError,
    FailureReason.NOT_PRESENT: StoreMigratedError,
}


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one partition: a value, which may be an iterator to close, or a failure. `position`: the
    records that the store had at least processed."""

    value: Any = None
    failure: FailureReason | None = None
    message: str = ""
    position: Position = field(default_factory=Position)

    @property
    def is_success(self) -> bool:
        """Whether there is a value (which may be None: no such key)."""
        return self.failure is None

    def result(self) -> Any:
        """The value. Errors: QueryError for a failure; retriable if a retry may succeed."""
        if self.failure is not None:
            raise _ERRORS.get(self.failure, QueryError)(f"{self.failure.name}: {self.message}")
        return self.value


@dataclass(frozen=True, slots=True)
class StateQueryResult:
    """The results by partition. Those of a global store are in `global_result`."""

    partitions: Mapping[int, QueryResult] = field(default_factory=dict)
    global_result: QueryResult | None = None

    @property
    def position(self) -> Position:
        """The position of all partitions with a result: a bound for later queries."""
        found = Position()
        for each in self.partitions.values():
            found = found.merged(each.position)
        return found

    def only_result(self) -> QueryResult | None:
        """The one successful result that has a value; None without one. Errors: ValueError for several."""
        found = [each for each in self.partitions.values() if each.is_success and each.value is not None]
        if self.global_result is not None:
            found.append(self.global_result)
        if len(found) > 1:
            raise ValueError(f"{len(found)} partitions have a result")
        return found[0] if found else None
