"""The latest writes of a store with a cache, as Python objects: a key that is written again and again between
two commits costs a dict entry, not two serializations and a cache entry for each write.

Only values whose bytes can certainly be written, and read again as equal values. Everything but a write and a
read of one key settles the writes first, in the order of the last write of each key (docs/adr/0033).
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from ...runtime.switch_point import ROUNDS, switch_point
from ..records import RecordContext, ValueAndTimestamp
from .formats.windows import MAX_TIME
from .interpreted import in_order_of_writes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from .stores import StoreContext
    from .thread_cache import CacheEntry

    EntryOf = Callable[[Any, Any, RecordContext | None], tuple[bytes, CacheEntry]]
    """The key and the entry of the cache, from the place, the value and the context of its write."""

    Waiting = tuple[Any, "int | None", Any, int]
    """The plain value, its timestamp (None: values have none), the context of its write or the input record
    that caused it, and the number of the write. A tuple: readers in other threads see all of a write."""

    Use = tuple[dict[Any, Waiting], Callable[[Any], bool] | None, Iterator[int]]
    """What waits by place, whether a plain value can wait, and the numbers of writes."""

    Place = TypeVar("Place", bound=Hashable)

# Of these types only equal keys have equal bytes; 1, 1.0 and True are equal and have other bytes in JSON.
PLAIN_KEYS = frozenset({str, bytes, int, UUID})
PAUSE = 100  # writes that are not deferred after a read of several keys


_new = tuple.__new__  # in a third of the time of RecordContext(...)


def _context_of(record: Any) -> RecordContext:
    return _new(RecordContext, (
        record.timestamp, record.offset, record.topic, record.partition, record.headers, record.key,
        record.value,
    ))  # fmt: skip


def _value_of(waiting: Waiting) -> Any:
    """As it was put."""
    timestamp = waiting[1]
    return waiting[0] if timestamp is None else _new(ValueAndTimestamp, (waiting[0], timestamp))


class DeferredWrites:
    """Values by place: what names an entry, a key or a key and a window start.

    Invariant: the store below has an older value than `waiting`, or none.
    """

    __slots__ = (
        *("_cache", "_context", "_encode", "_entry_of", "_fits", "_is_timestamped", "_others", "_pause"),
        *("_numbers", "_put", "moving", "waiting"),
    )

    def __init__(
        self,
        context: StoreContext,
        fits: Callable[[Any], bool] | None,
        put: Callable[[bytes, CacheEntry, bool], None],
        entry_of: EntryOf,
        *,
        is_timestamped: bool,
        encode: Callable[[Any], bytes],
    ) -> None:
        """`fits`: whether a plain value can be deferred; None: no value can. `put` writes to the cache what
        `entry_of` makes, `encode` gives the bytes of a value."""
        self._context = context
        self._cache = context.cache
        self._fits = fits
        self._is_timestamped = is_timestamped
        self._put, self._entry_of = put, entry_of
        self._encode = encode
        self._pause = 0
        self._others: tuple[DeferredWrites, ...] = ()
        self._numbers = count()
        self.waiting: dict[Any, Waiting] = {}
        self.moving: tuple[Any, Any] | None = None
        """The place and value that are being written to the cache: for readers in other threads."""

    def beside(
        self,
        fits: Callable[[Any], bool],
        entry_of: EntryOf,
        encode: Callable[[Any], bytes],
    ) -> DeferredWrites:
        """Of the same store, for timestamped values of another type. What waits in one is settled before the
        other is used."""
        other = DeferredWrites(self._context, fits, self._put, entry_of, is_timestamped=True, encode=encode)
        family = (self, *self._others, other)
        for each in family:
            each._others = tuple(one for one in family if one is not each)  # noqa: SLF001  # of this class
        return other

    def _settle_others(self) -> None:
        for other in self._others:
            if other.waiting:
                other.settle()

    @property
    def holds(self) -> bool:
        """Whether writes wait, here or beside."""
        return bool(self.waiting) or any(other.waiting for other in self._others)

    def get(self, key: Any, place: Place) -> Any:
        """The value that waits; None without one."""
        if self._others:
            self._settle_others()
        if type(key) not in PLAIN_KEYS:
            return None
        found = self.waiting.get(place)
        return None if found is None else _value_of(found)

    def put(self, key: Any, place: Place, value: Any) -> bool:
        """False: the caller has to write it; nothing waits then."""
        waiting = self.waiting
        if self._others:
            self._settle_others()
        if not self._takes(key, value):
            if waiting:
                self.settle()
            return False
        timestamp = None
        if self._is_timestamped:
            value, timestamp = value
        self._wait(place, value, timestamp, self._context.record_context)
        return True

    def put_of_run(self, key: Any, place: Place, value: Any, timestamp: int, source: Any) -> bool:
        """As `put`, of a plain value with its timestamp, by the input record `source`. False: the caller has
        to `put` it."""
        if self._others:
            self._settle_others()
        fits = self._fits
        if fits is None or self._pause or type(key) not in PLAIN_KEYS or not self._cache.most_deferred:
            return False
        if value is None or not fits(value):
            return False
        self._wait(place, value, timestamp, source)
        return True

    def _wait(self, place: Any, value: Any, timestamp: int | None, source: Any) -> None:
        waiting = self.waiting
        if len(waiting) >= self._cache.most_deferred and place not in waiting:
            self.settle()
        waiting[place] = value, timestamp, source, next(self._numbers)

    def use(self) -> Use:
        """For a loop that reads and replaces what waits for keys of PLAIN_KEYS itself, until a call of
        anything else."""
        self._settle_others()
        return self.waiting, self._fits, self._numbers

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

    def settle_any(self) -> None:
        """`settle`, if something waits."""
        if self._others:
            self._settle_others()
        if self.waiting:
            self.settle()

    def settle(self) -> None:
        """Write what waits, each value with the context of its record. A failure leaves the rest waiting."""
        self._settle_others()
        waiting, put, entry_of, moving = self.waiting, self._put, self._entry_of, self.moving
        try:
            # a write may evict, and so call a reader or writer of this store
            for number, place in enumerate(in_order_of_writes(waiting)):
                if not number % ROUNDS:
                    switch_point()
                found = waiting.get(place)
                if found is not None:
                    value, source = _value_of(found), found[2]
                    context = source if type(source) is RecordContext else _context_of(source)
                    key, entry = entry_of(place, value, context)
                    self.moving = place, value
                    del waiting[place]
                    put(key, entry, True)
        finally:
            self.moving = moving

    # for readers in other threads

    def peek(self, key: Any, place: Place) -> bytes | None:
        """The bytes of a value that waits, or is on its way to the cache; None without one."""
        if type(key) not in PLAIN_KEYS:
            return None
        for each in (self, *self._others):
            found = each.waiting.get(place)
            if found is not None:
                return each._encode(_value_of(found))  # noqa: SLF001  # of this class
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
            found.update((place, encode(_value_of(write))) for place, write in waiting.items())
        return found

    def settle_for_read(self) -> None:
        """Before a read of several keys. A caller that reads between writes gains nothing by waiting."""
        if self.waiting:
            self._pause = PAUSE
        self.settle()
