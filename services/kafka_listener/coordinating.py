"""Requests for coordinators, wherever they are: asked of the node that leads the partition of each id. Pure.

Kafka lets a client find the coordinator and refuses it at all other nodes. Here any node answers, by asking
the right one; what has moved meanwhile is refused there, and the client looks again.
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

# Bound: how long another node may take; what waits for a rebalance says itself how long that may be.
TIMEOUT_MS = 30_000


class Many(NamedTuple):
    """How a request for several ids is taken apart and put together again."""

    topic: str
    api: Api
    make: Callable[[Sequence[Any]], Any]  # a request for some items
    answers: Callable[[Any], Sequence[Any]]  # those of its response, in the order of the items
    failed: Callable[[Any, int, str], Any]  # the answer for one item: error code and text


def ask_one(
    call: Call,
    topic: str,
    key: str,
    api: Api,
    body: Any,
    then: Callable[[Any], None],
    timeout_ms: int = TIMEOUT_MS,
) -> None:
    """Ask the coordinator of one id. Errors: CoordinatorNotAvailableError."""
    _ask_leader(call, leader_of(call, topic, key), api, body, then, call.refuse, timeout_ms)


def ask_many(
    call: Call, many: Many, items: Sequence[tuple[str, Any]], then: Callable[[list[Any]], None]
) -> None:
    """Ask the coordinators of all ids; `items` are ids with what is asked about them. `then` gets the answers
    in the order of the items."""
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
    """The node that coordinates an id. Errors: CoordinatorNotAvailableError."""
    image = call.host.image.topics.get(topic)
    if image is None:
        raise CoordinatorNotAvailableError("there are no coordinators yet")
    leader = image.partitions[partition_of_id(key, len(image.partitions))].leader
    if leader == NO_NODE:
        raise CoordinatorNotAvailableError(f"nobody leads the partition of {key[:100]!r} now")
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
        # a node answers so for itself, or nobody has answered: a client is to look for the coordinator again
        if isinstance(error, NetworkError | RequestTimedOutError | ThrottlingQuotaExceededError):
            error = CoordinatorNotAvailableError(f"node {leader}: {error}")
        failed(error)

    if leader == call.host.node_id:
        call.ask(api, body, then, failed=failed)
    else:
        call.ask_node(leader, api, body, then, failed_there, timeout_ms)
