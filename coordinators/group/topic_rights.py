"""The topics that the clients of members may describe: an expression matches no others. Pure.

Source: Kafka TopicRegexResolver.java filterTopicDescribeAuthorizedTopics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.coordinator_errors import CoordinatorNotAvailableError
from ...protocol.security.acls import AclOperation, Resource, ResourceType
from ...protocol.security.identity import Identity
from ...protocol.security.principals import connection_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...protocol.security.acls import Authorizer

    Client = tuple[str, str]  # principal and host


def topic_filter(authorizer: Authorizer | None, reader: Client | None) -> Callable[[str], bool]:
    """Whether the reader may describe a topic; without rules or a reader, all of them.

    Errors: CoordinatorNotAvailableError while this node does not know the rules.
    """
    if authorizer is None or reader is None:
        return lambda _topic: True
    if not authorizer.is_ready:
        raise CoordinatorNotAvailableError("this node does not have the present rules")
    rules, identity = authorizer, Identity(connection_principal(reader[0]), reader[1])

    def may_describe(topic: str) -> bool:
        return rules.allows(identity, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, topic))

    return may_describe


def common_filter(authorizer: Authorizer | None, readers: Collection[Client]) -> Callable[[str], bool]:
    """Whether all readers may describe a topic.

    Errors: CoordinatorNotAvailableError while this node does not know the rules.
    """
    filters = [topic_filter(authorizer, reader) for reader in sorted(readers)]
    return lambda topic: all(may_describe(topic) for may_describe in filters)
