"""Tables whose values a transformer of the user makes. Source: KTableTransformValues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import Change, RecordContext, ValueAndTimestamp
from .binding import BoundProcessor
from .table_store import TableStore, change_forwarder
from .tables import DerivedTableSupplier
from .user import UserContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import Forward, Processor, ProcessorContext, Table, ValueGetter
    from ..records import Record

UNKNOWN = -1


class TransformerContext(UserContext):
    """The context of a transformer, which returns its value instead of forwarding."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        raise RuntimeError("a transformer of values cannot forward records: it returns the value")


def _initialized(transformer: Any, context: ProcessorContext) -> Callable[[Any, Any], Any]:
    """The function of key and value of a transformer."""
    init = getattr(transformer, "init", None)
    if init is not None:
        init(TransformerContext(context))
    transform: Callable[[Any, Any], Any] = transformer.transform
    return transform


def _close(transformer: Any) -> None:
    close = getattr(transformer, "close", None)
    if close is not None:
        close()


class KTableTransformValues(DerivedTableSupplier):
    """Makes the values by `factory()`'s `transform(key, value)`, which is called for deleted rows as well."""

    def __init__(self, parent: Table, factory: Any, store: Any = None) -> None:
        super().__init__(parent, store)
        self.factory = factory
        stores = getattr(factory, "stores", None)
        self._own_stores = tuple(stores()) if callable(stores) else ()

    def stores(self) -> tuple[Any, ...]:
        return (*super().stores(), *self._own_stores)

    def transformer(self) -> Any:
        """A transformer of the user."""
        return self.factory.create() if hasattr(self.factory, "create") else self.factory()

    def create(self) -> Processor:
        transformer = self.transformer()
        return BoundProcessor(
            lambda context: self._bind(context, _initialized(transformer, context)),
            lambda: _close(transformer),
        )

    def getter(self, parent: ValueGetter) -> ValueGetter:
        return TransformedValueGetter(parent, self.transformer())

    def _bind(self, context: ProcessorContext, transform: Callable[[Any, Any], Any]) -> Forward:
        send_old_values = self.send_old_values
        if self.store is None:
            forward_change = context.forward

            def computed(key: Any, value: Any, timestamp: int, headers: Any) -> None:
                new = transform(key, value[0])
                old = transform(key, value[1]) if send_old_values else None
                forward_change(key, Change(new, old, value[2]), timestamp, headers)

            return computed
        store = TableStore(context, self.store.name)
        get, put = store.get, store.put
        forward = change_forwarder(context, store.store, send_old_values)

        def stored(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            new = transform(key, value[0])
            found = get(key) if send_old_values else None
            is_latest = put(key, new, timestamp)
            if is_latest is not None:
                forward(key, new, None if found is None else found[0], timestamp, headers, is_latest)

        return stored


class TransformedValueGetter:
    """Transforms what the parent's getter returns, with what is known of the row as record context."""

    def __init__(self, parent: ValueGetter, transformer: Any) -> None:
        self.parent = parent
        self.transformer = transformer

    @property
    def is_versioned(self) -> bool:
        return self.parent.is_versioned

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self.parent.init(context)
        self._transform = _initialized(self.transformer, context)

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        return self._transformed(key, self.parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        return self._transformed(key, self.parent.get_as_of(key, timestamp))

    def close(self) -> None:
        self.parent.close()
        _close(self.transformer)

    def _transformed(self, key: Any, found: ValueAndTimestamp[Any] | None) -> ValueAndTimestamp[Any] | None:
        context = self._context
        before = context.record_context
        value, timestamp = (None, UNKNOWN) if found is None else found
        context.record_context = RecordContext(timestamp, -1, "", -1)
        try:
            result = self._transform(key, value)
        finally:
            context.record_context = before
        return None if result is None else ValueAndTimestamp(result, timestamp)
