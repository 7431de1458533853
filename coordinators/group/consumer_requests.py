"""Validation of ConsumerGroupHeartbeat requests. Source: Kafka GroupCoordinatorService.java
throwIfConsumerGroupHeartbeatRequestIsInvalid; lengths are bounded as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, UnsupportedAssignorError
from ...runtime.config import MAX_INT
from ..runtime.routing import MAX_ID_LENGTH
from .assignors import ASSIGNORS
from .modern_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.groups import ConsumerGroupHeartbeatRequest
    from .assignors.model import Partitions

MAX_TOPICS = 100_000  # Bound: topic names of one subscription, topics of owned partitions
MAX_OWNED = 1_000_000  # Bound: owned partitions of one member


def check_request(body: ConsumerGroupHeartbeatRequest, assignor_names: Sequence[str]) -> None:
    """Errors: InvalidRequestError, UnsupportedAssignorError."""
    if not body.group_id:
        raise InvalidRequestError("the group id is empty")
    if not body.member_id:
        raise InvalidRequestError("the member id is empty: members generate their own")
    texts = {
        "group_id": body.group_id,
        "member_id": body.member_id,
        "instance_id": body.instance_id,
        "rack_id": body.rack_id,
        "client_id": body.client_id,
        "client_host": body.client_host,
    }
    for name, text in texts.items():
        if text is not None and len(text) > MAX_ID_LENGTH:
            raise InvalidRequestError(f"{name} has more than {MAX_ID_LENGTH} characters")
    if body.instance_id == "" or body.rack_id == "":
        raise InvalidRequestError("an instance id or rack id is empty: use null for none")
    _check_epoch(body)
    _check_sizes(body)
    assignor = body.server_assignor
    if assignor is not None and (assignor not in assignor_names or assignor not in ASSIGNORS):
        raise UnsupportedAssignorError(
            f"server assignor {assignor[:100]!r} is not one of {', '.join(assignor_names)}"
        )


def _check_epoch(body: ConsumerGroupHeartbeatRequest) -> None:
    epoch, timeout_ms = body.member_epoch, body.rebalance_timeout_ms
    if not STATIC_LEAVE_EPOCH <= epoch <= MAX_INT:
        raise InvalidRequestError(f"member epoch {epoch} is invalid")
    if epoch == STATIC_LEAVE_EPOCH and body.instance_id is None:
        raise InvalidRequestError(f"member epoch {epoch} is for static members")
    if not (0 < timeout_ms <= MAX_INT or (timeout_ms == -1 and epoch != JOIN_EPOCH)):
        raise InvalidRequestError(f"rebalance timeout {timeout_ms} ms is invalid at member epoch {epoch}")
    if epoch == JOIN_EPOCH:
        if body.owned is None or body.owned:
            raise InvalidRequestError("a joining member must send an empty list of owned partitions")
        if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
            # an empty list is valid: the client resolves an expression of its own, which may match no topic
            # yet
            raise InvalidRequestError(
                "a joining member must send a subscription: topic names, an empty list, or an expression"
            )


def _check_sizes(body: ConsumerGroupHeartbeatRequest) -> None:
    if len(body.subscribed_topic_names or ()) > MAX_TOPICS or len(body.owned or ()) > MAX_TOPICS:
        raise InvalidRequestError(f"more than {MAX_TOPICS} topics")
    if any(len(name) > MAX_ID_LENGTH for name in body.subscribed_topic_names or ()):
        raise InvalidRequestError(f"a topic's name is longer than {MAX_ID_LENGTH} characters")
    if sum(len(each.partitions) for each in body.owned or ()) > MAX_OWNED:
        raise InvalidRequestError(f"more than {MAX_OWNED} partitions")


def owned_by(body: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """The member's owned partitions; None: not reported."""
    if body.owned is None:
        return None
    owned: dict[bytes, tuple[int, ...]] = {}
    for each in body.owned:
        if each.partitions:
            owned[each.topic_id] = tuple(sorted({*owned.get(each.topic_id, ()), *each.partitions}))
    return owned


def is_leaving(body: ConsumerGroupHeartbeatRequest) -> bool:
    """A permanent or temporary leave."""
    return body.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def is_full(body: ConsumerGroupHeartbeatRequest) -> bool:
    """All fields are set, as when a member joins or does not know what the coordinator has."""
    names, regex = body.subscribed_topic_names, body.subscribed_topic_regex
    return (
        body.rebalance_timeout_ms != -1
        and body.owned is not None
        and (names is not None or regex is not None)
    )
