"""Removal of segments below the log start."""

import pytest
from replica_rig import Replicas


def rolled(count: int = 5) -> Replicas:
    """Three replicas of a log of so many segments with a batch each, and an empty one."""
    cluster = Replicas.settled()
    for _ in range(count):
        cluster.write()
        for node in (1, 2, 3):
            cluster.partition(node).log.roll()
    return cluster


def move_start(cluster: Replicas, offset: int) -> None:
    """The log of node 2 starts at `offset`."""
    rig = cluster.nodes[2]
    rig.core.replicas.log_starts.request_start(cluster.partition(2), offset)
    rig.check()
    assert rig.checkpoint_starts()


def segments(cluster: Replicas, node: int) -> list[str]:
    return [name for name in cluster.nodes[node].files.listdir(f"/d{node}/t-0") if name.endswith(".log")]


def test_followers_remove_segments_below_the_leaders_log_start() -> None:
    """They learn it with the leader's responses."""
    cluster = rolled()
    assert cluster.partition(1).log.delete_segments_below(3) == 3
    cluster.write()
    assert cluster.partition(2).log.log_start_offset == 3
    assert len(segments(cluster, 2)) == 6
    cluster.pass_time(16_000)
    assert segments(cluster, 2) == segments(cluster, 3) == segments(cluster, 1)
    assert cluster.values(2) == cluster.values(1)


def test_removed_segments_per_step_are_bounded() -> None:
    """Eight per step, none while a flush runs."""
    cluster = rolled(25)
    rig = cluster.nodes[2]
    rig.flush()
    move_start(cluster, 24)
    left = []
    for _ in range(4):
        rig.tick()
        rig.tick()
        rig.flush()
        left.append(len(segments(cluster, 2)))
    assert left == [18, 10, 2, 2]


def test_truncation_waits_for_the_removal_of_segments() -> None:
    """A recreated segment of the same name would be deleted."""
    cluster = rolled()
    cluster.is_flushing = False
    partition = cluster.partition(2)
    move_start(cluster, 3)
    cluster.nodes[2].tick()
    with pytest.raises(AssertionError, match="overtake a flush"):
        partition.restart_at(0)
