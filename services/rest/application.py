"""The REST application: its routes, and what its requests share."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..web.calls_io import JsonApplication, Reply
from ..web.routes import Route, RouteTable
from ..web.server_io import WebServer
from . import v2_topics, v3_acls, v3_clusters, v3_configs, v3_groups, v3_produce, v3_topics
from .openapi import document, page, page_policy
from .restrictions import NO_RESTRICTIONS, Restrictions
from .settings import RestConfig
from .tails import Tails
from .topic_tail import TailSettings
from .v2_consumers import ConsumerRoutes, Consumers
from .v3_read import ReadRoutes
from .v3_tail import TailRoutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..web.calls_io import Call
    from ..web.client_pool_io import ClientPool
    from ..web.guard_io import Receive, Scope, Send
    from ..web.settings import WebConfig


class Health(msgspec.Struct):
    """The state of the server, and of the cluster if it was asked for."""

    status: Literal["ok"] = "ok"
    cluster_id: str | None = None
    nodes: int | None = None


async def health(_call: Call) -> Health:
    """The server runs; it says nothing about the cluster."""
    return Health()


async def ready(call: Call) -> Health:
    """The cluster responds."""
    found = await call.clients.admin.describe_cluster()
    return Health(cluster_id=found.cluster_id, nodes=len(found.nodes))


class RestApplication:
    """REST as a part of a web server."""

    def __init__(
        self,
        pool: ClientPool,
        web: WebConfig,
        rest: RestConfig,
        restrictions: Restrictions = NO_RESTRICTIONS,
    ) -> None:
        self._restrictions = restrictions
        limits = TailSettings(rest.max_tails, rest.tail_max_event_bytes, rest.tail_heartbeat_ms / 1000)
        self._tails = Tails(pool, limits, restrictions)
        self._consumers = Consumers(pool, rest)
        parts = (
            *(v2_topics, ConsumerRoutes(self._consumers, restrictions)),
            *(v3_clusters, v3_topics, v3_configs, v3_acls, v3_groups),
            *(v3_produce, ReadRoutes(restrictions), TailRoutes(self._tails)),
        )
        self.table = RouteTable((*self._own_routes(), *(route for part in parts for route in part.ROUTES)))
        self._json = JsonApplication(self.table, pool, web)

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Errors: Problem."""
        self._restrictions.check_method(scope["method"])
        await self._json(scope, receive, send)

    def _own_routes(self) -> tuple[Route, ...]:
        return (
            Route(
                "GET", "/health", health, "Whether the server runs", "Server", None, Health, needs_user=False
            ),
            Route("GET", "/health/cluster", ready, "Whether the cluster responds", "Server", None, Health),
            Route(
                "GET", "/openapi.json", self._openapi, "This description", "Server", None, dict[str, Any],
                needs_user=False,
            ),
            Route(
                "GET", "/docs", self._docs, "This description as a page", "Server", None, str,
                returns=("text/html; charset=utf-8",), needs_user=False,
            ),
        )  # fmt: skip

    async def _openapi(self, call: Call) -> dict[str, Any]:
        return document(self.table.routes, call.base_url, version("headrace"))

    async def _docs(self, call: Call) -> Reply:
        shown = page(await self._openapi(call)).encode()
        headers = {"content-security-policy": page_policy()}
        return Reply(shown, 200, call.route.returns[0], headers)

    async def close(self) -> None:
        """End streams and consumers."""
        await self._tails.close()
        await self._consumers.close()


def rest_server(
    web: WebConfig,
    rest: RestConfig | None = None,
    *,
    bootstrap: str | Iterable[str] | None = None,
    client_config: Mapping[str, Any] | None = None,
) -> WebServer:
    """A server with REST alone; as a context manager it runs for the block."""
    make = {"": lambda pool: RestApplication(pool, web, rest or RestConfig())}
    return WebServer(make, web, bootstrap=bootstrap, client_config=client_config, purpose="REST")
