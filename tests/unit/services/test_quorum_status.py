"""`headrace quorum status` from the leader's response."""

import json

from headrace.clients.admin.admin_types import QuorumDescription, QuorumReplicaInfo
from headrace.clients.cluster.network import Address
from headrace.services.cli.quorum import described


def replica(number: int, end_offset: int, lag: int, ago_ms: int, port: int = 9093) -> QuorumReplicaInfo:
    return QuorumReplicaInfo(
        number, bytes([number]) * 16, end_offset, lag, ago_ms, ago_ms, Address("h", port)
    )


def test_quorum_status_has_the_leader_and_the_lag() -> None:
    """The leader, a lagging follower, one that never fetched, an observer; plain JSON."""
    voters = (replica(1, 50, 0, 0), replica(2, 40, 10, 30), replica(3, -1, -1, -1, port=0))
    facts = described(QuorumDescription(1, 7, 40, voters, (replica(4, 50, 0, 5),)))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["leader_id"], facts["leader_epoch"], facts["high_watermark"]) == (1, 7, 40)
    assert facts["max_follower_lag"] == 10
    assert [each["role"] for each in (*facts["voters"], *facts["observers"])] == [
        *("leader", "follower", "follower", "observer")
    ]
    unanswered = facts["voters"][2]
    assert (unanswered["end_offset"], unanswered["lag"], unanswered["endpoint"]) == (None, None, None)
    assert facts["voters"][1]["endpoint"] == "h:9093"
