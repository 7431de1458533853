"""The latest writes of a store with a cache, as Python objects: a key that is written again and again between
two commits costs a dict entry, not two serializations and a cache entry for each write.

Only values whose bytes can certainly be written, and read again as equal values. Everything but a write and a
read of one key settles the writes first, in the order of the last write of each key (docs/adr/0033).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from ..records import ValueAndTimestamp
from .formats.windows import MAX_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ..records import RecordContext
    from .stores import StoreContext

    Place = TypeVar("Place", bound=Hashable)

# Of these types only equal keys have equal bytes; 1, 1.0 and True are equal and have other bytes in JSON.
PLAIN_KEYS = frozenset({str, bytes, int, UUID})
PAUSE = 100  # writes that are not deferred after a read of several keys


class DeferredWrites:
    """Values by place: what names an entry, a key or a key and a window start.

    Invariant: `waiting` is in the order of the last writes; the store below has an older value, or none.
    """

    __slots__ = (
        *("_cache", "_context", "_encode", "_fits", "_is_timestamped", "_others", "_pause", "_write"),
        *("moving", "waiting"),
    )

    def __init__(
        self,
        context: StoreContext,
        fits: Callable[[Any], bool] | None,
        write: Callable[[Any, Any], None],
        *,
        is_timestamped: bool,
        encode: Callable[[Any], bytes],
    ) -> None:
        """`fits`: whether a plain value can be deferred; None: no value can. `write` writes to the cache,
        `encode` gives the bytes of a value."""
        self._context = context
        self._cache = context.cache
        self._fits = fits
        self._is_timestamped = is_timestamped
        self._write = write
        self._encode = encode
        self._pause = 0
        self._others: tuple[DeferredWrites, ...] = ()
        self.waiting: dict[Any, tuple[Any, RecordContext | None]] = {}
        self.moving: tuple[Any, Any] | None = None
        """The place and value that are being written to the cache: for readers in other threads."""

    def beside(
        self,
        fits: Callable[[Any], bool],
        write: Callable[[Any, Any], None],
        encode: Callable[[Any], bytes],
    ) -> DeferredWrites:
        """Of the same store, for timestamped values of another type. What waits in one is settled before the
        other is used."""
        other = DeferredWrites(self._context, fits, write, is_timestamped=True, encode=encode)
        family = (self, *self._others, other)
        for each in family:
            each._others = tuple(one for one in family if one is not each)  # noqa: SLF001  # of this class
        return other

    def _settle_others(self) -> None:
        for other in self._others:
            if other.waiting:
                other.settle()

    def get(self, key: Any, place: Place) -> Any:
        """The value that waits; None without one."""
        if self._others:
            self._settle_others()
        if type(key) not in PLAIN_KEYS:
            return None
        found = self.waiting.get(place)
        return None if found is None else found[0]

    def put(self, key: Any, place: Place, value: Any) -> bool:
        """False: the caller has to write it; nothing waits then."""
        waiting = self.waiting
        if self._others:
            self._settle_others()
        if not self._takes(key, value):
            if waiting:
                self.settle()
            return False
        if place in waiting:
            del waiting[place]  # so that it becomes the last one
        elif len(waiting) >= self._cache.most_deferred:
            self.settle()
        waiting[place] = value, self._context.record_context
        return True

    def _takes(self, key: Any, value: Any) -> bool:
        fits = self._fits
        if fits is None or type(key) not in PLAIN_KEYS or not self._cache.most_deferred:
            return False
        if self._pause:
            self._pause -= 1
            return False
        if self._is_timestamped:
            if type(value) is not ValueAndTimestamp:
                return False
            value, timestamp = value
            if type(timestamp) is not int or not 0 <= timestamp <= MAX_TIME:
                return False
        return fits(value)

    def settle(self) -> None:
        """Write what waits, each value with the context of its record. A failure leaves the rest waiting."""
        self._settle_others()
        waiting, write, context = self.waiting, self._write, self._context
        before, moving = context.record_context, self.moving
        try:
            for place in list(waiting):  # a write may evict, and so call a reader or writer of this store
                found = waiting.get(place)
                if found is not None:
                    self.moving = place, found[0]
                    del waiting[place]
                    context.record_context = found[1]
                    write(place, found[0])
        finally:
            context.record_context, self.moving = before, moving

    # for readers in other threads

    def peek(self, key: Any, place: Place) -> bytes | None:
        """The bytes of a value that waits, or is on its way to the cache; None without one."""
        if type(key) not in PLAIN_KEYS:
            return None
        for each in (self, *self._others):
            found = each.waiting.get(place)
            if found is not None:
                return each._encode(found[0])  # noqa: SLF001  # of this class
            moving = each.moving
            if moving is not None and moving[0] == place:
                return each._encode(moving[1])  # noqa: SLF001  # of this class
        return None

    def snapshot(self) -> dict[Any, bytes]:
        """The bytes of all values that wait or are on their way, by place."""
        found: dict[Any, bytes] = {}
        for each in (self, *self._others):
            waiting, moving = each.waiting.copy(), each.moving
            encode = each._encode  # noqa: SLF001  # of this class
            if moving is not None:
                found[moving[0]] = encode(moving[1])
            found.update((place, encode(value)) for place, (value, _) in waiting.items())
        return found

    def settle_for_read(self) -> None:
        """Before a read of several keys. A caller that reads between writes gains nothing by waiting."""
        if self.waiting:
            self._pause = PAUSE
        self.settle()
