"""The rights of one connection, and the errors of unauthorized operations. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import (
    ClusterAuthorizationFailedError,
    DelegationTokenAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from ...protocol.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from ...protocol.security.required_operations import Scope

if TYPE_CHECKING:
    from ...protocol.errors import KafkaError
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.security.acls import Authorizer
    from ...protocol.security.identity import Identity
    from ...protocol.security.required_operations import Need

_ERRORS: dict[ResourceType, tuple[type[KafkaError], str]] = {
    ResourceType.TOPIC: (TopicAuthorizationFailedError, "Topic authorization failed."),
    ResourceType.GROUP: (GroupAuthorizationFailedError, "Group authorization failed."),
    ResourceType.CLUSTER: (ClusterAuthorizationFailedError, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        TransactionalIdAuthorizationFailedError,
        "Transactional Id authorization failed.",
    ),
    ResourceType.DELEGATION_TOKEN: (
        DelegationTokenAuthorizationFailedError,
        "Delegation Token authorization failed.",
    ),
    ResourceType.USER: (DelegationTokenAuthorizationFailedError, "Delegation Token authorization failed."),
}


Note = Callable[[AclOperation, Resource, bool], None]  # whether it is allowed


def refusal(kind: ResourceType) -> KafkaError:
    """The error for a resource of this type. It does not name the resource: others see the text, too."""
    error, text = _ERRORS[kind]
    return error(text)


class Access:
    """The rights of one connection, by the rules at one moment."""

    __slots__ = ("authorizer", "identity", "image", "note")

    def __init__(
        self, authorizer: Authorizer, identity: Identity, image: MetadataImage, note: Note | None = None
    ) -> None:
        """`note` is called with each decision, except decisions about the content of responses."""
        self.authorizer, self.identity, self.image, self.note = authorizer, identity, image, note

    def may(self, need: Need | None, name: str) -> bool:
        """Whether the requirement is met for the resource of this name; None requires nothing."""
        if need is None:
            return True
        is_allowed = self._decide(need, name)
        if self.note is not None and need.scope is not Scope.SHOWN:
            self.note(need.right.operation, Resource(need.right.resource_type, name), is_allowed)
        return is_allowed

    def _decide(self, need: Need, name: str) -> bool:
        operation, kind = need.right
        if self.authorizer.allows(self.identity, operation, Resource(kind, name)):
            return True
        other = need.alternative
        if other is None:
            return False
        if other.resource_type is ResourceType.CLUSTER:
            return self.authorizer.allows(self.identity, other.operation, CLUSTER)
        return self.authorizer.allows_some(self.identity, other.operation, other.resource_type)

    def may_by_id(self, need: Need | None, topic_id: bytes) -> bool:
        """As `may`, for a topic by its id. For an unknown id the handler returns the error."""
        name = self.image.topic_names.get(topic_id)
        return name is None or self.may(need, name)
