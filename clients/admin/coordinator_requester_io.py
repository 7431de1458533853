"""Requests of an admin client to coordinators: to that of each id, or to all nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    HeadraceError,
    KafkaError,
    NetworkError,
    RequestTimedOutError,
)
from ...protocol.model import NO_NODE
from ..group.coordinator_io import CoordinatorLink, is_moved
from .requester_io import error_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ...protocol.messages.envelope import Api
    from .admin_types import Results
    from .requester_io import AdminRequester, Call

V = TypeVar("V")

# Bound: of ids at the same time; a call may have thousands, and the nodes serve other clients.
MAX_AT_ONCE = 32


class Coordinator:
    """The coordinator of one id, during one call. `may_have_run` is set after an attempt without a
    response."""

    def __init__(self, requester: AdminRequester, key: str, key_type: int, call: Call) -> None:
        self.key = key
        self.may_have_run = False
        self._deadline_ms = call.deadline_ms
        self._link = CoordinatorLink(
            requester.hub,
            key,
            requester.backoff,
            request_timeout_ms=requester.config.request_timeout_ms,
            key_type=key_type,
        )

    @property
    def node_id(self) -> int:
        """The node that responded last; -1 without one."""
        return NO_NODE if self._link.node_id is None else self._link.node_id

    async def ask(self, api: Api, body: Any) -> Any:
        """The response of the coordinator. Errors: as `CoordinatorLink.ask`."""
        try:
            return await self._link.ask(api, body, deadline_ms=self._deadline_ms)
        except (NetworkError, RequestTimedOutError):
            self.may_have_run = True
            raise

    def settle(self, outcome: object) -> None:
        """Handle NOT_COORDINATOR and the like: the next request finds the coordinator again."""
        if isinstance(outcome, KafkaError) and is_moved(outcome):
            self._link.forget()


class CoordinatorRequester:
    """Runs on the loop of the client; `key_type` is that of groups or of transactional ids."""

    def __init__(self, requester: AdminRequester, key_type: int) -> None:
        self._requester = requester
        self._key_type = key_type

    async def each(
        self, keys: Sequence[str], ask: Callable[[Coordinator], Awaitable[V | KafkaError]], call: Call
    ) -> Results[str, V]:
        """The result of `ask` for each id, with retries after retriable errors."""
        known = {key: Coordinator(self._requester, key, self._key_type, call) for key in keys}
        room = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(key: str) -> V | HeadraceError:
            outcome: V | HeadraceError
            async with room:
                try:
                    outcome = await ask(known[key])
                except HeadraceError as error:
                    outcome = error
            known[key].settle(outcome)
            return outcome

        async def all_of(left: list[str]) -> dict[str, V | HeadraceError]:
            return dict(zip(left, await asyncio.gather(*map(one, left)), strict=True))

        return await self._requester.retried(list(keys), all_of, call)

    async def one(self, key: str, ask: Callable[[Coordinator], Awaitable[V | KafkaError]], call: Call) -> V:
        """`each` for one id; its error is raised."""
        return (await self.each([key], ask, call))[key]

    async def everywhere(self, api: Api, body: Any, call: Call) -> dict[int, Any]:
        """The responses of all unfenced nodes, by node id. An error of one node fails the call, because its
        groups would be missing."""

        async def one(node_id: int) -> Any:
            try:
                answer = await self._requester.ask_node(node_id, api, body, call)
            except BrokerIdNotRegisteredError as error:  # it was fenced just now: refresh
                return NetworkError(str(error))
            except KafkaError as error:
                return error
            return error_of(answer) or answer

        async def ask() -> dict[int, Any] | KafkaError:
            nodes = sorted(await self._requester.nodes(call))
            answers = dict(zip(nodes, await asyncio.gather(*map(one, nodes)), strict=True))
            failed = [answer for answer in answers.values() if isinstance(answer, KafkaError)]
            return min(failed, key=lambda error: error.retriable) if failed else answers

        return await self._requester.one(api.name, ask, call)
