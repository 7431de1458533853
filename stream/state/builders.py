"""Descriptions of stores in a topology, which make the store of each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from .store_spec import StoreKind, StoreSpec
from .supplied_bytes import SuppliedSessionBytes, SuppliedVersionedBytes, SuppliedWindowBytes
from .suppliers import (
    KeyValueBytesStore,
    SessionBytesStore,
    VersionedBytesStore,
    WindowBytesStore,
    supplied,
)
from .suppress_buffer import SuppressBuffer
from .value_formats import AGGREGATION_WITH_HEADERS, PLAIN, TIMESTAMPED, WITH_HEADERS
from .versioned_store import TypedVersionedStore
from .window_bytes import InMemoryWindowBytes, PersistentWindowBytes
from .window_store import CachedWindowStore, TypedWindowStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .key_value_bytes import KeyValueBytes
    from .session_bytes import SessionBytes
    from .value_formats import ValueFormat
    from .window_bytes import WindowBytes


@dataclass(frozen=True, slots=True)
class StoreBuilder(StoreSpec):
    """Makes the store of each task from its description."""

    def with_caching(self, is_cached: bool = True) -> StoreBuilder:
        return replace(self, is_cached=is_cached)

    def with_logging(self, config: Mapping[str, str]) -> StoreBuilder:
        """With a changelog; `config` are the configs of its topic."""
        return replace(self, is_logged=True, changelog_config=dict(config))

    def without_logging(self) -> StoreBuilder:
        return replace(self, is_logged=False, changelog_config={})

    def build(self) -> Any:
        """The store of one task, not yet open."""
        store = _MAKERS[self.kind](self)
        if self.logs_headers:
            store.logs_headers = True
        return store


def _format(spec: StoreSpec) -> ValueFormat:
    return _FORMATS.get(spec.kind, PLAIN)


def _key_value(builder: StoreBuilder) -> TypedKeyValueStore:
    inner: KeyValueBytes
    own = supplied(builder, KeyValueBytesStore)
    if own is not None:
        inner = own
    elif builder.max_entries is not None:
        inner = LruKeyValueBytes(builder.max_entries)
    else:
        has_headers = _format(builder).has_headers
        inner = PersistentKeyValueBytes(has_headers) if builder.persistent else InMemoryKeyValueBytes()
    if builder.kind is StoreKind.LIST_VALUE:
        inner = ListValueBytes(inner)
    store = CachedKeyValueStore if builder.is_cached else TypedKeyValueStore
    serdes = builder.key_serde, builder.value_serde
    return store(builder.name, inner, serdes, _format(builder), builder.is_logged)


def _window(builder: StoreBuilder) -> TypedWindowStore:
    """Errors: ValueError for a retention that is shorter than the window."""
    if builder.window_size_ms > builder.retention_ms:
        raise ValueError(
            f"store {builder.name!r}: retention ({builder.retention_ms} ms) is shorter than the window "
            f"({builder.window_size_ms} ms)"
        )
    inner: WindowBytes
    own = supplied(builder, WindowBytesStore)
    if own is not None:
        inner = SuppliedWindowBytes(own, builder.retention_ms, builder.retain_duplicates)
    elif builder.persistent:
        inner = PersistentWindowBytes(
            builder.retention_ms,
            builder.segment_ms(),
            builder.retain_duplicates,
            builder.is_time_ordered,
            builder.has_index,
            _format(builder).has_headers,
        )
    else:
        inner = InMemoryWindowBytes(builder.retention_ms, builder.retain_duplicates)
    is_cached = builder.is_cached and not builder.retain_duplicates and not builder.has_index
    store = CachedWindowStore if is_cached else TypedWindowStore
    return store(builder, inner, _format(builder))


def _session(builder: StoreBuilder) -> TypedSessionStore:
    inner: SessionBytes
    own = supplied(builder, SessionBytesStore)
    if own is not None:
        inner = SuppliedSessionBytes(own, builder.retention_ms)
    elif builder.persistent:
        inner = PersistentSessionBytes(
            builder.retention_ms,
            builder.segment_ms(),
            builder.is_time_ordered,
            builder.has_index,
            _format(builder).has_headers,
        )
    else:
        inner = InMemorySessionBytes(builder.retention_ms)
    is_cached = builder.is_cached and not builder.is_time_ordered  # as in the DSL of Java
    store = CachedSessionStore if is_cached else TypedSessionStore
    return store(builder, inner, _format(builder))


def _versioned(builder: StoreBuilder) -> TypedVersionedStore:
    own = supplied(builder, VersionedBytesStore)
    inner: Any = None if own is None else SuppliedVersionedBytes(own, builder.history_retention_ms)
    return TypedVersionedStore(builder, inner)


def _suppress_buffer(builder: StoreBuilder) -> SuppressBuffer:
    return SuppressBuffer(builder.name, (builder.key_serde, builder.value_serde), builder.is_logged)


def _join_buffer(builder: StoreBuilder) -> JoinBuffer:
    serdes = builder.key_serde, builder.value_serde
    return JoinBuffer(builder.name, serdes, builder.grace_ms, builder.is_logged)


_FORMATS = {
    StoreKind.TIMESTAMPED_KEY_VALUE: TIMESTAMPED,
    StoreKind.TIMESTAMPED_WINDOW: TIMESTAMPED,
    StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS: WITH_HEADERS,
    StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS: WITH_HEADERS,
    StoreKind.SESSION_WITH_HEADERS: AGGREGATION_WITH_HEADERS,
}
_MAKERS: dict[StoreKind, Callable[[StoreBuilder], Any]] = {
    StoreKind.KEY_VALUE: _key_value,
    StoreKind.TIMESTAMPED_KEY_VALUE: _key_value,
    StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS: _key_value,
    StoreKind.LIST_VALUE: _key_value,
    StoreKind.WINDOW: _window,
    StoreKind.TIMESTAMPED_WINDOW: _window,
    StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS: _window,
    StoreKind.SESSION: _session,
    StoreKind.SESSION_WITH_HEADERS: _session,
    StoreKind.VERSIONED_KEY_VALUE: _versioned,
    StoreKind.SUPPRESS_BUFFER: _suppress_buffer,
    StoreKind.JOIN_BUFFER: _join_buffer,
}
