"""Who leads when nodes go and come: with one replica, and with several."""

from __future__ import annotations

import pytest
from headrace.controller.state.elections import Change, node_back, node_gone
from headrace.protocol.metadata.image import PartitionRegistration


def partition(replicas, isr, leader) -> PartitionRegistration:
    return PartitionRegistration(replicas, isr, leader, 0, 0)


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "active", "change"),
    [
        ((1,), (1,), 1, set(), Change(-1, None)),  # the only replica: no leader, still in sync
        ((1,), (1,), -1, set(), None),  # it was away already
        ((1, 2, 3), (1, 2, 3), 1, {2, 3}, Change(2, (2, 3))),  # the next assigned one in sync
        ((1, 2, 3), (1, 3), 1, {2, 3}, Change(3, (3,))),  # not one out of sync
        ((1, 2, 3), (1, 2, 3), 2, {2, 3}, Change(None, (2, 3))),  # a follower goes
        ((1, 2, 3), (1, 2), 1, {3}, Change(-1, (2,))),  # the other one in sync is away too
        ((2, 3), (2, 3), 2, {2, 3}, None),  # it has no part in this
    ],
)
def test_a_node_goes(replicas, isr, leader, active, change) -> None:
    """Node 1 is fenced."""
    assert node_gone(partition(replicas, isr, leader), 1, active) == change


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "change"),
    [
        ((1,), (1,), -1, Change(1, None)),
        ((1, 2), (2,), -1, None),  # out of sync: it must catch up first
        ((1, 2), (1, 2), 2, None),  # somebody leads already
        ((2, 1), (1, 2), -1, Change(1, None)),  # the preferred leader is still away
    ],
)
def test_a_node_comes_back(replicas, isr, leader, change) -> None:
    """Node 1 is unfenced, and is the only active one."""
    assert node_back(partition(replicas, isr, leader), 1, {1}) == change
