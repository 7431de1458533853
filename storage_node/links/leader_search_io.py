"""Finds the active controller: asks all known controllers for the leader at once.

The first that leads is used; one that is named by another is asked as well. Addresses that a leader names are
remembered, so that a node finds the quorum after the configured addresses have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError, HeadraceError, NotControllerError
from ...protocol.messages import registry
from ...protocol.messages.quorum import DescribeQuorumRequest
from ...protocol.security.server_keys import CONTROLLER
from ...protocol.transport.dealer_io import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.quorum import DescribeQuorumResponse
    from ...protocol.transport.security import ConnectionSecurity

ControllerLocator = Callable[[], Awaitable[tuple[str, int]]]
ControllerLocators = ControllerLocator | tuple[ControllerLocator, ...]
Endpoint = tuple[str, int]

log = logging.getLogger("headrace.storage_node")

MAX_PORT = 65_535
# Bound: above the timeouts of locators, so that they can fall back to a known address.
LOCATE_TIMEOUT_S = 10.0
# How long the other controllers may take after one has answered that it knows no leader.
GRACE_S = 0.1
# Bound: addresses that are remembered besides those of the locators.
MAX_KNOWN = 16


class ElectingError(NotControllerError):
    """Controllers answer, but none of them leads yet."""


class LeaderSearch:
    """Remembers the controllers' addresses between searches."""

    def __init__(
        self,
        locators: ControllerLocators,
        timeout_s: float,
        *,
        grace_s: float = GRACE_S,
        security: ConnectionSecurity | None = None,
    ) -> None:
        self._locators = locators if isinstance(locators, tuple) else (locators,)
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._security = security
        self._known: tuple[Endpoint, ...] = ()

    async def find(self, client_id: str) -> Connection:
        """A connection to the active controller. Errors: ElectingError; NotControllerError when no controller
        answers."""
        search = _Search(client_id, self._timeout_s, self._grace_s, self._security)
        try:
            async with asyncio.timeout(LOCATE_TIMEOUT_S):
                found = await search.run(self._locators, self._known)
        except TimeoutError:
            raise NotControllerError("no controller answers") from None
        finally:
            await search.close()
        if search.voters:
            self._known = search.voters[:MAX_KNOWN]
        return found


class _Search:
    """One search: a task for each address, also for addresses learned meanwhile."""

    def __init__(
        self, client_id: str, timeout_s: float, grace_s: float, security: ConnectionSecurity | None
    ) -> None:
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._security = security
        self._asked: set[Endpoint] = set()
        self._tasks: set[asyncio.Task[Connection | None]] = set()
        self._troubles: list[str] = []
        self._has_answer = False
        self.voters: tuple[Endpoint, ...] = ()

    async def run(self, locators: Sequence[ControllerLocator], known: Sequence[Endpoint]) -> Connection:
        """Errors: ElectingError, NotControllerError."""
        for locate in locators:
            self._spawn(self._ask_located(locate))
        for endpoint in known:
            self._spawn(self._ask(endpoint))
        while self._tasks:
            grace_s = self._grace_s if self._has_answer else None
            done, _ = await asyncio.wait(self._tasks, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            self._tasks -= done
            found = [connection for task in done if (connection := task.result()) is not None]
            for other in found[1:]:
                other.close()
            if found:
                return found[0]
        if self._has_answer:
            raise ElectingError("no controller leads now")
        raise NotControllerError(f"the controller cannot be reached: {'; '.join(self._troubles[:3])}")

    async def close(self) -> None:
        """Cancel the tasks that are left."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                connection = await task
                if connection is not None:
                    connection.close()

    def _spawn(self, work: Awaitable[Connection | None]) -> None:
        self._tasks.add(asyncio.ensure_future(work))

    async def _ask_located(self, locate: ControllerLocator) -> Connection | None:
        try:
            endpoint = await locate()
        except (HeadraceError, TimeoutError, OSError) as error:
            self._troubles.append(repr(error))
            return None
        return await self._ask(endpoint)

    async def _ask(self, endpoint: Endpoint) -> Connection | None:
        """The connection if this controller leads, else None; the leader that it names is asked next."""
        host, port = endpoint
        if endpoint in self._asked:
            return None
        self._asked.add(endpoint)
        if not 0 < port <= MAX_PORT:
            self._troubles.append(f"the controller has no port yet: {host}:{port}")
            return None
        try:
            connection = await Connection.open(
                host,
                port,
                client_id=self._client_id,
                timeout_s=self._timeout_s,
                security=self._security,
                server=CONTROLLER,
            )
        except (HeadraceError, TimeoutError, OSError) as error:
            self._troubles.append(repr(error))
            return None
        try:
            answer = await self._describe_quorum(connection)
        except BaseException:
            connection.close()
            raise
        if answer is not None and not answer.error_code:
            self.voters = tuple((each.endpoint.host, each.endpoint.port) for each in answer.voters)
            return connection
        connection.close()
        if answer is not None:
            self._has_answer = True
            if answer.leader_id >= 0 and answer.endpoint.port:
                self._spawn(self._ask((answer.endpoint.host, answer.endpoint.port)))
        return None

    async def _describe_quorum(self, connection: Connection) -> DescribeQuorumResponse | None:
        try:
            response = await connection.request(
                registry.DESCRIBE_QUORUM, DescribeQuorumRequest(), timeout_s=self._timeout_s
            )
        except HeadraceError as error:
            self._troubles.append(repr(error))
            return None
        answer: DescribeQuorumResponse = response.body
        return answer


def fixed_locator(host: str, port: int) -> ControllerLocator:
    """A locator of a controller with a fixed address. Errors: ConfigError for an invalid port."""
    if not 0 < port <= MAX_PORT:
        raise ConfigError(f"the port of a controller is between 1 and 65535, not {port}")

    async def locate() -> tuple[str, int]:
        return host, port

    return locate
