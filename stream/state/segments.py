"""A persistent store of entries by time, in segments that are dropped as a whole when they expire.

Source: AbstractSegments, AbstractRocksDBSegmentedBytesStore, AbstractDualSchemaRocksDBSegmentedBytesStore.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .formats.windows import MAX_TIME
from .headers_files import open_files
from .overlay import Overlay

if TYPE_CHECKING:
    from .stores import StoreContext

Rows = Iterator[tuple[bytes, bytes]]

EXPIRED = "expired-window"
_INDEX = "index-"


class Segments:
    """The live segments of a store: key spaces, named by their number.

    Invariant: `numbers` is sorted; no segment below that of the retention is in it after a write.
    """

    def __init__(self, overlay: Overlay, interval_ms: int, retention_ms: int) -> None:
        self.overlay = overlay
        self.interval_ms = interval_ms
        self.retention_ms = retention_ms
        self.numbers = sorted(int(space) for space in overlay.spaces() if space.isdigit())

    def number_of(self, time: int) -> int:
        """Rounded towards zero, as in Java."""
        return time // self.interval_ms if time >= 0 else -(-time // self.interval_ms)

    def find(self, time: int) -> str | None:
        """The key space of the segment of `time`, if it exists."""
        number = self.number_of(time)
        position = bisect_left(self.numbers, number)
        return str(number) if position < len(self.numbers) and self.numbers[position] == number else None

    def create_if_live(self, number: int, stream_time: int) -> str | None:
        """The key space of a segment, or None if it has expired; segments that have expired are dropped."""
        if number < self.number_of(stream_time - self.retention_ms):
            return None
        position = bisect_left(self.numbers, number)
        if position == len(self.numbers) or self.numbers[position] != number:
            insort(self.numbers, number)
        self.drop_expired(stream_time)
        return str(number)

    def drop_expired(self, stream_time: int) -> None:
        first = self.number_of(stream_time - self.retention_ms)
        numbers = self.numbers
        while numbers and numbers[0] < first:
            number = numbers.pop(0)
            self.overlay.drop(str(number))
            self.overlay.drop(f"{_INDEX}{number}")

    def between(self, from_time: int, to_time: int, forward: bool = True) -> list[str]:
        """The key spaces of the segments of a span of time."""
        start = bisect_left(self.numbers, self.number_of(from_time))
        end = bisect_right(self.numbers, self.number_of(to_time))
        found = [str(number) for number in self.numbers[start:end]]
        if not forward:
            found.reverse()
        return found


class SegmentedBytes:
    """Entries by the keys of `schema`; `index_schema`: the same entries are found by key in a second order.

    Entries older than the retention are neither written nor returned; stream time is the largest time that
    was written.
    """

    persistent = True
    _segments: Segments

    def __init__(
        self,
        schema: Any,
        retention_ms: int,
        segment_interval_ms: int,
        index_schema: Any = None,
        *,
        has_headers: bool = False,
        can_upgrade: bool = True,
    ) -> None:
        """`has_headers`, `can_upgrade`: as of `open_files`."""
        self._has_headers, self._can_upgrade = has_headers, can_upgrade
        self.schema = schema
        self.segment_interval_ms = segment_interval_ms
        self.stream_time = -1
        self._index_schema = index_schema
        self._retention_ms = retention_ms
        # a window store that is ordered by time keeps one millisecond more, as Java's does
        is_longer = schema.is_window and schema.is_time_first
        self._live_ms = retention_ms if is_longer else retention_ms - 1

    def open(self, context: StoreContext, name: str) -> None:
        self._context = context
        files = open_files(context, name, has_headers=self._has_headers, can_upgrade=self._can_upgrade)
        self._overlay = Overlay(files)
        self._segments = Segments(self._overlay, self.segment_interval_ms, self._retention_ms)
        self.stream_time = self._overlay.stream_time()

    @property
    def uncommitted_bytes(self) -> int:
        return self._overlay.uncommitted_bytes

    def put(self, key: bytes, value: bytes | None) -> None:
        """`key` is one of the schema; None deletes."""
        if not self._write(key, value):
            self._context.dropped(EXPIRED)

    def restore(self, key: bytes, value: bytes | None) -> None:
        """As `put`, but expired entries are not counted as dropped."""
        self._write(key, value)

    def _write(self, key: bytes, value: bytes | None) -> bool:
        schema = self.schema
        time = schema.segment_time(key)
        if time > self.stream_time:
            self.stream_time = time
        segments = self._segments
        space = segments.create_if_live(segments.number_of(time), self.stream_time)
        if space is None:
            return False
        self._overlay.put(space, key, value)
        if self._index_schema is not None:
            index_key = self._index_schema.key(*schema.split(key))
            self._overlay.put(_INDEX + space, index_key, None if value is None else b"")
        return True

    def put_rows(self, keys: list[bytes], values: list[bytes | None]) -> None:
        times = self.schema.segment_times(keys)
        number_of = self._segments.number_of
        numbers = [number_of(time) for time in times]
        start, count = 0, len(keys)
        while start < count:
            number = numbers[start]
            end = count if numbers.count(number) == count else _end_of_run(numbers, start)
            self._put_run(number, max(times[start:end]), keys[start:end], values[start:end])
            start = end

    def _put_run(self, number: int, latest: int, keys: list[bytes], values: list[bytes | None]) -> None:
        """Write entries of one segment. Whether it has expired is the same before the first and behind the
        last: a segment does not expire by the times of its own entries."""
        if latest > self.stream_time:
            self.stream_time = latest
        space = self._segments.create_if_live(number, self.stream_time)
        if space is None:
            for _ in keys:
                self._context.dropped(EXPIRED)
            return
        self._overlay.put_rows(space, keys, values)
        if self._index_schema is not None:
            index_key, split = self._index_schema.key, self.schema.split
            marks: list[bytes | None] = [None if value is None else b"" for value in values]
            self._overlay.put_rows(_INDEX + space, [index_key(*split(key)) for key in keys], marks)

    def keeps(self, written: list[bytes], read: list[bytes]) -> bool:
        """Whether the entries `read` are still found when those of `written` are written."""
        times_of = self.schema.segment_times
        latest: int = max(self.stream_time, *times_of(written))
        earliest: int = min(times_of(read))
        return earliest >= latest - self._live_ms

    def remove(self, key: bytes) -> None:
        """Delete without creating a segment."""
        time = self.schema.segment_time(key)
        self.stream_time = max(self.stream_time, time)
        if self._segments.find(time) is not None:
            self._write(key, None)

    def get(self, key: bytes) -> bytes | None:
        time = self.schema.segment_time(key)
        if time < self.stream_time - self._live_ms:
            return None
        space = self._segments.find(time)
        return None if space is None else self._overlay.get(space, key)

    def rows(
        self,
        from_key: bytes | None,
        to_key: bytes | None,
        from_time: int,
        to_time: int,
        forward: bool = True,
        is_all_keys: bool = False,
        with_expired: bool = False,
    ) -> Rows:
        """Entries in the order of segments, then of their keys; with an index, in that of the index.

        `is_all_keys`: a read without bounds of keys, which does not use the index. `with_expired`: entries of
        live segments are returned even if they have expired.
        """
        if not with_expired:
            from_time = max(from_time, self.stream_time - self._live_ms)
        schema, prefix = self.schema, ""
        if schema.is_window and to_time < from_time:
            return iter(())
        if self._index_schema is not None and not is_all_keys:
            schema, prefix = self._index_schema, _INDEX
        if from_key is not None and from_key == to_key:
            bounds = schema.key_bounds(from_key, from_time, to_time)
        else:
            bounds = schema.range_bounds(from_key, to_key, from_time, to_time)
        last = to_time if schema.is_window else MAX_TIME
        spaces = self._segments.between(from_time, last, forward)
        rows = self._rows_of(spaces, prefix, bounds, forward)
        found = (row for row in rows if schema.is_inside(row[0], from_key, to_key, from_time, to_time))
        return self._values_of(found) if prefix else found

    def _rows_of(
        self, spaces: list[str], prefix: str, bounds: tuple[bytes | None, bytes | None], forward: bool
    ) -> Rows:
        for space in spaces:
            yield from self._overlay.rows(prefix + space, bounds[0], bounds[1], forward)

    def _values_of(self, index_rows: Rows) -> Rows:
        for index_key, _ in index_rows:
            key = self.schema.key(*self._index_schema.split(index_key))
            value = self.get(key)
            if value is not None:
                yield key, value

    def commit(self, changelog_offset: int | None) -> None:
        self._overlay.commit(changelog_offset, self.stream_time)

    def committed_offset(self) -> int | None:
        return self._overlay.committed_offset()

    def close(self) -> None:
        self._overlay.close()


def _end_of_run(numbers: list[int], start: int) -> int:
    """The position behind the numbers that are equal to that at `start`."""
    number = numbers[start]
    return next((place for place in range(start, len(numbers)) if numbers[place] != number), len(numbers))
