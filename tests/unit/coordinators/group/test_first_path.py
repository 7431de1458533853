"""One group from its first member to its last commit."""

from group_rig import GroupRig
from headrace.protocol.messages import groups as m


def test_member_joins_syncs_commits_and_leaves(rig: GroupRig) -> None:
    """Each request of the classic protocol once."""
    joined = rig.new_member()
    assert joined.waits
    rig.advance(0)
    body = joined.answer
    assert (body.error_code, body.generation_id, body.protocol_name) == (0, 1, "range")
    assert body.leader == body.member_id
    assert [each.metadata for each in body.members] == [b"r"]
    synced = rig.sync(body.member_id, 1, assignments={body.member_id: b"all"})
    assert synced.answer == m.SyncGroupResponse(0, "consumer", "range", b"all")
    assert rig.heartbeat(body.member_id, 1).code == 0
    assert rig.commit_offset(5, body.member_id, 1).answer.results == (m.PartitionResult("t", 0, 0),)
    assert rig.offsets() == {("t", 0): 5}
    left = rig.leave(m.LeavingMember(body.member_id)).answer
    assert left == m.LeaveGroupResponse(0, (m.LeftMember(body.member_id, None, 0),))
    assert rig.shard.groups["g"].is_empty
    rig.reload()
    assert rig.shard.groups["g"].is_empty
    assert rig.offsets() == {("t", 0): 5}
