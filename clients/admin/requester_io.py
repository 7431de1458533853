"""Requests of an admin client: to any node, with a deadline and retries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import (
    ApiTimeoutError,
    BrokerIdNotRegisteredError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    KafkaError,
    KafkaStorageError,
    PreferredLeaderNotAvailableError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from ..cluster.backoff import Backoff
from .admin_types import Resource, Results

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from ...protocol.messages.envelope import Api
    from ..cluster.hub_io import Hub
    from ..config import AdminConfig

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


# A producer retries after these; an administrator has to see them.
_FACTS = (
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    PreferredLeaderNotAvailableError,
    EligibleLeadersNotAvailableError,
    ElectionNotNeededError,
    KafkaStorageError,
    ThrottlingQuotaExceededError,  # of an item: the quota may be exhausted for long
)


@dataclass(slots=True)
class Call:
    """One call of the user. `may_have_run` is set after an attempt without a response."""

    deadline_ms: int
    may_have_run: bool = False

    def lost(self) -> None:
        """An attempt had no response."""
        self.may_have_run = True


class AdminRequester:
    """Runs on the loop of `hub`. Timeouts are in seconds; None takes default.api.timeout.ms."""

    def __init__(self, hub: Hub, config: AdminConfig) -> None:
        self.hub, self.config = hub, config
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random)

    def call(self, timeout: float | None) -> Call:
        """A call that begins now, with its deadline."""
        timeout_ms = self.config.api_timeout_ms if timeout is None else int(timeout * 1000)
        return Call(self.hub.now_ms() + timeout_ms)

    def left_ms(self, call: Call) -> int:
        """The timeout of the servers for the next request of the call."""
        return max(min(call.deadline_ms - self.hub.now_ms(), self.config.request_timeout_ms), 1)

    async def ask(self, api: Api, request: Any, call: Call) -> Any:
        """The response of any node. Errors: as `Metadata.request_any`."""
        attempt_ms = self.config.request_timeout_ms
        reply = await self.hub.metadata.request_any(
            api, request, deadline_ms=call.deadline_ms, attempt_ms=attempt_ms, on_lost=call.lost
        )
        return reply.body

    async def nodes(self, call: Call) -> frozenset[int]:
        """The unfenced nodes. Errors: as `Metadata.refresh`."""
        return frozenset((await self.hub.metadata.refresh(call.deadline_ms)).nodes)

    async def ask_node(self, node_id: int, api: Api, request: Any, call: Call) -> Any:
        """The response of one node, within half of the time that is left, so that another one can be asked
        then. The request to a silent node fails when the metadata has the node no more. Errors:
        BrokerIdNotRegisteredError if it is fenced, those of `Hub.request`."""
        nodes = self.hub.metadata.view.nodes
        if node_id not in nodes:
            nodes = (await self.hub.metadata.refresh(call.deadline_ms)).nodes
        if node_id not in nodes:
            raise BrokerIdNotRegisteredError(f"node {node_id} is not registered, or fenced")
        timeout_ms = max(self.left_ms(call) // 2, 1)
        return await self.hub.request(node_id, api, request, timeout_ms=timeout_ms)

    async def one(self, name: str, ask: Callable[[], Awaitable[V | KafkaError]], call: Call) -> V:
        """The result of `ask`, with retries after retriable errors; another error is raised."""

        async def asked(_names: list[str]) -> dict[str, V | KafkaError]:
            return {name: await ask()}

        results: Results[str, V] = await self.retried([name], asked, call)
        return results[name]

    async def retried(self, keys: list[K], ask: Any, call: Call) -> Results[K, V]:
        """Send all keys, then again those with a retriable error (no controller, for instance)."""
        if len(set(keys)) != len(keys):
            raise ValueError(f"the same item twice: {keys!r}")
        outcomes: dict[K, Any] = {}
        left, failures = keys, 0
        while left:
            answers = await ask(left)
            missing = error_from_code(-1, "the answer does not speak of it")
            outcomes.update((key, answers.get(key, missing)) for key in left)
            left = [key for key in left if may_retry(outcomes[key])]
            if any(isinstance(outcomes[key], RequestTimedOutError) for key in left):
                call.lost()
            failures += 1
            wait_ms = self.backoff.wait_ms(failures)
            if left and self.hub.now_ms() + wait_ms >= call.deadline_ms:
                for key in left:
                    cause = outcomes[key]
                    outcomes[key] = ApiTimeoutError(f"{key}: not done in time: {cause}")
                    outcomes[key].__cause__ = cause
                break
            if left:
                await asyncio.sleep(wait_ms / 1000)
        return Results({key: await self.named(key, outcomes[key]) for key in keys})

    async def named(self, key: object, outcome: Any) -> Any:
        """`outcome`; for an unknown topic an error with the most similar name. `key` is a topic name, a
        partition, or a Resource."""
        if not isinstance(outcome, UnknownTopicOrPartitionError):
            return outcome
        if isinstance(key, Resource):
            name = key.name if key.kind == "topic" else ""
        else:
            name = key if isinstance(key, str) else getattr(key, "topic", "")
        if not name or name in await self.hub.metadata.topic_names():
            return outcome  # the partition is unknown, or the node has no replica of it
        return await self.hub.metadata.unknown_topic(name)


def error_of(answer: Any) -> KafkaError | None:
    """The error in a response, or in an item of one."""
    return error_from_code(answer.error_code, answer.error_detail) if answer.error_code else None


def may_retry(outcome: Any) -> bool:
    """Whether a retry may succeed soon."""
    return isinstance(outcome, KafkaError) and outcome.retriable and not isinstance(outcome, _FACTS)
