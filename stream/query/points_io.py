"""Gets of keys, many in one request: to the instance that has their partitions, as far as the table knows.

What is not answered at once (a task moves, an instance does not respond) is asked again by partition, until
the deadline of its callers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ClosedError, HeadraceError
from ...protocol.messages.streams_queries import StreamsQueryRequest
from ...runtime.clock_io import monotonic_ms
from .batches_io import Batches, Caller, Wait, fail
from .errors import QueryTimeoutError
from .hosts import find
from .queries import KeysQuery
from .wire import POINTS, values_by_partition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence

    from ...protocol.messages.streams_queries import StoreDescription, StreamsQueryResponse
    from .hosts import HostInfo, HostTable
    from .wire import Decoder

GLOBAL = -1  # in place of a partition


class Options(NamedTuple):
    """What the gets of one request have in common, beside the store."""

    bound: tuple[Any, ...]
    max_lag: int
    isolation: str


class Place(NamedTuple):
    """`host` None: the owner of the one partition is to be found."""

    store: str
    options: Options
    host: HostInfo | None
    partition: int


class Asker(NamedTuple):
    """What the handle for queries does for this module. `known`, `partition_of`: from any thread, up to a
    deadline in ms. `request`: one attempt; the response, or why another one may succeed. `read_keys`: the
    rows of a KeysQuery from the owner of a partition, also after moves until the deadline."""

    application_id: str
    known: Callable[[str, int], StoreDescription]
    decoder: Callable[[StoreDescription], Decoder]
    partition_of: Callable[[StoreDescription, bytes, int], int]
    table: Callable[[], HostTable]
    request: Callable[[HostInfo, StreamsQueryRequest, int], Awaitable[StreamsQueryResponse | Exception]]
    read_keys: Callable[[StoreDescription, StreamsQueryRequest, int, int], Awaitable[Sequence[Any]]]


class _Store(NamedTuple):
    description: StoreDescription
    decoder: Decoder
    topics: tuple[str, ...]


class Points:
    """Gets for any thread, by one event loop."""

    def __init__(self, asker: Asker, wake: Callable[[Callable[[], object]], None]) -> None:
        self._asker = asker
        self._batches = Batches(wake, self._ask)
        self._stores: dict[str, _Store] = {}
        self._owners: tuple[HostTable, dict[tuple[str, int], HostInfo | None]] = {}, {}

    def close(self) -> None:
        """What waits gets a ClosedError. Behind the end of the event loop."""
        self._batches.close()

    def get(self, name: str, keys: Sequence[Any], options: Options, deadline_ms: int) -> list[Any]:
        """The values of the keys, in their order; None for one without. Errors: those of a query."""
        store = self._store(name, deadline_ms)
        dumps_key = store.decoder.dumps_key
        caller = Caller(len(keys), deadline_ms)
        wanted: dict[Hashable, list[Wait]] = {}
        for number, key in enumerate(keys):
            data = dumps_key(key)
            partition = GLOBAL
            if store.description.sub_topology >= 0:
                partition = self._asker.partition_of(store.description, data, deadline_ms)
            host = self._owner(store, partition)
            place = Place(name, options, host, partition if host is None else GLOBAL)
            wanted.setdefault(place, []).append(Wait(caller, number, partition, data))
        loads = store.decoder.loads_value
        return [loads(value) for value in self._batches.get(wanted, caller)] if keys else []

    def _store(self, name: str, deadline_ms: int) -> _Store:
        description = self._asker.known(name, deadline_ms)
        found = self._stores.get(name)
        if found is None or found.description is not description:
            topics = tuple(topic for topic, _ in description.topics)
            found = self._stores[name] = _Store(description, self._asker.decoder(description), topics)
        return found

    def _owner(self, store: _Store, partition: int) -> HostInfo | None:
        if partition == GLOBAL:
            return None
        table = self._asker.table()
        known, owners = self._owners
        if known is not table:
            owners = {}
            self._owners = table, owners
        place = store.description.name, partition
        if place not in owners:
            owners[place] = find(table, store.topics, partition).active
        return owners[place]

    # --- on the loop ------------------------------------------------------------------------------------

    async def _ask(self, place: Place, waits: list[Wait]) -> None:
        """One request to the instance; what it does not answer goes on by itself, so that it holds up no
        other keys."""
        if place.host is None:
            await self._ask_owner(place, place.partition, waits)
            return
        request = self._request(place, POINTS, [wait.key for wait in waits], [w.partition for w in waits])
        deadline_ms = min(wait.caller.deadline_ms for wait in waits)
        try:
            found = await self._asker.request(place.host, request, deadline_ms)
        except HeadraceError as error:
            found = error
        values = {} if isinstance(found, Exception) else values_by_partition(found.results)
        moved: dict[int, list[Wait]] = {}
        for wait in waits:
            some = values.get(wait.partition)
            if some is None:
                moved.setdefault(wait.partition, []).append(wait)
            else:
                wait.caller.set(wait.number, next(some))
        for partition, rest in moved.items():
            self._batches.spawn(self._ask_owner(place, partition, rest))

    async def _ask_owner(self, place: Place, partition: int, waits: Iterable[Wait]) -> None:
        left, store = list(waits), self._stores[place.store].description
        try:
            while left:
                request = self._request(place, KeysQuery.__name__, [wait.key for wait in left], ())
                deadline_ms = min(wait.caller.deadline_ms for wait in left)
                try:
                    rows = await self._asker.read_keys(store, request, partition, deadline_ms)
                except QueryTimeoutError as error:
                    now_ms = monotonic_ms()
                    fail([wait for wait in left if wait.caller.deadline_ms <= now_ms], error)
                    left = [wait for wait in left if wait.caller.deadline_ms > now_ms]
                    continue
                for wait, (value,) in zip(left, rows, strict=True):
                    wait.caller.set(wait.number, value)
                return
        except Exception as error:  # noqa: BLE001 - each caller raises it
            fail(left, error)
        except asyncio.CancelledError:
            fail(left, ClosedError("the handle for queries was closed"))
            raise

    def _request(
        self, place: Place, query: str, keys: Iterable[bytes], partitions: Iterable[int]
    ) -> StreamsQueryRequest:
        bound, max_lag, isolation = place.options
        return StreamsQueryRequest(
            *(self._asker.application_id, place.store, query, tuple(keys), tuple(partitions)),
            *(bound, max_lag, isolation),
        )
