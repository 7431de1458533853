"""How groups are counted as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.coordinators.group import group_state_counts
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_states import ClassicState
from headrace.coordinators.group.group import GroupType

if TYPE_CHECKING:
    import pytest

EMPTY = (GroupType.CLASSIC, "Empty")
PREPARING = (GroupType.CLASSIC, "PreparingRebalance")


def test_a_group_counts_as_what_it_is_now() -> None:
    """Whatever it was in between, and not at all when it is gone."""
    groups: dict[str, Any] = {"g": ClassicGroup("g")}
    counted = group_state_counts.GroupStateCounts(groups)
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


def test_nobody_who_asks_waits_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """When many have changed, as at a load, most of them are counted before."""
    monkeypatch.setattr(group_state_counts, "MAX_CHANGED", 2)
    looks: list[str] = []

    class Group(ClassicGroup):
        @property
        def state_name(self) -> str:
            looks.append(self.group_id)
            return super().state_name

    groups: dict[str, Any] = {name: Group(name) for name in "abcde"}
    counted = group_state_counts.GroupStateCounts(groups)
    for name in "aaabbbcccdddeeeaaa":
        counted.changed(name)
    assert len(looks) == 3
    assert counted.counts().groups == {EMPTY: 5}
    assert len(looks) == 5
