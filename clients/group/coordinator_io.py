"""Requests to the coordinator of a group or transactional id: finds its node, again after it has moved."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    ApiTimeoutError,
    CoordinatorNotAvailableError,
    KafkaError,
    NetworkError,
    error_from_code,
)
from ...protocol.messages.groups import GROUP_KEY, FindCoordinatorRequest
from ...protocol.messages.registry import FIND_COORDINATOR

if TYPE_CHECKING:
    from ...protocol.messages.envelope import Api
    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub

# A JoinGroup response may take minutes. After this time the metadata is refreshed: if the node has left the
# cluster, the request fails and is sent to the next coordinator.
MAX_WAIT_MS = 10_000


class CoordinatorLink:
    """The coordinator of one key. On the loop of `hub`."""

    def __init__(
        self, hub: Hub, key: str, backoff: Backoff, *, request_timeout_ms: int, key_type: int = GROUP_KEY
    ) -> None:
        self._hub, self._key, self._key_type = hub, key, key_type
        self._backoff, self._request_timeout_ms = backoff, request_timeout_ms
        self._node_id: int | None = None
        self._find_lock = asyncio.Lock()
        self._last_error = ""  # of the search that goes on

    @property
    def node_id(self) -> int | None:
        """The last known coordinator; None while it is not known."""
        return self._node_id

    def forget(self) -> None:
        """Find the coordinator again before the next request."""
        self._node_id = None

    async def ask(
        self, api: Api, body: Any, *, deadline_ms: int, timeout_ms: int | None = None, wait_ms: int = 0
    ) -> Any:
        """Send one request, once, to the coordinator; the caller handles NOT_COORDINATOR in the response.

        Errors: those of the search (ApiTimeoutError, GroupAuthorizationFailedError, ..); KafkaError without a
        response, and the next request finds the coordinator again.
        """
        node_id = await self._find(deadline_ms)
        left_ms = max(deadline_ms - self._hub.now_ms(), 1)
        try:
            return await self._hub.request(
                *(node_id, api, body),
                timeout_ms=min(left_ms, timeout_ms or self._request_timeout_ms),
                wait_ms=min(wait_ms, MAX_WAIT_MS),
            )
        except KafkaError:
            if node_id == self._node_id:
                self.forget()
            raise

    async def _find(self, deadline_ms: int) -> int:
        if self._node_id is not None and self._node_id in self._hub.metadata.view.nodes:
            return self._node_id
        self._last_error = "no node has answered"
        try:
            async with asyncio.timeout(max(deadline_ms - self._hub.now_ms(), 0) / 1000), self._find_lock:
                if self._node_id is None or self._node_id not in self._hub.metadata.view.nodes:
                    self._node_id = await self._find_again(deadline_ms)
                return self._node_id
        except TimeoutError:
            raise ApiTimeoutError(
                f"no coordinator of {self._key!r} was found in time: {self._last_error}"
            ) from None

    async def _find_again(self, deadline_ms: int) -> int:
        failures = 0
        request = FindCoordinatorRequest(self._key_type, (self._key,))
        while True:
            error: KafkaError
            reply = await self._hub.metadata.request_any(
                FIND_COORDINATOR, request, deadline_ms=deadline_ms, attempt_ms=self._request_timeout_ms
            )
            (found,) = reply.body.coordinators
            if not found.error_code:
                if found.node_id not in self._hub.metadata.view.nodes:
                    await self._hub.metadata.refresh(deadline_ms)
                if found.node_id in self._hub.metadata.view.nodes:
                    return int(found.node_id)
                error = NetworkError(f"the coordinator, node {found.node_id}, is not in the cluster")
            else:
                error = error_from_code(found.error_code, found.error_detail)
            if not error.retriable:
                raise error
            failures += 1
            self._last_error = str(error)
            wait_ms = self._backoff.wait_ms(failures)
            if self._hub.now_ms() + wait_ms >= deadline_ms:
                raise ApiTimeoutError(f"{self._key!r} has no coordinator: {error}") from error
            await asyncio.sleep(wait_ms / 1000)


def is_moved(error: KafkaError) -> bool:
    """Whether the error says that another node may be the coordinator."""
    return error.refresh_metadata or isinstance(error, CoordinatorNotAvailableError)
