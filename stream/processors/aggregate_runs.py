"""Aggregations of runs of input records, in one compiled loop: a record of a key that waits in front of the
cache changes what waits. Records that are late or dropped go to `process` of the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records import ValueAndTimestamp
from ..state.deferred import PLAIN_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import Forward, InputRun

    Aggregator = Callable[[Any, Any, Any], Any]
    Initializer = Callable[[], Any]

_new = tuple.__new__  # in a third of the time of ValueAndTimestamp(...)


class RunAggregation:
    """What a run needs of its operator. `store`: timestamped, with a cache that forwards what is flushed.
    `is_bound`: the aggregator reads the current record."""

    __slots__ = ("aggregator", "deferred", "initializer", "is_bound", "process", "store")

    def __init__(
        self,
        process: Forward,
        store: Any,
        initializer: Initializer,
        aggregator: Aggregator,
        *,
        is_bound: bool,
    ) -> None:
        self.process, self.store, self.deferred = process, store, store.deferred
        self.initializer, self.aggregator, self.is_bound = initializer, aggregator, is_bound

    def by_key(self, run: InputRun) -> None:
        """Into a key-value store."""
        aggregator, is_bound, use = self.aggregator, self.is_bound, self.deferred.use
        get, put, put_of_run = self.store.get, self.store.put, self.deferred.put_of_run
        waiting, fits, numbers = use()
        place = 0
        try:
            for place, (key, value, timestamp, raw) in enumerate(_rows(run)):
                found = waiting.get(key) if value is not None and type(key) in PLAIN_KEYS else None
                if found is not None and not is_bound:
                    new, newest = aggregator(key, value, found[0]), found[1]
                    if timestamp > newest:
                        newest = timestamp
                    if new is not None and fits(new):
                        waiting[key] = new, newest, raw, next(numbers)
                        continue
                    run.begin(place)
                else:
                    headers = run.begin(place)
                    if key is None or value is None:
                        self.process(key, value, timestamp, headers)
                        continue
                    old, newest = get(key) or (self.initializer(), timestamp)
                    new = aggregator(key, value, old)
                    newest = timestamp if timestamp > newest else newest
                if not put_of_run(key, key, new, newest, raw):
                    put(key, None if new is None else _new(ValueAndTimestamp, (new, newest)))
                if run.is_interrupted():
                    return
                use()
        finally:
            run.begin(place)

    def by_tumbling_window(self, run: InputRun, size_ms: int, grace_ms: int, observed: list[int]) -> None:
        """Into a window store. `observed`: the stream time of the operator, in a list of one."""
        aggregator, is_bound, use = self.aggregator, self.is_bound, self.deferred.use
        fetch, put, put_of_run = self.store.fetch, self.store.put, self.deferred.put_of_run
        waiting, fits, numbers = use()
        stream_time = observed[0]
        start = end = closes_at = 0  # the window of the last record, and the stream time that closes it
        place = 0
        try:
            for place, (key, value, timestamp, raw) in enumerate(_rows(run)):
                if not start <= timestamp < end:
                    start = timestamp - timestamp % size_ms
                    end = start + size_ms
                    closes_at = end + grace_ms
                if key is None or closes_at <= stream_time:
                    self.process(key, value, timestamp, run.begin(place))
                    if run.is_interrupted():  # a late record has been forwarded
                        return
                    stream_time = observed[0]
                    use()
                    continue
                if timestamp > stream_time:
                    observed[0] = stream_time = timestamp
                window = key, start
                found = waiting.get(window) if type(key) in PLAIN_KEYS else None
                if found is not None and not is_bound:
                    new, newest = aggregator(key, value, found[0]), found[1]
                    if timestamp > newest:
                        newest = timestamp
                    if new is not None and fits(new):
                        waiting[window] = new, newest, raw, next(numbers)
                        continue
                    run.begin(place)
                else:
                    run.begin(place)
                    old, newest = fetch(key, start) or (self.initializer(), timestamp)
                    new = aggregator(key, value, old)
                    newest = timestamp if timestamp > newest else newest
                if not put_of_run(key, window, new, newest, raw):
                    put(key, None if new is None else _new(ValueAndTimestamp, (new, newest)), start)
                if run.is_interrupted():
                    return
                use()
        finally:
            run.begin(place)


def _rows(run: InputRun) -> Any:
    return zip(run.keys, run.values, run.timestamps, run.raws)  # noqa: B905  # there are more raws


def count_one(_key: Any, _value: Any, count: int) -> int:
    """The aggregator of a count."""
    return count + 1


def reduce_one(reducer: Callable[[Any, Any], Any]) -> Aggregator:
    """The aggregator of a reduction: the first value is the first result."""

    def aggregator(_key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else reducer(aggregate, value)

    return aggregator
