"""Records by column: the input of stateless processors, and what a cache flushes, passes these and the sink
as one run.

A run is the same as its records one after the other. Where a processor has no way to process one, or a record
may be dropped by a handler, the records are forwarded one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from ..clients import serdes
from .state.formats.windows import WindowedSerde

if TYPE_CHECKING:
    from ..clients.serdes import Serde

# What these serdes read from bytes has the same bytes again.
_EXACT = (serdes.bytes_, serdes.utf8, serdes.int64)


def _is_exact(serde: Any) -> bool:
    plain = serde.inner if isinstance(serde, WindowedSerde) else serde
    return any(plain is each for each in _EXACT)


def _writes_the_same(one: Any, other: Serde[Any]) -> bool:
    """Whether both write the same bytes; the size of a window is not among them."""
    if isinstance(one, WindowedSerde) and isinstance(other, WindowedSerde):
        return one.inner is other.inner and one.times_bytes == other.times_bytes
    return one is other


class Column:
    """Keys or values; None: null. Objects and bytes are made when they are asked for."""

    __slots__ = ("_items", "_make", "_read", "_serde")

    def __init__(
        self,
        items: list[Any] | None = None,
        *,
        make: Callable[[], list[Any]] | None = None,
        read: Callable[[], list[bytes | None]] | None = None,
        serde: Any = None,
    ) -> None:
        """`items`, or what makes them. `read` gives their bytes, as `serde` has written or read them."""
        self._items = items
        self._make = make
        self._read = read
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
        if self._read is not None and _is_exact(serde) and _writes_the_same(self._serde, serde):
            return self._read()
        dumps = serde.dumps
        return [None if item is None else dumps(item) for item in self.items]

    def kept(self, selectors: list[bool]) -> Column:
        """The objects whose selector is true."""
        read = self._read
        return Column(
            make=lambda: list(compress(self.items, selectors)),
            read=None if read is None else lambda: list(compress(read(), selectors)),
            serde=self._serde,
        )


class Rows(NamedTuple):
    """Timestamps in ms; no record has headers. `contexts`: the RecordContext of the input record of each."""

    keys: Column
    values: Column
    timestamps: list[int]
    contexts: Column

    def kept(self, selectors: list[bool]) -> Rows:
        """The records whose selector is true."""
        return Rows(
            self.keys.kept(selectors),
            self.values.kept(selectors),
            list(compress(self.timestamps, selectors)),
            self.contexts.kept(selectors),
        )

    def first(self, count: int) -> Rows:
        """The first `count` records."""
        return self if count == len(self.timestamps) else self.kept([True] * count)


ProcessRows = Callable[[Rows], None]
