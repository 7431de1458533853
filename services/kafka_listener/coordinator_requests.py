"""Requests to coordinators: forwarded to the node that leads the partition of each id. Pure.

Kafka clients find the coordinator first, and other brokers refuse their requests. Here every node forwards
them; a node that is not the coordinator any more refuses, and the client looks for the coordinator again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.coordinator_ids import partition_of_id
from ...protocol.errors import (
    CoordinatorNotAvailableError,
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
)
from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.envelope import Api
    from .calls import Call

# Bound: the time of another node's response; a request that waits for a rebalance has a timeout of its own.
TIMEOUT_MS = 30_000


class SplitRequest(NamedTuple):
    """How a request with several ids is split by coordinator, and its responses are joined."""

    topic: str
    api: Api
    make: Callable[[Sequence[Any]], Any]  # makes the request for some items
    answers: Callable[[Any], Sequence[Any]]  # the results in its response, in the order of the items
    failed: Callable[[Any, int, str], Any]  # the result of one item: error code and message


def ask_one(
    call: Call,
    topic: str,
    key: str,
    api: Api,
    body: Any,
    then: Callable[[Any], None],
    timeout_ms: int = TIMEOUT_MS,
) -> None:
    """Send the request to the coordinator of one id. Errors: CoordinatorNotAvailableError."""
    _ask_leader(call, leader_of(call, topic, key), api, body, then, call.refuse, timeout_ms)


def ask_many(
    call: Call, many: SplitRequest, items: Sequence[tuple[str, Any]], then: Callable[[list[Any]], None]
) -> None:
    """Send the request to the coordinators of all ids. `items` are pairs of an id and its part of the
    request; `then` gets the results in the order of the items."""
    answers: list[Any] = [None] * len(items)
    parts: dict[int, list[int]] = {}
    for position, (key, item) in enumerate(items):
        try:
            parts.setdefault(leader_of(call, many.topic, key), []).append(position)
        except KafkaError as error:
            answers[position] = many.failed(item, error.code, error.detail)
    left = len(parts)

    def filled(positions: list[int], found: Sequence[Any]) -> None:
        nonlocal left
        for position, answer in zip(positions, found, strict=True):
            answers[position] = answer
        left -= 1
        if not left:
            then(answers)

    def answered(positions: list[int], response: Any) -> None:
        filled(positions, many.answers(response))

    def failed(positions: list[int], error: KafkaError) -> None:
        code, text = error.code, error.detail
        filled(positions, [many.failed(items[position][1], code, text) for position in positions])

    if not parts:
        then(answers)
    for leader, positions in parts.items():
        body = many.make([items[position][1] for position in positions])
        then_part, failed_part = partial(answered, positions), partial(failed, positions)
        _ask_leader(call, leader, many.api, body, then_part, failed_part, TIMEOUT_MS)


def leader_of(call: Call, topic: str, key: str) -> int:
    """The node that leads an id's partition. Errors: CoordinatorNotAvailableError."""
    image = call.host.image.topics.get(topic)
    if image is None:
        raise CoordinatorNotAvailableError("the topic of the coordinators is not created yet")
    leader = image.partitions[partition_of_id(key, len(image.partitions))].leader
    if leader == NO_NODE:
        raise CoordinatorNotAvailableError(f"the partition of {key[:100]!r} has no leader")
    return leader


def _ask_leader(
    call: Call,
    leader: int,
    api: Api,
    body: Any,
    then: Callable[[Any], None],
    failed: Callable[[KafkaError], None],
    timeout_ms: int,
) -> None:
    def failed_there(error: KafkaError) -> None:
        # The other node is not the coordinator, or did not respond: the client looks for the coordinator
        # again.
        if isinstance(error, NetworkError | RequestTimedOutError | ThrottlingQuotaExceededError):
            error = CoordinatorNotAvailableError(f"node {leader}: {error}")
        failed(error)

    if leader == call.host.node_id:
        call.ask(api, body, then, failed=failed)
    else:
        call.ask_node(leader, api, body, then, failed_there, timeout_ms)
