"""Allowed operations in responses, for clients that ask for them. Pure.

A bit set over Kafka's AclOperation. Source: Kafka AuthHelper.authorizedOperations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.security.acls import Resource, ResourceType

if TYPE_CHECKING:
    from .calls import Call

NOT_ASKED = -(2**31)


def on_topic(call: Call, name: str, *, is_asked: bool) -> int:
    """The operations allowed on a topic, or Kafka's "not requested" value."""
    return call.operations(Resource(ResourceType.TOPIC, name)) if is_asked else NOT_ASKED


def on_group(call: Call, group_id: str, *, is_asked: bool) -> int:
    """The operations allowed on a group, or Kafka's "not requested" value."""
    return call.operations(Resource(ResourceType.GROUP, group_id)) if is_asked else NOT_ASKED


def on_cluster(call: Call, *, is_asked: bool) -> int:
    """The operations allowed on the cluster, or Kafka's "not requested" value."""
    return call.operations_on_cluster() if is_asked else NOT_ASKED
