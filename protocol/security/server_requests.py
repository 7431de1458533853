"""Requests that only servers of the cluster send, and the server id that each of them contains. Pure.

A server is identified by its key, and may send requests with its own id only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ClusterAuthorizationFailedError
from ..messages import registry
from .principals import Principal
from .server_keys import CONTROLLER, NODE, ServerName

if TYPE_CHECKING:
    from ..messages.envelope import Api
    from .identity import Identity

SERVER_TYPE = "Server"  # kind of principal; no user has it

# The kind of server that sends the request, and the field with its own id.
_SENDERS: dict[int, tuple[str, str]] = {
    registry.VOTE.key: (CONTROLLER, "candidate_id"),
    registry.BEGIN_QUORUM_EPOCH.key: (CONTROLLER, "leader_id"),
    registry.END_QUORUM_EPOCH.key: (CONTROLLER, "leader_id"),
    registry.QUORUM_FETCH.key: (CONTROLLER, "replica_id"),
    registry.FETCH_SNAPSHOT.key: (CONTROLLER, "replica_id"),
    registry.UPDATE_RAFT_VOTER.key: (CONTROLLER, "voter_id"),
    registry.BROKER_REGISTRATION.key: (NODE, "node_id"),
    registry.BROKER_HEARTBEAT.key: (NODE, "node_id"),
    registry.ALTER_PARTITION.key: (NODE, "node_id"),
    registry.ALLOCATE_PRODUCER_IDS.key: (NODE, "node_id"),
    registry.FETCH_METADATA.key: (NODE, "node_id"),
}
NO_REPLICA = -1


def server_principal(name: ServerName) -> Principal:
    """The principal of a server."""
    return Principal(SERVER_TYPE, str(name))


def check_sender(identity: Identity, api: Api, body: Any) -> None:
    """Errors: ClusterAuthorizationFailedError for a request that this connection may not send."""
    claimed = _claimed(api, body)
    if claimed is None:
        return
    if not identity.is_server:
        raise ClusterAuthorizationFailedError(f"only servers of this cluster may send {_what(api, body)}")
    if identity.principal != server_principal(claimed):
        own = identity.principal.name
        raise ClusterAuthorizationFailedError(f"{own} may not send {_what(api, body)} as {claimed}")


def _claimed(api: Api, body: Any) -> ServerName | None:
    """The server id in a request; None for requests that users may send, too."""
    if api is registry.FETCH:
        return None if body.replica_id == NO_REPLICA else ServerName(NODE, body.replica_id)
    sender = _SENDERS.get(api.key)
    return None if sender is None else ServerName(sender[0], getattr(body, sender[1]))


def _what(api: Api, body: Any) -> str:
    return "a replica's Fetch" if api is registry.FETCH else api.name
