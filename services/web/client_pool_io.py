"""The clients of each user of the web server: made at the first request, kept for the next ones, closed when
idle. Belongs to the event loop of the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from ...clients.aio.cluster_io import connect
from ...clients.cluster.environment_io import resolved
from ...clients.config import ClientConfigs, ConnectionConfig, given
from ...protocol.errors import SaslAuthenticationFailedError
from .credentials import ANONYMOUS, Credentials, credentials_of, method_of, unauthorized
from .problems import Problem
from .settings import AUTO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from ...clients.aio.admin_io import AsyncAdmin
    from ...clients.aio.cluster_io import AsyncCluster
    from ...clients.aio.producer_io import AsyncProducer
    from .settings import WebConfig

log = logging.getLogger("headrace.web")
CLOSE_TIMEOUT_S = 5.0
# Bound: topics of a user that requests need not look up.
MAX_KNOWN_TOPICS = 10_000


class UserClients:
    """The clients of one user. `acquire` and `release` count the requests that use them."""

    def __init__(self, cluster: AsyncCluster, credentials: Credentials, now_s: float) -> None:
        self.cluster, self.credentials = cluster, credentials
        self.users, self.used_at_s = 0, now_s
        self.is_dropped = False
        self._cluster_id, self._known_topics = "", set[str]()
        self._admin: AsyncAdmin | None = None
        self._producer: AsyncProducer | None = None

    @property
    def name(self) -> str:
        """The user's name for logs and audit; empty for the server's own user."""
        return self.credentials.username

    @property
    def admin(self) -> AsyncAdmin:
        """That of all requests of the user."""
        if self._admin is None:
            self._admin = self.cluster.admin()
        return self._admin

    async def cluster_id(self) -> str:
        """The id of the cluster, which never changes."""
        if not self._cluster_id:
            self._cluster_id = (await self.admin.describe_cluster()).cluster_id
        return self._cluster_id

    async def check_topic(self, name: str) -> None:
        """Errors: UnknownTopicOrPartitionError, now and not after a wait of the producer for the topic."""
        if name not in self._known_topics:
            _ = (await self.admin.describe_topics(name))[name]  # raises its error
            if len(self._known_topics) >= MAX_KNOWN_TOPICS:
                self._known_topics.clear()
            self._known_topics.add(name)

    @property
    def producer(self) -> AsyncProducer:
        """That of all requests of the user."""
        if self._producer is None:
            self._producer = self.cluster.producer()
        return self._producer


class ClientPool:
    """Clients by credentials: at most `max.users`, the least recently used are replaced."""

    def __init__(
        self, bootstrap: str | Iterable[str] | None, config: Mapping[str, Any], web: WebConfig
    ) -> None:
        self._bootstrap = bootstrap
        timeout = {"default.api.timeout.ms": web.request_timeout_ms, "max.block.ms": web.request_timeout_ms}
        self._config = {"client.id": "headrace-web", **timeout, **config}
        self._web = web
        self.method = web.authentication_method
        if self.method == AUTO:  # others work without a user of the server's own
            self.method = method_of(resolved(ConnectionConfig, given(self._config, {}, ClientConfigs)))
        self._entries: dict[Credentials, UserClients] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def credentials(self, authorization: str | None) -> Credentials:
        """The credentials of a request. Errors: Problem 401."""
        return credentials_of(authorization, self.method)

    def acquire(self, credentials: Credentials = ANONYMOUS) -> UserClients:
        """The clients of a user, which stay open until `release`. Errors: Problem 503 if too many users are
        active; ConfigError."""
        now_s = asyncio.get_running_loop().time()
        entry = self._entries.pop(credentials, None)
        if entry is None:
            self._make_room()
            config = credentials.client_config(self._config)
            entry = UserClients(connect(self._bootstrap, config=config), credentials, now_s)
        self._entries[credentials] = entry  # the most recently used one is the last
        entry.users += 1
        entry.used_at_s = now_s
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return entry

    @staticmethod
    def keep(entry: UserClients) -> None:
        """Acquire clients that are in use for another task; `release` them once more."""
        entry.users += 1

    def release(self, entry: UserClients) -> None:
        """Give clients of `acquire` back."""
        entry.users -= 1
        entry.used_at_s = asyncio.get_running_loop().time()
        if entry.is_dropped and not entry.users:
            self._close_later(entry)

    @contextlib.asynccontextmanager
    async def use(self, credentials: Credentials = ANONYMOUS) -> AsyncIterator[UserClients]:
        """The clients of a user, for the block. An authentication error in it becomes Problem 401, and these
        clients are not used again."""
        entry = self.acquire(credentials)
        try:
            yield entry
        except SaslAuthenticationFailedError as error:
            self.drop(entry)
            if credentials.is_anonymous:
                raise Problem(
                    503, "the cluster does not accept the credentials of this server", 50301
                ) from error
            raise unauthorized(self.method, "the cluster does not accept these credentials") from error
        finally:
            self.release(entry)

    def drop(self, entry: UserClients) -> None:
        """Close these clients as soon as their last user has released them."""
        if self._entries.get(entry.credentials) is entry:
            del self._entries[entry.credentials]
        entry.is_dropped = True

    async def close(self) -> None:
        """End the connections of all users."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        entries, self._entries = list(self._entries.values()), {}
        for entry in entries:
            self._close_later(entry)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _make_room(self) -> None:
        if len(self._entries) < self._web.max_users:
            return
        idle = next((each for each in self._entries.values() if not each.users), None)
        if idle is None:
            raise Problem(503, f"{len(self._entries)} users are active, which is max.users", 50301)
        self.drop(idle)
        self._close_later(idle)

    async def _sweep(self) -> None:
        idle_s = self._web.user_idle_ms / 1000
        while True:
            await asyncio.sleep(idle_s / 2)
            oldest = asyncio.get_running_loop().time() - idle_s
            for entry in [x for x in self._entries.values() if not x.users and x.used_at_s < oldest]:
                self.drop(entry)
                self._close_later(entry)

    def _close_later(self, entry: UserClients) -> None:
        task = asyncio.get_running_loop().create_task(_closed(entry.cluster))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _closed(cluster: AsyncCluster) -> None:
    try:
        await cluster.close(CLOSE_TIMEOUT_S)
    except Exception as error:  # noqa: BLE001 - no request waits for it
        log.warning("clients of a user of the web server were closed with an error: %s", error)
