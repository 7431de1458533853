"""How groups are counted as they change."""

from typing import Any

from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_states import ClassicState
from headrace.coordinators.group.group import GroupType
from headrace.coordinators.group.group_state_counts import MAX_CHANGED, GroupStateCounts

EMPTY = (GroupType.CLASSIC, "Empty")
PREPARING = (GroupType.CLASSIC, "PreparingRebalance")


def test_group_is_counted_in_its_current_state() -> None:
    """Whatever its earlier states; a deleted group is not counted."""
    groups: dict[str, Any] = {"g": ClassicGroup("g")}
    counted = GroupStateCounts(groups)
    counted.changed("g")
    counted.changed("nowhere")
    assert counted.counts().groups == {EMPTY: 1}
    groups["g"].become(ClassicState.PREPARING_REBALANCE, 0)
    counted.changed("g")
    assert +counted.counts().groups == {PREPARING: 1}
    counted.changed("g")
    del groups["g"]
    counted.changed("g")
    assert (+counted.counts().groups, counted.counts().members) == ({}, 0)


def test_changed_groups_beyond_the_bound_are_counted_before_a_response() -> None:
    """When many have changed, as at a load, a response counts no more than MAX_CHANGED of them."""
    looks: list[str] = []

    class Group(ClassicGroup):
        @property
        def state_name(self) -> str:
            looks.append(self.group_id)
            return super().state_name

    names = [f"g{number}" for number in range(MAX_CHANGED + 3)]
    groups: dict[str, Any] = {name: Group(name) for name in names}
    counted = GroupStateCounts(groups)
    for name in names:
        for _ in range(3):
            counted.changed(name)
    assert len(looks) == 3
    assert counted.counts().groups == {EMPTY: len(names)}
    assert len(looks) == len(names)
