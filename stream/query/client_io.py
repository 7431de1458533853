"""Queries for any key of an application, sent to the instance that has the key.

A result always comes from an instance that had the task at that time. During a move no instance has it, or
the host table is stale: the instance returns NOT_PRESENT, and the query is retried until the deadline.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...clients.cluster.backoff import Backoff
from ...clients.cluster.network import Address
from ...clients.cluster.network_io import ZmqNetwork
from ...clients.config import ConnectionConfig
from ...clients.producer.partitioner import murmur2_sticky
from ...protocol.errors import HeadraceError, KafkaError
from ...protocol.messages.registry import STREAMS_QUERY
from ...protocol.messages.streams_queries import StreamsQueryPartition, StreamsQueryRequest
from ...protocol.transport.security import NO_SECURITY
from ...runtime.clock_io import monotonic_ms
from ...runtime.loop_thread_io import LoopThread
from ...runtime.nearest import did_you_mean
from ..state.store_spec import StoreKind
from ..watch.application import application_view, positions_of
from .errors import (
    InvalidStorePartitionError,
    QueryError,
    QueryTimeoutError,
    ResultTooLargeError,
    StoreMigratedError,
    StoreUnavailableError,
    UnknownStoreError,
    WrongStoreKindError,
    explained,
)
from .hosts import HostInfo, KeyQueryMetadata, find
from .local_io import check_partition
from .points_io import Asker, Options, Points
from .queries import QueryResult, StateQueryResult
from .reports_io import ATTEMPT_MS, reports_of
from .wire import RANGES, Decoder, arguments_of, key_of, offsets_of, position_from

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, TypeVar

    from ...clients.admin.streams_groups import StreamsGroupDescription
    from ...clients.producer.partitioner import Partitioner
    from ...clients.serdes import Serde
    from ...protocol.messages.streams_queries import StoreDescription, StreamsQueryResponse
    from ...protocol.model import TopicPartition
    from ..watch.application import ApplicationView, Report
    from .hosts import HostMetadata
    from .hosts_io import Hosts
    from .secrets_io import QueryKeys

    T = TypeVar("T")

TIMEOUT_S = 10.0
_WAIT_MS, _LONGEST_WAIT_MS = 5, 200
_GRACE_S = 5.0
_MOVING = frozenset(("NOT_PRESENT", "NOT_ACTIVE", "NOT_UP_TO_BOUND"))
_ERRORS: dict[str, type[QueryError]] = {
    "UNKNOWN_STORE": UnknownStoreError,
    "UNKNOWN_QUERY_TYPE": WrongStoreKindError,
    "DOES_NOT_EXIST": InvalidStorePartitionError,
    "NOT_PRESENT": StoreMigratedError,
    "NOT_ACTIVE": StoreUnavailableError,
    "NOT_UP_TO_BOUND": StoreUnavailableError,
    "NOT_RUNNING": StoreUnavailableError,
}


class _Call(NamedTuple):
    """One query while it is tried. `deadline_ms` of the monotonic clock."""

    store: StoreDescription
    request: StreamsQueryRequest
    max_lag: int
    deadline_ms: int


class Queries:
    """A handle for queries to all instances of an application, from any process. Thread-safe.

    `serdes` returns key and value serde of a store by its name. `partitioner`: how the producers of the input
    topics distribute keys, where they do not by the hash. `keys`: for instances that require the secret.
    Close it, or use it in a `with` statement.
    """

    def __init__(
        self,
        application_id: str,
        hosts: Hosts,
        serdes: Callable[[str], tuple[Serde[Any], Serde[Any]]],
        *,
        partitioner: Partitioner = murmur2_sticky,
        timeout_s: float = TIMEOUT_S,
        keys: QueryKeys | None = None,
    ) -> None:
        self._keys = keys
        self.application_id = application_id
        self._hosts = hosts
        self._serdes = serdes
        self._partitioner = partitioner
        self._timeout_s = timeout_s
        self._stores: dict[str, StoreDescription] = {}
        self._closing: asyncio.Event | None = None
        self._random = Random()  # noqa: S311 - jitter, not secrets
        self._backoff = Backoff(_WAIT_MS, _LONGEST_WAIT_MS, self._random)
        self._network: ZmqNetwork | None = None
        self._thread = LoopThread(f"{application_id}-asks", self._run, lambda failure: None)
        asker = Asker(
            *(application_id, self._known, self._decoder, self._partition_now, hosts.table, self._send),
            self._read_keys,
        )
        self._points = Points(asker, self._thread.wake)
        self._thread.start()

    # --- life -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        await self._opened()
        assert self._closing is not None
        await self._closing.wait()
        assert self._network is not None
        await self._network.close()

    async def _opened(self) -> ZmqNetwork:
        if self._network is None:
            self._closing = asyncio.Event()
            config = ConnectionConfig.of({"client.id": f"{self.application_id}-queries"})
            security = NO_SECURITY if self._keys is None else self._keys.of_asker()
            self._network = ZmqNetwork(config, monotonic_ms, self._random, security)
        return self._network

    def close(self) -> None:
        """Close all connections. Waiting queries fail with ClosedError."""
        if self._closing is not None:
            self._thread.wake(self._closing.set)
        self._thread.join(_GRACE_S)
        self._points.close()
        self._hosts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def has_secret(self) -> bool:
        """Whether requests use the secret of the application."""
        return self._keys is not None

    # --- what there is ----------------------------------------------------------------------------------

    def hosts(self) -> Mapping[HostInfo, HostMetadata]:
        """All instances with an application.server, with their partitions. Errors: HeadraceError."""
        self._hosts.refresh(self._timeout_s)
        return self._hosts.table()

    def stores(self, *, timeout_s: float | None = None) -> Mapping[str, StoreDescription]:
        """The stores of the application, as one of its instances returns them. Errors: QueryTimeoutError."""
        self._call(lambda deadline: self._describe(deadline), timeout_s)
        return dict(self._stores)

    def owner(self, store: str, key: Any, *, timeout_s: float | None = None) -> KeyQueryMetadata:
        """Where a key is now: its partition, the host of the active task (None during a move), and those of
        standbys. Errors: UnknownStoreError, QueryTimeoutError."""
        return self._call(lambda deadline: self._owner(store, key, deadline), timeout_s)

    def status(self, *, sample_ms: int = 0, timeout_s: float | None = None) -> ApplicationView:
        """The state of the application: instances, threads, tasks with their lags, stores. From its group and
        its offsets, and where instances have an `application.server` from them as well.

        `sample_ms`: for how long each instance samples the busy operators. Errors: StreamsError if
        there is no such group; HeadraceError.
        """
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        group, committed = self._hosts.group(patience_s)
        reports = self._call(lambda deadline: self._reports(group, sample_ms, deadline), timeout_s)
        lags = self._hosts.lags(positions_of(group, committed, reports), patience_s)
        return application_view(group, committed, reports, lags, time.time_ns() // 1_000_000)

    async def _reports(
        self, group: StreamsGroupDescription, sample_ms: int, deadline_ms: int
    ) -> dict[HostInfo, Report]:
        network = await self._opened()
        return await reports_of(
            network, group, sample_ms=sample_ms, deadline_ms=deadline_ms, has_secret=self.has_secret
        )

    def key_serde(self, store: str) -> Serde[Any]:
        """The serde of the keys of a store. Errors: UnknownStoreError, QueryTimeoutError."""
        self._call(lambda deadline: self._store(store, deadline), None)
        return self._serdes(store)[0]

    # --- queries ----------------------------------------------------------------------------------------

    def get(
        self,
        store: str,
        key: Any,
        *,
        bound: Mapping[TopicPartition, int] | None = None,
        allow_stale: int | None = None,
        isolation: str | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """The value of a key, None without one; without its timestamp. Calls of several threads share
        requests. Options and errors as of `query`."""
        return self._values(store, (key,), bound, allow_stale, isolation, timeout_s)[0]

    def get_many(
        self,
        store: str,
        keys: Iterable[Any],
        *,
        bound: Mapping[TopicPartition, int] | None = None,
        allow_stale: int | None = None,
        isolation: str | None = None,
        timeout_s: float | None = None,
    ) -> dict[Any, Any]:
        """The values of several hashable keys, None for one without value: one request for each instance and
        200 keys. Options and errors as of `query`."""
        wanted = list(keys)
        found = self._values(store, wanted, bound, allow_stale, isolation, timeout_s)
        return dict(zip(wanted, found, strict=True))

    def _values(
        self, store: str, keys: Sequence[Any], bound: Mapping[TopicPartition, int] | None,
        allow_stale: int | None, isolation: str | None, timeout_s: float | None,
    ) -> list[Any]:  # fmt: skip
        options = Options(
            offsets_of(bound) if bound else (), -1 if allow_stale is None else allow_stale, isolation or ""
        )
        seconds = self._timeout_s if timeout_s is None else timeout_s
        return self._points.get(store, keys, options, monotonic_ms() + int(seconds * 1000))

    def query(
        self,
        store: str,
        query: Any,
        *,
        partitions: Iterable[int] | None = None,
        bound: Mapping[TopicPartition, int] | None = None,
        allow_stale: int | None = None,
        isolation: str | None = None,
        timeout_s: float | None = None,
    ) -> StateQueryResult:
        """The results by partition; lists in place of iterators. A query for one key is sent for its
        partition, other queries for `partitions` (None: all partitions of the store).

        `bound`: only stores that have processed the records up to these offsets. `allow_stale`: if the active
        task does not respond, standbys and restoring stores respond that lag by at most this number of
        records. `timeout_s`: of the whole call, retries during a move included.

        Errors: QueryTimeoutError, whose cause is the last reason; UnknownStoreError, WrongStoreKindError,
        InvalidStorePartitionError; ResultTooLargeError for sessions, windows or versions of more rows than
        one answer may have; QueryError for a failure of a store; SerializationError.
        """
        fields = {
            "bound": offsets_of(bound or {}),
            "isolation": isolation or "",
        }
        max_lag = -1 if allow_stale is None else allow_stale
        wanted = None if partitions is None else list(partitions)
        return self._call(
            lambda deadline: self._query(store, query, wanted, fields, max_lag, deadline), timeout_s
        )

    def _call(self, work: Callable[[int], Coroutine[Any, Any, T]], timeout_s: float | None) -> T:
        seconds = self._timeout_s if timeout_s is None else timeout_s
        deadline_ms = monotonic_ms() + int(seconds * 1000)
        return self._until(work(deadline_ms), deadline_ms)

    def _until(self, work: Coroutine[Any, Any, T], deadline_ms: int) -> T:
        """The work ends at its deadline by itself."""
        return self._thread.call(work, max(deadline_ms - monotonic_ms(), 0) / 1000 + _GRACE_S)

    # --- on the loop ------------------------------------------------------------------------------------

    async def _query(
        self,
        name: str,
        query: Any,
        partitions: list[int] | None,
        fields: Mapping[str, Any],
        max_lag: int,
        deadline_ms: int,
    ) -> StateQueryResult:
        store = await self._store(name, deadline_ms)
        decoder = self._decoder(store)
        arguments = arguments_of(query, decoder.dumps_key)
        request = StreamsQueryRequest(
            self.application_id, name, type(query).__name__, arguments, **fields, max_lag=max_lag
        )
        call = _Call(store, request, max_lag, deadline_ms)
        if store.sub_topology < 0:
            found = await self._read(call, -1, query, decoder)
            return StateQueryResult({}, found)
        if partitions is None:
            key = key_of(query)
            partitions = (
                list(range(_count(store)))
                if key is None
                else [await self._partition(store, decoder.dumps_key(key), deadline_ms)]
            )
        for number in partitions:
            check_partition(number, _count(store), name)
        results = await asyncio.gather(*(self._read(call, number, query, decoder) for number in partitions))
        return StateQueryResult(dict(zip(partitions, results, strict=True)))

    def _known(self, name: str, deadline_ms: int) -> StoreDescription:
        """From any thread. Errors: UnknownStoreError, QueryTimeoutError."""
        found = self._stores.get(name)
        return self._until(self._store(name, deadline_ms), deadline_ms) if found is None else found

    def _partition_now(self, store: StoreDescription, key: bytes, deadline_ms: int) -> int:
        """As `_partition`, from any thread."""
        if store.locates and self._partitioner is murmur2_sticky:
            return self._until(self._partition(store, key, deadline_ms), deadline_ms)
        number = self._hashed(store, key)
        check_partition(number, _count(store), store.name)
        return number

    async def _read_keys(
        self, store: StoreDescription, request: StreamsQueryRequest, partition: int, deadline_ms: int
    ) -> Sequence[Any]:
        """The rows of a KeysQuery. Errors: those of a query."""
        call = _Call(store, request, request.max_lag, deadline_ms)
        return (await self._ask(call, partition, None)).rows

    async def _read(self, call: _Call, partition: int, query: Any, decoder: Decoder) -> QueryResult:
        """All rows of one partition."""
        rows: list[Any] = []
        resume: bytes | None = None
        while True:
            found = await self._ask(call, partition, resume)
            # A range continues at its last key, which is read again
            is_again = resume is not None and bool(found.rows) and found.rows[0][0] == resume
            rows += found.rows[1:] if is_again else found.rows
            if not found.has_more:
                break
            if not isinstance(query, RANGES):
                raise ResultTooLargeError(f"more than {len(rows)} rows: ask for a smaller span of time")
            resume = found.rows[-1][0]  # type: ignore[assignment]  # the first column of a range is its key
        return QueryResult(decoder.value(query, rows), position=position_from(found.position))

    async def _ask(self, call: _Call, partition: int, resume: bytes | None) -> StreamsQueryPartition:
        """The result of the owner, or of a standby if that is allowed."""
        topics = [topic for topic, _ in call.store.topics]
        failures = 0
        last: Exception = StoreMigratedError("no instance has the task (yet)")
        while True:
            table = self._hosts.table()
            if partition < 0:
                hosts = sorted(table)
            else:
                where = find(table, topics, partition)
                stale = where.standbys if call.max_lag >= 0 else ()
                hosts = [*([where.active] if where.active is not None else ()), *stale]
            for host in hosts:
                wanted = () if partition < 0 else (partition,)
                request = _with(call.request, partitions=wanted, resume=resume)
                found = await self._send(host, request, call.deadline_ms)
                if isinstance(found, Exception):
                    last = _reason(last, found, failures, call.deadline_ms)
                    continue
                (result,) = found.results
                if not result.failure:
                    return result
                error = _ERRORS.get(result.failure, QueryError)(f"{result.failure}: {result.message}")
                if result.failure not in _MOVING:
                    raise error
                last = error
            failures += 1
            await self._pause(failures, call.deadline_ms, last)

    async def _send(
        self, host: HostInfo, request: StreamsQueryRequest, deadline_ms: int
    ) -> StreamsQueryResponse | Exception:
        """The response, or the reason if a retry may succeed. Errors: QueryError if it cannot."""
        network = await self._opened()
        left_ms = max(deadline_ms - monotonic_ms(), 1)
        try:
            reply = await network.request(
                Address(*host), STREAMS_QUERY, request, timeout_ms=min(left_ms, ATTEMPT_MS)
            )
        except KafkaError as error:
            return explained(error, has_secret=self.has_secret)
        body: StreamsQueryResponse = reply.body
        if not body.failure:
            return body
        refusal = _ERRORS.get(body.failure, QueryError)(f"{host}: {body.failure}: {body.message}")
        if not body.retriable and body.failure != "UNKNOWN_APPLICATION":
            raise refusal
        return refusal

    async def _pause(self, failures: int, deadline_ms: int, last: Exception) -> None:
        """Wait, then refresh the host table. Errors: QueryTimeoutError after the deadline."""
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise QueryTimeoutError(f"no answer in time: {last}") from last
        if failures > 1:
            await asyncio.sleep(min(self._backoff.wait_ms(failures - 1), left_ms) / 1000)
        try:
            await asyncio.to_thread(self._hosts.refresh, max(left_ms, 1) / 1000)
        except HeadraceError as error:
            if monotonic_ms() >= deadline_ms:
                raise QueryTimeoutError(f"no answer in time: {error}") from error

    # --- stores and partitions --------------------------------------------------------------------------

    async def _store(self, name: str, deadline_ms: int) -> StoreDescription:
        if name not in self._stores:
            await self._describe(deadline_ms)
        found = self._stores.get(name)
        if found is None:
            raise UnknownStoreError(f"there is no store {name!r}{did_you_mean(name, self._stores)}")
        return found

    async def _any(self, request: StreamsQueryRequest, deadline_ms: int) -> StreamsQueryResponse:
        """The response of any instance."""
        failures = 0
        last: Exception = StoreMigratedError("no instance is known (yet)")
        while True:
            for host in sorted(self._hosts.table()):
                found = await self._send(host, request, deadline_ms)
                if not isinstance(found, Exception):
                    return found
                last = _reason(last, found, failures, deadline_ms)
            failures += 1
            await self._pause(failures, deadline_ms, last)

    async def _describe(self, deadline_ms: int) -> None:
        found = await self._any(StreamsQueryRequest(self.application_id), deadline_ms)
        self._stores = {store.name: store for store in found.stores}

    async def _partition(self, store: StoreDescription, key: bytes, deadline_ms: int) -> int:
        if store.locates and self._partitioner is murmur2_sticky:
            request = StreamsQueryRequest(self.application_id, store.name, "Locate", (key,))
            return (await self._any(request, deadline_ms)).results[0].partition
        return self._hashed(store, key)

    def _hashed(self, store: StoreDescription, key: bytes) -> int:
        chosen = self._partitioner(store.topics[0][0], key, _count(store))
        if chosen is None:
            raise ValueError("the partitioner chose no partition for the key")
        return chosen

    async def _owner(self, name: str, key: Any, deadline_ms: int) -> KeyQueryMetadata:
        store = await self._store(name, deadline_ms)
        number = await self._partition(store, self._decoder(store).dumps_key(key), deadline_ms)
        await asyncio.to_thread(self._hosts.refresh, self._timeout_s)
        return find(self._hosts.table(), [topic for topic, _ in store.topics], number)

    def _decoder(self, store: StoreDescription) -> Decoder:
        return Decoder(StoreKind(store.kind), *self._serdes(store.name))


def _reason(last: Exception, found: Exception, failures: int, deadline_ms: int) -> Exception:
    """The reason of a timeout. The last attempt may have had too little time to succeed: then the previous
    reason counts."""
    return last if failures > 0 and monotonic_ms() >= deadline_ms else found


def _count(store: StoreDescription) -> int:
    return max((count for _, count in store.topics), default=0)


def _with(request: StreamsQueryRequest, **changes: Any) -> StreamsQueryRequest:
    return msgspec.structs.replace(request, **changes)
