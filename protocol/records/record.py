"""A decoded record of the Python codec. Equivalent to `_record.pxi`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .interfaces import Header


_NAMES = (
    "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch",
)  # fmt: skip


class Record:
    """One record as a consumer returns it: immutable; `replace` makes a changed copy."""

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[Header, ...]
    leader_epoch: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...] = (),
        leader_epoch: int = -1,
    ) -> None:
        put = object.__setattr__
        put(self, "topic", topic)
        put(self, "partition", partition)
        put(self, "offset", offset)
        put(self, "timestamp", timestamp)
        put(self, "timestamp_type", timestamp_type)
        put(self, "key", key)
        put(self, "value", value)
        put(self, "headers", headers)
        put(self, "leader_epoch", leader_epoch)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"records are immutable: record.replace({name}=...) makes another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"records are immutable: {name} cannot be deleted")

    def _fill(self, key: Any, value: Any) -> None:
        """Set the deserialized key and value, before a consumer returns the record."""
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "value", value)

    def replace(self, **changes: Any) -> Record:
        """A copy with other values of these attributes. Errors: TypeError for an unknown one."""
        facts = dict(zip(_NAMES, self._facts(), strict=True))
        return Record(**(facts | changes))

    def _facts(self) -> tuple[Any, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def __repr__(self) -> str:
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, timestamp_type={self.timestamp_type}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, self._facts()
