"""Records by column: what a cache flushes passes stateless processors and the sink as one run.

A run is the same as its records one after the other. Where a processor has no way to process one, or a record
may be dropped by a handler, the records are forwarded one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..clients import serdes
from .state.formats.windows import WindowedSerde

if TYPE_CHECKING:
    from ..clients.serdes import Serde
    from .records import RecordContext

# What these serdes read from bytes that they have written has the same bytes again.
_EXACT = (serdes.bytes_, serdes.utf8, serdes.int64)


def _is_exact(serde: Serde[Any] | None) -> bool:
    plain = serde.inner if isinstance(serde, WindowedSerde) else serde
    return any(plain is each for each in _EXACT)


def _writes_the_same(one: Serde[Any] | None, other: Serde[Any]) -> bool:
    """Whether both write the same bytes; the size of a window is not among them."""
    if isinstance(one, WindowedSerde) and isinstance(other, WindowedSerde):
        return one.inner is other.inner and one.times_bytes == other.times_bytes
    return one is other


class Column:
    """Keys or values; None: null. The objects are made when they are asked for."""

    __slots__ = ("_data", "_items", "_make", "_serde")

    def __init__(
        self,
        items: list[Any] | None = None,
        *,
        make: Callable[[], list[Any]] | None = None,
        data: list[bytes | None] | None = None,
        serde: Serde[Any] | None = None,
    ) -> None:
        """`items`, or what makes them. `data`: their bytes, as `serde` has written them."""
        self._items = items
        self._make = make
        self._data = data if _is_exact(serde) else None
        self._serde = serde

    @property
    def items(self) -> list[Any]:
        """The objects."""
        if self._items is None:
            assert self._make is not None
            self._items = self._make()
        return self._items

    def dumps(self, serde: Serde[Any]) -> list[bytes | None]:
        """Their bytes. Errors: those of the serde."""
        if self._data is not None and _writes_the_same(self._serde, serde):
            return self._data
        dumps = serde.dumps
        return [None if item is None else dumps(item) for item in self.items]

    def taken(self, places: list[int]) -> Column:
        """The objects at these places."""
        items, data = self._items, self._data
        return Column(
            None if items is None else [items[place] for place in places],
            make=lambda: [self.items[place] for place in places],
            data=None if data is None else [data[place] for place in places],
            serde=self._serde,
        )


class Rows(NamedTuple):
    """Timestamps in ms; no record has headers. `contexts`: the input record of each."""

    keys: Column
    values: Column
    timestamps: list[int]
    contexts: list[RecordContext]

    def taken(self, places: list[int]) -> Rows:
        """The records at these places, in this order."""
        timestamps, contexts = self.timestamps, self.contexts
        return Rows(
            self.keys.taken(places),
            self.values.taken(places),
            [timestamps[place] for place in places],
            [contexts[place] for place in places],
        )


ProcessRows = Callable[[Rows], None]
