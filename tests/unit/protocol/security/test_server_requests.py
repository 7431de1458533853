"""Requests that only servers may send."""

from typing import Any

import pytest
from headrace.protocol.errors import ClusterAuthorizationFailedError
from headrace.protocol.messages import control, data, quorum, registry, transactions
from headrace.protocol.security.identity import ANONYMOUS_IDENTITY, Identity
from headrace.protocol.security.principals import user
from headrace.protocol.security.server_keys import CONTROLLER, NODE, ServerName
from headrace.protocol.security.server_requests import check_sender, server_principal

NODE_1 = Identity(server_principal(ServerName(NODE, 1)), mechanism="CURVE", is_server=True)
CONTROLLER_1 = Identity(server_principal(ServerName(CONTROLLER, 1)), mechanism="CURVE", is_server=True)
ALICE = Identity(user("alice"), mechanism="PLAIN")
PRETENDER = Identity(user("node-1"), mechanism="PLAIN")

REQUESTS = [
    (NODE_1, registry.FETCH, lambda me: data.FetchRequest(0, 1, 1, 0, (), replica_id=me)),
    (NODE_1, registry.BROKER_REGISTRATION, lambda me: control.BrokerRegistrationRequest(me, "", b"", "", 1)),
    (NODE_1, registry.BROKER_HEARTBEAT, lambda me: control.BrokerHeartbeatRequest(me, 0, 0)),
    (NODE_1, registry.ALTER_PARTITION, lambda me: control.AlterPartitionRequest(me, 0, ())),
    (NODE_1, registry.ALLOCATE_PRODUCER_IDS, lambda me: transactions.AllocateProducerIdsRequest(me, 0)),
    (NODE_1, registry.FETCH_METADATA, lambda me: control.FetchMetadataRequest(me, 0, 0)),
    (CONTROLLER_1, registry.VOTE, lambda me: quorum.VoteRequest("", 2, b"", 1, me, b"", 0, 0)),
    (CONTROLLER_1, registry.BEGIN_QUORUM_EPOCH, lambda me: quorum.BeginQuorumEpochRequest("", 2, b"", me, 1)),
    (CONTROLLER_1, registry.END_QUORUM_EPOCH, lambda me: quorum.EndQuorumEpochRequest("", me, 1)),
    (
        CONTROLLER_1,
        registry.QUORUM_FETCH,
        lambda me: quorum.QuorumFetchRequest("", me, b"", 1, 0, 0, 0, 1, 0),
    ),
    (
        CONTROLLER_1,
        registry.FETCH_SNAPSHOT,
        lambda me: quorum.FetchSnapshotRequest("", me, b"", 1, 0, 0, 0, 1),
    ),
    (CONTROLLER_1, registry.UPDATE_RAFT_VOTER, lambda me: quorum.UpdateRaftVoterRequest("", me, b"", "", 1)),
]


@pytest.mark.parametrize(("sender", "api", "body_of"), REQUESTS)
def test_server_may_send_requests_with_its_own_id_only(sender: Identity, api: Any, body_of: Any) -> None:
    """Not for another id, not as the other kind of server; users and unknown peers not at all."""
    check_sender(sender, api, body_of(1))
    other = CONTROLLER_1 if sender is NODE_1 else NODE_1
    for identity, number in ((sender, 2), (other, 1), (ALICE, 1), (PRETENDER, 1), (ANONYMOUS_IDENTITY, 1)):
        with pytest.raises(ClusterAuthorizationFailedError):
            check_sender(identity, api, body_of(number))


def test_other_requests_are_not_its_concern() -> None:
    """Rules decide about these: a consumer's Fetch, and what admins send."""
    check_sender(ALICE, registry.FETCH, data.FetchRequest(0, 1, 1, 0, ()))
    check_sender(ALICE, registry.METADATA, data.MetadataRequest(()))
    check_sender(ALICE, registry.UNREGISTER_BROKER, control.UnregisterBrokerRequest(1))
