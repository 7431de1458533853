"""The asyncio side's shared cluster: the hub lives on the user's own event loop, from the first use on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...protocol.errors import ClosedError, HeadraceError
from ...runtime.config import Config
from ..bootstrap import explicit_bootstrap, parse_addresses
from ..cluster.environment_io import environment
from ..cluster.hub_io import Hub, MakeHub, zmq_hub
from ..config import ClientConfigs, ConnectionConfig, given, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from ..options import ConnectionOptions
    from .admin_io import AsyncAdmin
    from .consumer_io import AsyncConsumer
    from .producer_io import AsyncProducer

C = TypeVar("C", bound=Config)


class AsyncClient(Protocol):
    """A producer, consumer or admin client of a cluster."""

    async def close(self, timeout: float | None = None) -> None:
        """Flush and stop."""


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
        self._is_closed = False

    @property
    def hub(self) -> Hub:
        """The hub, made on the running loop at the first use. Errors: ClosedError;
        HeadraceError on another loop."""
        if self._is_closed:
            raise ClosedError("the client was closed")
        if self._hub is None:
            self._hub = self._make_hub(self._bootstrap, self._config)
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

    def producer(self, **options: Any) -> AsyncProducer[Any, Any]:
        """A producer on this cluster; arguments as of `AsyncProducer`."""
        from .producer_io import AsyncProducer

        return AsyncProducer(self, **options)

    def consumer(self, *topics: str, **options: Any) -> AsyncConsumer[Any, Any]:
        """A consumer on this cluster; arguments as of `AsyncConsumer`."""
        from .consumer_io import AsyncConsumer

        return AsyncConsumer(*topics, bootstrap=self, **options)

    def admin(self, **options: Any) -> AsyncAdmin:
        """An admin client on this cluster; arguments as of `AsyncAdmin`."""
        from .admin_io import AsyncAdmin

        return AsyncAdmin(self, **options)

    async def close(self, timeout: float | None = None) -> None:
        """Close all clients of this cluster, flushing producers, within `timeout` seconds."""
        now = asyncio.get_running_loop().time
        ends_at = None if timeout is None else now() + timeout
        for client in list(self._clients):
            await client.close(None if ends_at is None else max(ends_at - now(), 0))
        self._is_closed = True
        if self._hub is not None:
            await self._hub.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


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
