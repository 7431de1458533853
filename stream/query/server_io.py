"""Serves queries of other processes to the stores of this instance, at `application.server`.

One thread with an event loop: point queries are executed in the call that receives them, other queries by a
second thread, one after the other. Both are bounded: the transport rejects requests above its limits, and
range queries beyond `MOST_WAITING` waiting ones are rejected.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...clients.serdes import BAD_DATA
from ...protocol.errors import HeadraceError, ThrottlingQuotaExceededError
from ...protocol.messages.registry import STREAMS_QUERY
from ...protocol.messages.streams_queries import (
    StoreDescription,
    StreamsQueryPartition,
    StreamsQueryResponse,
)
from ...protocol.transport.peers import RouterLimits, ServerIdentity
from ...protocol.transport.router_io import Router
from ...runtime.loop_thread_io import LoopThread
from ..topology.specs import SinkSpec, WindowedKeyPartitioner
from .errors import QueryError, UnknownStoreError
from .hosts import HostInfo
from .queries import FailureReason, KeysQuery
from .secrets_io import query_keys
from .wire import (
    POINT_QUERIES,
    POINTS,
    STATUS,
    offsets_of,
    points_from,
    position_from,
    query_from,
    read_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.streams_queries import StreamsQueryRequest
    from ...protocol.messages.streams_status import InstanceStatus
    from ...protocol.transport.peers import Request
    from ..config import StreamsConfig
    from ..state.store_spec import StoreKind
    from .local_io import LocalStores, StoreInfo
    from .secrets_io import QueryKeys
    from .wire import Rows

log = logging.getLogger("headrace.stream")

MOST_WAITING = 64  # ranges
MOST_KEYS = 200  # that are read in the event loop's call
_START_S = 30.0
_STOP_S = 10.0
_SWITCH_S = 0.0005
_LIMITS = RouterLimits(
    max_request_bytes=1 << 20,
    max_body_bytes=1 << 20,
    max_frames=8,
    max_peers=1024,
    max_queued_bytes=16 << 20,
    max_response_bytes_pending=128 << 20,
    max_peer_response_bytes_pending=32 << 20,
)


def listen(
    stores: LocalStores,
    config: StreamsConfig,
    status: Callable[[int], InstanceStatus],
    protocol: Callable[[], str],
) -> tuple[QueryServer | None, StreamsConfig]:
    """The started server of an instance, and its config with the port; None without application.server.
    `protocol`: the security protocol of the instance's clients. Errors: OSError if the port cannot be used;
    ConfigError without a secret if the protocol requires one."""
    if config.endpoint is None:
        return None, config
    host, port = config.endpoint
    keys = query_keys(config, config.application_id) if config.needs_query_secret(protocol()) else None
    server = QueryServer(stores, config.application_id, host, port, status, keys)
    server.start()
    return server, config.merged({"application.server": str(HostInfo(host, server.port))})


class QueryServer:
    """Listens from `start` to `close`. A query for a task that has moved, or is being restored, fails with
    that reason."""

    def __init__(
        self,
        stores: LocalStores,
        application_id: str,
        host: str,
        port: int,
        status: Callable[[int], InstanceStatus] | None = None,
        keys: QueryKeys | None = None,
    ) -> None:
        """`status` samples the operators of the instance for this number of ms, and returns its status; None:
        it has none. `keys` None: every client can query."""
        self._security = None if keys is None else keys.of_server()
        self._stores = stores
        self._status = status
        self._samples = ThreadPoolExecutor(1, f"{application_id}-status")
        self._application_id = application_id
        self._address = host, port
        self.port = port
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._router: Router | None = None
        self._ranges = ThreadPoolExecutor(1, f"{application_id}-ranges")
        self._waiting = 0
        self._thread = LoopThread(f"{application_id}-queries", self._serve, self._ended)

    def start(self) -> None:
        """Errors: OSError if the port cannot be used."""
        # A busy stream thread releases the interpreter lock after this time; the default is 5 ms
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._thread.start()
        self._started.wait(_START_S)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop serving; clients retry queries without a response."""
        if not self._thread.has_ended and self._router is not None:
            router = self._router
            self._thread.wake(router.close)
            self._thread.join(_STOP_S)
        for pool in (self._ranges, self._samples):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        router = Router(
            *self._address,
            self._receive,
            [STREAMS_QUERY],
            ServerIdentity(cluster_id=self._application_id),
            _LIMITS,
            self._security,
        )
        self.port = router.start()
        self._router = router
        self._started.set()
        await router.run()

    def _ended(self, failure: BaseException | None) -> None:
        self._failure = failure
        if failure is not None and self._started.is_set():
            log.error("the query server of %s ended", self._application_id, exc_info=failure)
        self._started.set()

    # --- requests ---------------------------------------------------------------------------------------

    def _receive(self, request: Request) -> None:
        """Errors: ThrottlingQuotaExceededError if too many ranges wait."""
        body: StreamsQueryRequest = request.body
        router = self._router
        assert router is not None
        is_short = body.query in _KEYS and len(body.arguments) <= MOST_KEYS
        if not body.query or body.query == "Locate" or body.query in _POINTS or is_short:
            router.reply(request, self._answer(body))
            return
        if self._waiting >= MOST_WAITING:
            raise ThrottlingQuotaExceededError(f"{self._waiting} range queries wait already")
        self._waiting += 1
        pool = self._samples if body.query == STATUS else self._ranges  # a sample may take a second
        answered = asyncio.get_running_loop().run_in_executor(pool, self._answer, body)

        def reply(done: asyncio.Future[StreamsQueryResponse]) -> None:
            self._waiting -= 1
            if not done.cancelled():
                router.reply(request, done.result())

        answered.add_done_callback(reply)

    def _answer(self, body: StreamsQueryRequest) -> StreamsQueryResponse:
        try:
            return self._respond(body)
        except UnknownStoreError as error:
            return StreamsQueryResponse("UNKNOWN_STORE", str(error))
        except QueryError as error:
            return StreamsQueryResponse("NOT_RUNNING", str(error), error.retriable)
        except (HeadraceError, ValueError, *BAD_DATA) as error:
            return StreamsQueryResponse("INVALID", f"{type(error).__name__}: {error}")

    def _respond(self, body: StreamsQueryRequest) -> StreamsQueryResponse:
        if body.application_id != self._application_id:
            return StreamsQueryResponse(
                "UNKNOWN_APPLICATION",
                f"this is an instance of application {self._application_id!r}, not {body.application_id!r}",
            )
        if not body.query:
            infos = self._stores.infos()
            return StreamsQueryResponse(stores=tuple(map(self._describe, infos.values())))
        if body.query == STATUS:
            return self._tell_status(body.arguments)
        info = self._stores.info(body.store)
        if body.query == "Locate":
            number = self._locate(info, body.arguments)
            return StreamsQueryResponse(results=(StreamsQueryPartition(number),))
        isolation = body.isolation or None
        if body.query == POINTS and info.sub_topology is not None:
            points = points_from(body.arguments, body.partitions)
            found = self._stores.read_keys(
                info,
                {number: _read_of(query) for number, query in points.items()},
                bound=position_from(body.bound),
                max_lag=body.max_lag,
                isolation=isolation,
            )
            return StreamsQueryResponse(results=tuple(map(_values, found.items())))
        query = query_from(body.query, body.arguments)
        results = self._stores.read(
            info,
            lambda kind, reader: read_rows(kind, reader, query, body.resume),
            partitions=body.partitions or None,
            bound=position_from(body.bound),
            max_lag=body.max_lag,
            isolation=isolation,
            in_bytes=True,
        )
        return StreamsQueryResponse(results=tuple(map(_partition, results.items())))

    def _tell_status(self, arguments: tuple[Any, ...]) -> StreamsQueryResponse:
        """Errors: ValueError for arguments that are not a number of ms."""
        if self._status is None or len(arguments) != 1 or type(arguments[0]) is not int:
            raise ValueError("a status has one argument: for how many ms operators are sampled")
        return StreamsQueryResponse(status=self._status(arguments[0]))

    def _describe(self, info: StoreInfo) -> StoreDescription:
        if info.sub_topology is None:
            return StoreDescription(info.name, info.kind.value, -1)
        plan = self._stores.plan()
        topics = sorted(plan.sources[info.sub_topology])
        counts = tuple((topic, plan.partitions.get(topic, 0)) for topic in topics)
        locates = self._partitioner(info) is not None
        return StoreDescription(info.name, info.kind.value, info.sub_topology, counts, locates)

    def _partitioner(self, info: StoreInfo) -> tuple[str, Any] | None:
        """An input topic, and the partitioner by which the application distributes its keys."""
        plan = self._stores.plan()
        assert info.sub_topology is not None
        own = {
            node.topic: node.partitioner
            for sub_topology in plan.sub_topologies.values()
            for node in sub_topology.nodes
            if isinstance(node, SinkSpec) and isinstance(node.topic, str)
            if node.partitioner is not None and not isinstance(node.partitioner, WindowedKeyPartitioner)
        }
        # Co-partitioned topics have the same distribution: that of one without a function of the application
        topics = sorted(plan.sources[info.sub_topology])
        if not topics or any(topic not in own for topic in topics):
            return None
        return topics[0], own[topics[0]]

    def _locate(self, info: StoreInfo, arguments: tuple[Any, ...]) -> int:
        """Errors: ValueError for a partitioner that names no partition, or several."""
        found = None if info.sub_topology is None else self._partitioner(info)
        if found is None or len(arguments) != 1 or not isinstance(arguments[0], bytes):
            raise ValueError("keys of this store are distributed by the hash of their bytes")
        topic, partitioner = found
        key = self._stores.typed_key(info, arguments[0])
        chosen = partitioner(topic, key, None, self._stores.plan().partitions[topic])
        if not isinstance(chosen, int):
            raise ValueError(f"the partitioner of {topic} chose {chosen!r}, not one partition")  # noqa: TRY004
        return chosen


_POINTS = frozenset(each.__name__ for each in POINT_QUERIES)
_KEYS = frozenset((POINTS, KeysQuery.__name__))


def _read_of(query: KeysQuery) -> Callable[[StoreKind, Any], Rows]:
    return lambda kind, reader: read_rows(kind, reader, query, None)


def _values(found: tuple[int, Any]) -> StreamsQueryPartition:
    """Without the position, which gets do not give."""
    number, result = found
    if result.failure is not None:
        return StreamsQueryPartition(number, FailureReason(result.failure).name, result.message)
    return StreamsQueryPartition(number, rows=result.value.rows)


def _partition(found: tuple[int, Any]) -> StreamsQueryPartition:
    number, result = found
    position = offsets_of(result.position)
    if result.failure is not None:
        return StreamsQueryPartition(number, FailureReason(result.failure).name, result.message, position)
    return StreamsQueryPartition(number, "", "", position, result.value.rows, result.value.has_more)
