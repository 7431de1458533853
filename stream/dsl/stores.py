"""Stores as users describe them, and the builders that operators make of them.

Source: Materialized, MaterializedInternal, the subclasses of MaterializedStoreFactory, Stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..state.builders import StoreBuilder
from ..state.formats.count_windows import open_windows
from ..state.store_spec import StoreKind
from ..topology.serdes import DerivedSerde
from .durations import Duration, to_ms
from .names import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..state.suppliers import Supplier
    from .logical_graph import LogicalGraph
    from .windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True)
class Store:
    """A store of an operator, or one of the Processor API.

    Without `name` it has a generated one. Serdes that are None are those of the operator or the application.
    `retention`: of windows; `history`: makes a key-value store versioned, and keeps versions for that long.
    `persistent` None: as the application says. `cached` None: operators cache their stores, the Processor API
    does not. `config`: configs of the changelog topic. `kind`, `window_size` and `retain_duplicates` are for
    the Processor API; operators choose their own. `max_entries`: an LRU store in memory.
    `supplier`: makes the stores of bytes of the tasks, see `BytesStore`.
    `time_ordered` False: results that are emitted on close come by key, as from Java with a store supplier.
    """

    name: str | None = None
    key: Any = field(default=None, kw_only=True)
    value: Any = field(default=None, kw_only=True)
    kind: StoreKind = field(default=StoreKind.KEY_VALUE, kw_only=True)
    persistent: bool | None = field(default=None, kw_only=True)
    cached: bool | None = field(default=None, kw_only=True)
    logged: bool = field(default=True, kw_only=True)
    config: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    retention: Duration | None = field(default=None, kw_only=True)
    history: Duration | None = field(default=None, kw_only=True)
    segment_interval: Duration | None = field(default=None, kw_only=True)
    window_size: Duration | None = field(default=None, kw_only=True)
    retain_duplicates: bool = field(default=False, kw_only=True)
    max_entries: int | None = field(default=None, kw_only=True)
    time_ordered: bool = field(default=True, kw_only=True)
    supplier: Supplier | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.name is not None:
            checked(self.name)
        if self.supplier is not None and (self.persistent is not None or self.max_entries is not None):
            raise ValueError("the supplier of a store decides on persistent= and max_entries=")
        if self.history is not None and self.name is None:
            raise ValueError("a versioned store needs a name")
        if self.max_entries is not None and (self.max_entries < 0 or self.history is not None):
            raise ValueError("max_entries= is at least 0, of a store without history=")


StoreArgument = str | Store | None
"""The name of a store, its description, or nothing."""


class Materialized:
    """The store of one operator: its name is known, and its serdes are filled in by the operator."""

    def __init__(
        self, graph: LogicalGraph, store: StoreArgument, prefix: str | None, *, is_queryable: bool = False
    ) -> None:
        """Without a name and with `prefix`, a name is generated, which uses up a number."""
        self.store = Store(store) if isinstance(store, str) else store or Store()
        self.is_queryable = is_queryable or self.store.name is not None
        self.key = self.store.key
        self.value = self.store.value
        self.is_versioned = self.store.history is not None
        self._persists = (
            graph.stores_are_persistent if self.store.persistent is None else self.store.persistent
        )
        # As in Java, stores in memory and stores that an application describes itself keep none.
        self._supplier = supplier_of(graph, self.store)
        described = (
            self._supplier is not None or self.store.max_entries is not None or not self.store.time_ordered
        )
        self._has_headers = graph.stores_have_headers and self._persists and not described
        self._name = self.store.name
        if self._name is None and prefix is not None:
            self._name = graph.names.store(prefix)
            graph.unnamed.append(f"store {self._name}")

    @property
    def name(self) -> str:
        """The name of the store. Fails if it has none."""
        assert self._name is not None, "a store without name is not built"
        return self._name

    @property
    def queryable_name(self) -> str | None:
        """The name for interactive queries: that of a store that the user named."""
        return self._name if self.is_queryable else None

    def default_serdes(self, key: Any, value: Any = None) -> None:
        """Use these where the user gave none."""
        self.key = key if self.key is None else self.key
        self.value = value if self.value is None else self.value

    # builders

    def key_value(self) -> StoreBuilder:
        """The store of a table: timestamped, or versioned."""
        if self.is_versioned:
            history = to_ms(self.store.history or 0, "history")
            return self._builder(
                StoreKind.VERSIONED_KEY_VALUE,
                is_cached=False,
                history_retention_ms=history,
                segment_interval_ms=self._segment_interval(_versioned_segment_interval(history)),
            )
        kind = StoreKind.TIMESTAMPED_KEY_VALUE
        if self._has_headers:
            kind = StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS
        return self._builder(kind, max_entries=self.store.max_entries)

    def window(self, windows: TimeWindows | UnlimitedWindows, *, emit_on_close: bool) -> StoreBuilder:
        """The store of a windowed aggregation. Errors: ValueError for a retention shorter than a window."""
        retention = self._retention(windows.size_ms + windows.grace_ms, "a window and its grace")
        return self._builder(
            self._window_kind,
            retention_ms=retention,
            segment_interval_ms=self._segment_interval(max(retention // 2, _MINUTE_MS)),
            window_size_ms=windows.size_ms,
            is_time_ordered=emit_on_close and self._is_by_time,
        )

    def sliding_window(self, windows: SlidingWindows, *, emit_on_close: bool) -> StoreBuilder:
        """The store of an aggregation by sliding windows. Errors: ValueError, as above."""
        least = 2 * windows.time_difference_ms + windows.grace_ms
        retention = self._retention(least, "twice the time difference and the grace")
        return self._builder(
            self._window_kind,
            is_cached=self._is_cached and not emit_on_close,
            retention_ms=retention,
            segment_interval_ms=self._segment_interval(max(retention // 2, _MINUTE_MS)),
            window_size_ms=windows.time_difference_ms,
            is_time_ordered=emit_on_close and self._is_by_time,
            has_index=emit_on_close and self._is_by_time,
        )

    def session(self, windows: SessionWindows, *, emit_on_close: bool) -> StoreBuilder:
        """The store of an aggregation by sessions. Errors: ValueError, as above."""
        retention = self._retention(
            windows.inactivity_gap_ms + windows.grace_ms, "the inactivity gap and the grace"
        )
        return self._builder(
            StoreKind.SESSION_WITH_HEADERS if self._has_headers else StoreKind.SESSION,
            is_cached=self._is_cached and not emit_on_close,
            retention_ms=retention,
            segment_interval_ms=self._segment_interval(max(retention // 2, _MINUTE_MS)),
            is_time_ordered=emit_on_close and self._is_by_time,
            has_index=emit_on_close and self._is_by_time,
        )

    def count_window(self) -> StoreBuilder:
        """The store of an aggregation by count windows."""
        values = DerivedSerde(open_windows, (("value", self.value),))
        return self._builder(StoreKind.KEY_VALUE, value_serde=values)

    @property
    def _window_kind(self) -> StoreKind:
        if self._has_headers:
            return StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS
        return StoreKind.TIMESTAMPED_WINDOW

    @property
    def _is_by_time(self) -> bool:
        return self._persists and self.store.time_ordered and self._supplier is None

    @property
    def _is_cached(self) -> bool:
        return self.store.cached is not False

    def _builder(self, kind: StoreKind, **facts: Any) -> StoreBuilder:
        return StoreBuilder(
            self.name,
            kind,
            key_serde=self.key,
            persistent=self._persists,
            is_logged=self.store.logged,
            changelog_config=dict(self.store.config),
            supplier=self._supplier,
            **{"value_serde": self.value, "is_cached": self._is_cached, **facts},
        )

    def _retention(self, least: int, parts: str) -> int:
        if self.store.retention is None:
            return least
        retention = to_ms(self.store.retention, "retention")
        if retention < least:
            raise ValueError(
                f"retention of store {self.name} is {retention} ms, less than {parts}, {least} ms"
            )
        return retention

    def _segment_interval(self, default: int) -> int:
        if self.store.segment_interval is None:
            return default
        return to_ms(self.store.segment_interval, "segment_interval")


def join_window_store(
    name: str,
    windows: JoinWindows,
    key: Any,
    value: Any,
    config: Mapping[str, str],
    *,
    is_logged: bool,
    persistent: bool,
    headers: bool,
    supplier: Supplier | None,
) -> StoreBuilder:
    """The store of one side of a stream-stream join. Several records may have one key and timestamp."""
    retention = windows.size_ms + windows.grace_ms
    return StoreBuilder(
        name,
        StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS
        if headers and persistent and supplier is None
        else StoreKind.WINDOW,
        logs_headers=True,
        key_serde=key,
        value_serde=value,
        persistent=persistent,
        is_logged=is_logged,
        changelog_config=dict(config),
        retention_ms=retention,
        segment_interval_ms=max(retention // 2, _MINUTE_MS),
        window_size_ms=windows.size_ms,
        retain_duplicates=True,
        supplier=supplier,
    )


def supplier_of(graph: LogicalGraph, store: Store) -> Supplier | None:
    """The supplier of a store of an operator: its own one, or that of the application, unless the store says
    where it is, or is versioned."""
    says_where = store.persistent is not None or store.max_entries is not None
    if store.supplier is not None or says_where or store.history is not None:
        return store.supplier
    return graph.store_supplier


def processor_store(store: Store | StoreBuilder, *, persistent: bool) -> StoreBuilder:
    """The builder of a store of the Processor API. Errors: ValueError for a store without a name."""
    if isinstance(store, StoreBuilder):
        return store
    if store.name is None:
        raise ValueError("a store of the Processor API needs a name")
    kind = StoreKind.VERSIONED_KEY_VALUE if store.history is not None else store.kind
    retention = to_ms(store.retention or 0, "retention")
    history = to_ms(store.history or 0, "history")
    default = _versioned_segment_interval(history) if history else max(retention // 2, _MINUTE_MS)
    return StoreBuilder(
        store.name,
        kind,
        key_serde=store.key,
        value_serde=store.value,
        persistent=persistent if store.persistent is None else store.persistent,
        is_cached=bool(store.cached),
        is_logged=store.logged,
        changelog_config=dict(store.config),
        retention_ms=retention,
        segment_interval_ms=default
        if store.segment_interval is None
        else to_ms(store.segment_interval, "segment_interval"),
        window_size_ms=to_ms(store.window_size or 0, "window_size"),
        retain_duplicates=store.retain_duplicates,
        history_retention_ms=history,
        max_entries=store.max_entries,
        supplier=store.supplier,
    )


def _versioned_segment_interval(history_ms: int) -> int:
    if history_ms <= _MINUTE_MS:
        return max(history_ms // 3, 2_000)
    if history_ms <= 5 * _MINUTE_MS:
        return max(history_ms // 5, 20_000)
    if history_ms <= _HOUR_MS:
        return max(history_ms // 12, _MINUTE_MS)
    return max(history_ms // 24, 5 * _MINUTE_MS)
