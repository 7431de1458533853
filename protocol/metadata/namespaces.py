"""Namespaces: quotas of the topics whose names have a prefix. Pure.

Namespaces may be nested; a topic counts in each one whose prefix its name has.
"""

from __future__ import annotations

from typing import NamedTuple

from ..security.acls import (
    WILDCARD_HOST,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ..security.roles import role

NO_LIMIT = -1
_OWNED = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


class Namespace(NamedTuple):
    """A prefix of topic names, the most topics and partitions with it (-1: no limit), and the role that has
    all rights for names with it ("": none)."""

    prefix: str
    max_topics: int = NO_LIMIT
    max_partitions: int = NO_LIMIT
    owner: str = ""


def owner_rules(namespace: Namespace) -> tuple[AclBinding, ...]:
    """The rules of its owner, which exist as long as the namespace has this owner."""
    if not namespace.owner:
        return ()
    principal = str(role(namespace.owner))
    return tuple(
        AclBinding(
            kind,
            namespace.prefix,
            PatternType.PREFIXED,
            principal,
            WILDCARD_HOST,
            AclOperation.ALL,
            AclPermission.ALLOW,
        )
        for kind in _OWNED
    )
