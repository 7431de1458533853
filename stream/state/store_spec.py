"""What a store is: its name, kind and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MIN_SEGMENT_MS = 60_000


class StoreKind(Enum):
    """The interface of a store."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    VERSIONED_KEY_VALUE = "versioned key-value"
    TIMESTAMPED_KEY_VALUE_WITH_HEADERS = "timestamped key-value with headers"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    TIMESTAMPED_WINDOW_WITH_HEADERS = "timestamped window with headers"
    SESSION = "session"
    SESSION_WITH_HEADERS = "session with headers"
    LIST_VALUE = "list of values by key"
    SUPPRESS_BUFFER = "suppress buffer"
    JOIN_BUFFER = "stream-table join buffer"


_WINDOWED = frozenset(
    (
        StoreKind.WINDOW,
        StoreKind.TIMESTAMPED_WINDOW,
        StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
        StoreKind.SESSION,
        StoreKind.SESSION_WITH_HEADERS,
    )
)


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store of a topology. Times in ms.

    `key_serde` and `value_serde` None: the defaults of the application. `max_entries`: of an LRU store.
    `is_time_ordered`: window and session stores of EmitStrategy.onWindowClose; `has_index`: they are also
    indexed by key (sliding windows and sessions), and have no cache. `grace_ms`: of a join buffer.
    `logs_headers`: changelog records have the headers of the record that caused them, as stores of
    stream-stream and foreign-key joins in Java; the others have none.
    """

    name: str
    kind: StoreKind = StoreKind.KEY_VALUE
    key_serde: Any = None
    value_serde: Any = None
    persistent: bool = True
    is_cached: bool = False
    is_logged: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int = 0
    segment_interval_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False
    history_retention_ms: int = 0
    max_entries: int | None = None
    is_time_ordered: bool = False
    has_index: bool = False
    grace_ms: int = 0
    logs_headers: bool = False
    supplier: Callable[[StoreSpec], Any] | None = None
    """Makes the store of bytes of each task; None, also as its result: one that is built in."""

    @property
    def is_windowed(self) -> bool:
        """Whether it is a window or session store, whose changelog loses old records."""
        return self.kind in _WINDOWED

    def segment_ms(self) -> int:
        """Half of the retention and at least a minute, unless it is set. Source: Stores."""
        return self.segment_interval_ms or max(self.retention_ms // 2, _MIN_SEGMENT_MS)
