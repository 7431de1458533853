"""Validation of StreamsGroupHeartbeat requests. Source: Kafka GroupCoordinatorService.java
throwIfStreamsGroupHeartbeatRequestIsInvalid; lengths are bounded as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError
from ...runtime.config import MAX_INT
from ..group.modern_member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ..runtime.routing import MAX_ID_LENGTH
from .source_patterns import check_expressions
from .tasks import from_roles
from .topology import check_topology
from .topology_description import check_description

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.messages.streams_groups import StreamsGroupHeartbeatRequest
    from .configured_topology import SubtopologyTasks
    from .tasks import Tasks

MAX_TAGS = 100  # Bound: client tags of a member
MAX_TASKS = 1_000_000  # Bound: tasks that a member reports


def check_request(body: StreamsGroupHeartbeatRequest) -> None:
    """Errors: InvalidRequestError, StreamsInvalidTopologyError."""
    if not body.group_id:
        raise InvalidRequestError("the group id is empty")
    if not body.member_id:
        raise InvalidRequestError("the member id is empty: members generate their own")
    if body.instance_id == "" or body.rack_id == "":
        raise InvalidRequestError("the instance id or rack id is empty: use null for none")
    _check_lengths(body)
    is_static_leave = body.member_epoch == STATIC_LEAVE_EPOCH and body.instance_id is not None
    if body.member_epoch < LEAVE_EPOCH and not is_static_leave:
        raise InvalidRequestError(f"member epoch {body.member_epoch} is invalid")
    if not -1 <= body.rebalance_timeout_ms <= MAX_INT:
        raise InvalidRequestError(f"rebalance timeout {body.rebalance_timeout_ms} ms is invalid")
    reported = (body.active, body.standby, body.warmup)
    if any(tasks is None for tasks in reported) and any(tasks is not None for tasks in reported):
        raise InvalidRequestError("active, standby and warm-up tasks must be reported together")
    if sum(len(each.partitions) for tasks in reported for each in tasks or ()) > MAX_TASKS:
        raise InvalidRequestError(f"the member reports more than {MAX_TASKS} tasks")
    _check_offsets(body)
    if body.member_epoch == JOIN_EPOCH:
        _check_join(body)
    elif body.topology is not None or body.topology_description is not None:
        raise InvalidRequestError("only a joining member may send the topology")


def _check_offsets(body: StreamsGroupHeartbeatRequest) -> None:
    for reported in (body.task_offsets or (), body.task_end_offsets or ()):
        if len(reported) > MAX_TASKS:
            raise InvalidRequestError(f"the member reports offsets of more than {MAX_TASKS} tasks")
        for each in reported:
            if each.offset < 0:
                raise InvalidRequestError(f"offset {each.offset} of task {each.partition} is negative")


def _check_lengths(body: StreamsGroupHeartbeatRequest) -> None:
    texts = {
        "group_id": body.group_id,
        "member_id": body.member_id,
        "instance_id": body.instance_id,
        "rack_id": body.rack_id,
        "process_id": body.process_id,
        "client_id": body.client_id,
        "client_host": body.client_host,
        "user_endpoint": None if body.user_endpoint is None else body.user_endpoint.host,
    }
    for name, text in texts.items():
        if text is not None and len(text) > MAX_ID_LENGTH:
            raise InvalidRequestError(f"{name} has more than {MAX_ID_LENGTH} characters")
    tags = body.client_tags or ()
    if len(tags) > MAX_TAGS:
        raise InvalidRequestError(f"the member has more than {MAX_TAGS} client tags")
    if any(len(text) > MAX_ID_LENGTH for tag in tags for text in tag):
        raise InvalidRequestError(f"a client tag has more than {MAX_ID_LENGTH} characters")


def _check_join(body: StreamsGroupHeartbeatRequest) -> None:
    if body.rebalance_timeout_ms == -1:
        raise InvalidRequestError("a joining member must send its rebalance timeout")
    if body.active or body.standby or body.warmup:
        raise InvalidRequestError("a joining member must have no tasks")
    if not body.process_id:
        raise InvalidRequestError("a joining member must send its process id")
    if body.topology is None:
        raise InvalidRequestError("a joining member must send the topology")
    check_topology(body.topology)
    check_expressions(body.topology)
    if body.topology_description is not None:
        check_description(body.topology_description)


def owned_by(body: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The member's tasks; None: not reported."""
    if body.active is None:
        return None
    return from_roles(body.active, body.standby or (), body.warmup or ())


def check_owned(owned: Tasks | None, subtopologies: Mapping[str, SubtopologyTasks]) -> None:
    """Errors: InvalidRequestError for tasks that do not exist."""
    for subtopology_id, partition in owned or ():
        known = subtopologies.get(subtopology_id)
        if known is None:
            raise InvalidRequestError(f"subtopology {subtopology_id[:100]!r} does not exist in the topology")
        if not 0 <= partition < known.task_count:
            raise InvalidRequestError(
                f"task {partition} of subtopology {subtopology_id!r} is not one of its {known.task_count}"
            )


def is_full(body: StreamsGroupHeartbeatRequest) -> bool:
    """Whether all fields are set, as when a member joins, or does not know the state of the coordinator."""
    return body.rebalance_timeout_ms != -1 and body.active is not None
