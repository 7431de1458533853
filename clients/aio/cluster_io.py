"""The asyncio side's shared cluster: the hub lives on the user's own event loop, from the first use on."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from ...protocol.errors import ClosedError, HeadraceError
from ...runtime.config import Config
from ..bootstrap import explicit_bootstrap, parse_addresses
from ..cluster.cluster_io import EXIT_FLUSH_S
from ..cluster.environment_io import environment
from ..cluster.hub_io import Hub, MakeHub, zmq_hub
from ..config import ClientConfigs, ConnectionConfig, given, resolve
from ..losses_io import raise_first, raise_unless, report_at_exit
from ..producer.partitioner import murmur2_sticky
from ..serdes import bytes_

if TYPE_CHECKING:
    import re
    from collections.abc import AsyncGenerator, Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from ..consumer.incoming import OnDeserializeError
    from ..consumer.interceptors import SomeConsumerInterceptor
    from ..group.assignors import Assignor
    from ..group.listeners import SomeListener
    from ..options import AdminOptions, ConnectionOptions, ConsumerOptions, ProducerOptions
    from ..producer.outgoing_io import SomeProducerInterceptor
    from ..producer.partitioner import Partitioner
    from ..records import K, V
    from ..serdes import Deserializer, Serializer
    from .admin_io import AsyncAdmin
    from .consumer_io import AsyncConsumer
    from .producer_io import AsyncProducer

C = TypeVar("C", bound=Config)

_BYTES: Any = bytes_


class AsyncClient(Protocol):
    """A producer, consumer or admin client of a cluster."""

    async def close(self, timeout: float | None = None) -> None:
        """Flush and stop."""

    def forked(self) -> None:
        """This process is a forked child: nothing works any more."""


class AsyncCluster:
    """A cluster to make asyncio clients from; belongs to the event loop of its first use.

    `config` may hold keys of any client; they are the defaults of the clients made here.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        make_hub: MakeHub = zmq_hub,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        self.values = given(config, options, ClientConfigs)
        self._config = resolve(ConnectionConfig, self.values, environment())
        self._bootstrap = explicit_bootstrap(bootstrap, environment())
        if self._bootstrap is not None:
            parse_addresses(self._bootstrap)  # a bad address fails here, in the caller's hands
        self._make_hub = make_hub
        self._hub: Hub | None = None
        self._clients: dict[AsyncClient, None] = {}
        self._is_closed, self._closed_because = False, "the client was closed"
        self._until_loop_ends: AsyncGenerator[None] | None = None
        _open.add(self)

    @property
    def hub(self) -> Hub:
        """The hub, made on the running loop at the first use. Errors: ClosedError;
        HeadraceError on another loop."""
        if self._is_closed:
            raise ClosedError(self._closed_because)
        if self._hub is None:
            self._hub = self._make_hub(self._bootstrap, self._config)
            self._until_loop_ends = started(self._close_when_the_loop_ends())
        elif self._hub.loop is not asyncio.get_running_loop():
            raise HeadraceError("this client belongs to another event loop; make one per loop")
        if self._hub.failure is not None:
            raise self._hub.failure
        return self._hub

    def add(self, client: AsyncClient) -> None:
        """Register a client, to be closed with the cluster."""
        self._clients[client] = None

    def remove(self, client: AsyncClient) -> None:
        """Forget a closed client."""
        self._clients.pop(client, None)

    def producer(
        self,
        *,
        key: Serializer[K] = _BYTES,
        value: Serializer[V] = _BYTES,
        partitioner: Partitioner = murmur2_sticky,
        interceptors: Iterable[SomeProducerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> AsyncProducer[K, V]:
        """A producer on this cluster; arguments as of `AsyncProducer`."""
        from .producer_io import AsyncProducer

        return AsyncProducer(
            self,
            key=key,
            value=value,
            partitioner=partitioner,
            interceptors=interceptors,
            config=config,
            **options,
        )

    def consumer(
        self,
        *topics: str,
        key: Deserializer[K] = _BYTES,
        value: Deserializer[V] = _BYTES,
        iter_timeout: float | None = None,
        on_deserialize_error: OnDeserializeError = "raise",
        pattern: str | re.Pattern[str] | None = None,
        listener: SomeListener | None = None,
        assignors: Iterable[str | Assignor] | None = None,
        interceptors: Iterable[SomeConsumerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> AsyncConsumer[K, V]:
        """A consumer on this cluster; arguments as of `AsyncConsumer`."""
        from .consumer_io import AsyncConsumer

        return AsyncConsumer(
            *topics,
            bootstrap=self,
            key=key,
            value=value,
            iter_timeout=iter_timeout,
            on_deserialize_error=on_deserialize_error,
            pattern=pattern,
            listener=listener,
            assignors=assignors,
            interceptors=interceptors,
            config=config,
            **options,
        )

    def admin(
        self, *, config: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]
    ) -> AsyncAdmin:
        """An admin client on this cluster; arguments as of `AsyncAdmin`."""
        from .admin_io import AsyncAdmin

        return AsyncAdmin(self, config=config, **options)

    async def close(self, timeout: float | None = None) -> None:
        """Close all clients of this cluster, flushing producers, within `timeout` seconds.

        Errors: the first of theirs, after everything is closed; the others are logged. After a cancellation
        nothing more is flushed, but what that loses is logged.
        """
        now = asyncio.get_running_loop().time
        ends_at = None if timeout is None else now() + timeout
        errors: list[BaseException] = []
        try:
            for client in list(self._clients):
                try:
                    await client.close(None if ends_at is None else max(ends_at - now(), 0))
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised below
                    ends_at = ends_at if isinstance(error, Exception) else now()
                    errors.append(error)
        finally:
            await self._release()
        raise_first(errors)

    def forked(self) -> None:
        """In a forked child: the loop's sockets belong to the parent, and so do the records under way."""
        self._is_closed = True
        self._closed_because = "this client belongs to the parent process; make a new one after fork"
        for client in self._clients:
            client.forked()

    async def _release(self) -> None:
        self._is_closed = True
        _open.discard(self)
        if self._hub is not None:
            await self._hub.close()
        generator, self._until_loop_ends = self._until_loop_ends, None
        if generator is not None:
            await generator.aclose()

    async def _close_when_the_loop_ends(self) -> AsyncGenerator[None]:
        """Suspended while the cluster is open. `asyncio.run`, and whatever else ends a loop, closes it by
        `shutdown_asyncgens`; the garbage collector closes it for a cluster that nothing refers to."""
        try:
            yield
        finally:
            if not self._is_closed:
                self._until_loop_ends = None  # running
                try:
                    await self.close(EXIT_FLUSH_S)
                except Exception as lost:  # noqa: BLE001 - the loop ends: nothing could catch it
                    report_at_exit(lost)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as lost:  # noqa: BLE001 - raised, or logged behind the block's own
            raise_unless(error, lost)


def started(generator: AsyncGenerator[None]) -> AsyncGenerator[None]:
    """Run it to its first `yield`, before which it must not wait. Its loop closes it from then on."""
    try:
        generator.asend(None).send(None)
    except StopIteration:
        return generator
    raise AssertionError("the generator waits before its first yield")


_open: WeakSet[AsyncCluster] = WeakSet()


def _after_fork_in_child() -> None:
    for cluster in list(_open):
        cluster.forked()


os.register_at_fork(after_in_child=_after_fork_in_child)


def attach_async(
    bootstrap: str | Iterable[str] | AsyncCluster | None,
    schema: type[C],
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> tuple[AsyncCluster, C, bool]:
    """(the cluster, the client's config, whether the client owns that cluster). Errors: ConfigError."""
    if isinstance(bootstrap, AsyncCluster):
        values = {**bootstrap.values, **given(config, options, (schema,))}
        return bootstrap, resolve(schema, values, environment()), False
    values = given(config, options, (schema, ConnectionConfig))
    return AsyncCluster(bootstrap, config=values), resolve(schema, values, environment()), True


def connect(
    bootstrap: str | Iterable[str] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    **options: Unpack[ConnectionOptions],
) -> AsyncCluster:
    """Open a cluster for several asyncio clients; None takes HEADRACE_BOOTSTRAP, or finds the one on Ray.

    Returns at once: nothing is connected before a client asks. Errors: ConfigError.
    """
    return AsyncCluster(bootstrap, config=config, **options)
