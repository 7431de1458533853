"""Descriptions of stores in a topology, which make the store of each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from .join_buffer import JoinBuffer
from .key_value_bytes import (
    InMemoryKeyValueBytes,
    ListValueBytes,
    LruKeyValueBytes,
    PersistentKeyValueBytes,
)
from .key_value_store import CachedKeyValueStore, TypedKeyValueStore
from .session_bytes import InMemorySessionBytes, PersistentSessionBytes
from .session_store import CachedSessionStore, TypedSessionStore
from .suppress_buffer import SuppressBuffer
from .versioned_store import TypedVersionedStore
from .window_bytes import InMemoryWindowBytes, PersistentWindowBytes
from .window_store import CachedWindowStore, TypedWindowStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .key_value_bytes import KeyValueBytes
    from .session_bytes import SessionBytes
    from .window_bytes import WindowBytes

_MIN_SEGMENT_MS = 60_000


class StoreKind(Enum):
    """The interface of a store."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    VERSIONED_KEY_VALUE = "versioned key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    SESSION = "session"
    LIST_VALUE = "list of values by key"
    SUPPRESS_BUFFER = "suppress buffer"
    JOIN_BUFFER = "stream-table join buffer"


@dataclass(frozen=True, slots=True)
class StoreBuilder:
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

    @property
    def is_windowed(self) -> bool:
        """Whether it is a window or session store, whose changelog loses old records."""
        return self.kind in (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION)

    def with_caching(self, is_cached: bool = True) -> StoreBuilder:
        return replace(self, is_cached=is_cached)

    def with_logging(self, config: Mapping[str, str]) -> StoreBuilder:
        """With a changelog; `config` are the configs of its topic."""
        return replace(self, is_logged=True, changelog_config=dict(config))

    def without_logging(self) -> StoreBuilder:
        return replace(self, is_logged=False, changelog_config={})

    def segment_ms(self) -> int:
        """Half of the retention and at least a minute, unless it is set. Source: Stores."""
        return self.segment_interval_ms or max(self.retention_ms // 2, _MIN_SEGMENT_MS)

    def build(self) -> Any:
        """The store of one task, not yet open."""
        store = _MAKERS[self.kind](self)
        if self.logs_headers:
            store.logs_headers = True
        return store


def _key_value(builder: StoreBuilder) -> TypedKeyValueStore:
    inner: KeyValueBytes
    if builder.max_entries is not None:
        inner = LruKeyValueBytes(builder.max_entries)
    else:
        inner = PersistentKeyValueBytes() if builder.persistent else InMemoryKeyValueBytes()
    if builder.kind is StoreKind.LIST_VALUE:
        inner = ListValueBytes(inner)
    store = CachedKeyValueStore if builder.is_cached else TypedKeyValueStore
    is_timestamped = builder.kind is StoreKind.TIMESTAMPED_KEY_VALUE
    serdes = builder.key_serde, builder.value_serde
    return store(builder.name, inner, serdes, is_timestamped, builder.is_logged)


def _window(builder: StoreBuilder) -> TypedWindowStore:
    """Errors: ValueError for a retention that is shorter than the window."""
    if builder.window_size_ms > builder.retention_ms:
        raise ValueError(
            f"store {builder.name!r}: retention ({builder.retention_ms} ms) is shorter than the window "
            f"({builder.window_size_ms} ms)"
        )
    inner: WindowBytes
    if builder.persistent:
        inner = PersistentWindowBytes(
            builder.retention_ms,
            builder.segment_ms(),
            builder.retain_duplicates,
            builder.is_time_ordered,
            builder.has_index,
        )
    else:
        inner = InMemoryWindowBytes(builder.retention_ms, builder.retain_duplicates)
    is_cached = builder.is_cached and not builder.retain_duplicates and not builder.has_index
    store = CachedWindowStore if is_cached else TypedWindowStore
    return store(builder, inner, builder.kind is StoreKind.TIMESTAMPED_WINDOW)


def _session(builder: StoreBuilder) -> TypedSessionStore:
    inner: SessionBytes
    if builder.persistent:
        inner = PersistentSessionBytes(
            builder.retention_ms, builder.segment_ms(), builder.is_time_ordered, builder.has_index
        )
    else:
        inner = InMemorySessionBytes(builder.retention_ms)
    is_cached = builder.is_cached and not builder.is_time_ordered  # as in the DSL of Java
    store = CachedSessionStore if is_cached else TypedSessionStore
    return store(builder, inner)


def _suppress_buffer(builder: StoreBuilder) -> SuppressBuffer:
    return SuppressBuffer(builder.name, (builder.key_serde, builder.value_serde), builder.is_logged)


def _join_buffer(builder: StoreBuilder) -> JoinBuffer:
    serdes = builder.key_serde, builder.value_serde
    return JoinBuffer(builder.name, serdes, builder.grace_ms, builder.is_logged)


_MAKERS: dict[StoreKind, Callable[[StoreBuilder], Any]] = {
    StoreKind.KEY_VALUE: _key_value,
    StoreKind.TIMESTAMPED_KEY_VALUE: _key_value,
    StoreKind.LIST_VALUE: _key_value,
    StoreKind.WINDOW: _window,
    StoreKind.TIMESTAMPED_WINDOW: _window,
    StoreKind.SESSION: _session,
    StoreKind.VERSIONED_KEY_VALUE: TypedVersionedStore,
    StoreKind.SUPPRESS_BUFFER: _suppress_buffer,
    StoreKind.JOIN_BUFFER: _join_buffer,
}
