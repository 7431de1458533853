"""The check of every request of a server, before it is handled or forwarded. Pure."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.coordinator_errors import CoordinatorNotAvailableError
from ...protocol.errors import LeaderNotAvailableError, NotLeaderOrFollowerError
from ...protocol.messages import registry
from ...protocol.security.acls import CLUSTER, OPERATIONS_OF, AclOperation, Resource, ResourceType
from ...protocol.security.required_operations import REQUIRED
from .access import Access
from .checks import CHECKS
from .entries import each_need

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.security.acls import Authorizer
    from ...protocol.security.identity import Identity
    from ...protocol.transport.replies import Incoming
    from .outcomes import Check, Outcome


_PRODUCE, _FETCH = registry.PRODUCE.key, registry.FETCH.key
_TOPIC_ID = attrgetter("topic_id")
# Apis that clients send to the leader of a partition; after these errors they look for another leader.
_LEADERS = {
    api.key
    for api in (
        registry.PRODUCE,
        registry.FETCH,
        registry.LIST_OFFSETS,
        registry.OFFSET_FOR_LEADER_EPOCH,
        registry.DELETE_RECORDS,
        registry.COUNT_RECORDS,
    )
}


class Audit(Protocol):
    """Records decisions."""

    @property
    def wants_allowed(self) -> bool:
        """Whether it also records allowed operations."""

    def note(
        self, request: Incoming, operation: AclOperation, resource: Resource, is_allowed: bool, /
    ) -> None:
        """A decision about a request."""


# Bound: cached names and ids of allowed resources.
MAX_KNOWN = 100_000


class Gate:
    """The checks of one server. Without an `authorizer` every operation is allowed, and its owner calls no
    check."""

    def __init__(
        self,
        authorizer: Authorizer | None,
        image: Callable[[], MetadataImage],
        checks: Mapping[int, Check] = CHECKS,
    ) -> None:
        """`image` returns the current metadata of the server."""
        self.authorizer = authorizer
        self.audit: Audit | None = None
        self._image, self._checks = image, checks
        # Allowed writes and reads of clients by the rules of one image: transactional ids and topic ids.
        self._allowed_by: MetadataImage | None = None
        self._allowed: dict[int, dict[Identity, set[bytes | str]]] = {_PRODUCE: {}, _FETCH: {}}
        self._known = 0

    def check(self, request: Incoming) -> Outcome:
        """The authorized part of the request; None: all of it. Errors: KafkaError if no part is authorized,
        and while the rules are not loaded or too old.

        Requests of other servers were checked by the server that received them.
        """
        authorizer, identity = self.authorizer, request.peer.identity
        if authorizer is None or identity.is_server:
            return None
        image, key, body = self._image(), request.api.key, request.body
        if image is not self._allowed_by:
            self._forget(image)
        allowed = self._allowed.get(key)
        audit = self.audit
        if (
            allowed is not None
            and self._is_known(allowed.get(identity), key, body)
            and not (audit is not None and audit.wants_allowed)
            and authorizer.is_ready
        ):
            return None
        note = None if audit is None else partial(audit.note, request)
        try:
            outcome = self._checks[key](Access(authorizer, identity, image, note), body, request.frames)
        except LeaderNotAvailableError as error:
            raise _as_clients_know_it(key, error) from None
        if outcome is None and allowed is not None:
            self._learn(allowed, identity, key, body)
        return outcome

    def _is_known(self, allowed: set[bytes | str] | None, key: int, body: Any) -> bool:
        """Whether all of a Produce, or of a client's Fetch, is in the cache of allowed resources."""
        if allowed is None:
            return False
        if key == _PRODUCE:
            if body.transactional_id is not None and body.transactional_id not in allowed:
                return False
        elif body.replica_id >= 0:
            return False
        return allowed.issuperset(map(_TOPIC_ID, body.partitions))

    def _learn(
        self, allowed: dict[Identity, set[bytes | str]], identity: Identity, key: int, body: Any
    ) -> None:
        if key == _FETCH and body.replica_id >= 0:
            return
        known = allowed.setdefault(identity, set())
        known.update(map(_TOPIC_ID, body.partitions))
        if key == _PRODUCE and body.transactional_id is not None:
            known.add(body.transactional_id)
        self._known += len(body.partitions) + 1
        if self._known > MAX_KNOWN:
            self._forget(self._allowed_by)

    def _forget(self, image: MetadataImage | None) -> None:
        """Clear the cache for a new image: rules change with images only."""
        self._allowed_by, self._known = image, 0
        for allowed in self._allowed.values():
            allowed.clear()

    def hides_topic(self, identity: Identity, api_key: int, topic: str) -> bool:
        """Whether the existence of a topic must be hidden from a client."""
        authorizer = self.authorizer
        if authorizer is None:
            return False
        if not authorizer.is_ready:
            return True
        need = each_need(REQUIRED[api_key].needs, ResourceType.TOPIC)
        return not Access(authorizer, identity, self._image()).may(need, topic)

    def shows_topic(self, identity: Identity, topic: str) -> bool:
        """Whether the client may describe the topic."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        resource = Resource(ResourceType.TOPIC, topic)
        return authorizer.is_ready and authorizer.allows(identity, AclOperation.DESCRIBE, resource)

    def operations(self, identity: Identity, resource: Resource) -> int:
        """The operations allowed on the resource, as the bits of their codes; all without an authorizer."""
        authorizer = self.authorizer
        bits = 0
        if authorizer is not None and not authorizer.is_ready:
            return bits
        for operation in OPERATIONS_OF[resource.type]:
            if authorizer is None or authorizer.allows(identity, operation, resource):
                bits |= 1 << operation
        return bits

    def operations_on_cluster(self, identity: Identity) -> int:
        """As `operations`; none for a client that may not describe the cluster."""
        bits = self.operations(identity, CLUSTER)
        return bits if bits & 1 << AclOperation.DESCRIBE else 0


def _as_clients_know_it(key: int, error: LeaderNotAvailableError) -> KafkaError:
    """The error in a form after which clients of the api try another node."""
    if key in _LEADERS:
        return NotLeaderOrFollowerError(str(error))
    kinds = {need.right.resource_type for need in REQUIRED[key].needs}
    if not kinds.isdisjoint((ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)):
        return CoordinatorNotAvailableError(str(error))
    return error
