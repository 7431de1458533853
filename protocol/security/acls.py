"""Resources, operations and rules of authorization, with Kafka's codes. Pure.

Source: Kafka ResourceType.java, PatternType.java, AclOperation.java, AclPermissionType.java, AclBinding.java,
AclBindingFilter.java, ResourcePatternFilter.java, AclEntry.java (operations of each type).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from .identity import Identity


class ResourceType(IntEnum):
    """The type of a resource. ANY in filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a rule matches resources. ANY and MATCH in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource. ANY in filters only; ALL in rules only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether a rule allows or denies. ANY in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
WILDCARD_RESOURCE = "*"  # the name in a literal rule for all resources of a type
WILDCARD_HOST = "*"
WILDCARD_PRINCIPAL = "User:*"

# The operations that requests require, by resource type; rules may also have ALL.
OPERATIONS_OF: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}


class Resource(NamedTuple):
    """A resource of a request."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class AclBinding(NamedTuple):
    """One rule. `principal`: text like `User:alice` or `User:*`. `host`: an address, a CIDR block, or `*`."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclFilter(NamedTuple):
    """Selects rules. None and ANY match everything; the pattern type MATCH selects the rules that apply to a
    resource with this name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def is_everything(self) -> bool:
        """Whether the filter selects all rules."""
        return self == AclFilter()

    def matches(self, rule: AclBinding) -> bool:
        """Whether the filter selects this rule."""
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self.operation in (AclOperation.ANY, rule.operation)
            and self.permission in (AclPermission.ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: AclBinding) -> bool:
        kind = self.pattern_type
        if kind not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if self.name is None:
            return True
        if kind is not PatternType.MATCH:
            return self.name == rule.name
        if rule.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(rule.name)
        return rule.name in (self.name, WILDCARD_RESOURCE)


class Authorizer(Protocol):
    """Authorizes operations by the rules of the cluster."""

    @property
    def is_ready(self) -> bool:
        """Whether the rules are loaded. Before that, only super users and servers are authorized."""

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        """Whether the connection is allowed the operation on the resource."""

    def allows_some(self, identity: Identity, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the connection is allowed the operation on at least one resource of this type."""
