"""Placement of single topics; its invariants are in tests/property/test_placement.py."""

import pytest
from headrace.controller.state.placement import UsableNode, alternate_racks, place
from headrace.protocol.errors import InvalidReplicationFactorError

THREE = [UsableNode(1, None), UsableNode(2, None), UsableNode(3, None)]


def test_replicas_are_on_different_racks() -> None:
    """Two racks of different size; nodes without a rack count as one rack, last."""
    nodes = [UsableNode(1, "a"), UsableNode(2, "a"), UsableNode(3, "b"), UsableNode(4, None)]
    assert [node.node_id for node in alternate_racks(nodes)] == [1, 3, 4, 2]


def test_start_rotates_the_first_leader() -> None:
    """Topics of one partition with different starts have different leaders."""
    assert [place(1, 1, THREE, start)[0] for start in range(4)] == [(1,), (2,), (3,), (1,)]


def test_new_partitions_go_to_the_least_loaded_nodes() -> None:
    """A topic of four partitions on three nodes grows by two."""
    grown = place(2, 1, THREE, 0, existing=[(1,), (2,), (3,), (1,)])
    assert sorted(grown) == [(2,), (3,)]


def test_unusable_nodes_do_not_count() -> None:
    """An existing replica is on a node that is not usable any more."""
    assert place(1, 1, THREE[:1], 0, existing=[(9, 1)]) == [(1,)]


@pytest.mark.parametrize("factor", [0, 4])
def test_more_replicas_than_nodes_are_refused(factor) -> None:
    """Three nodes and four replicas; and no replicas."""
    with pytest.raises(InvalidReplicationFactorError):
        place(1, factor, THREE, 0)


def test_placement_without_active_nodes_is_refused() -> None:
    with pytest.raises(InvalidReplicationFactorError, match="0 storage nodes"):
        place(1, 1, [], 0)
