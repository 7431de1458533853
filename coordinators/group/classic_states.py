"""States and transitions of a classic group. Pure. Source: Kafka ClassicGroupState.java."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClassicState(Enum):
    """The values are Kafka's state names."""

    EMPTY = "Empty"  # no members; there may be offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waits for JoinGroup of all members
    COMPLETING_REBALANCE = "CompletingRebalance"  # all have joined; waits for the leader's SyncGroup
    STABLE = "Stable"
    DEAD = "Dead"  # deleted, upgraded, or its partition has moved to another coordinator


_S = ClassicState
CLASSIC_TRANSITIONS: Mapping[ClassicState, Mapping[ClassicState, str]] = MappingProxyType(
    {
        _S.EMPTY: {
            _S.PREPARING_REBALANCE: "first member joins",
            _S.DEAD: "deleted, or its last offset expired",
        },
        _S.PREPARING_REBALANCE: {
            _S.COMPLETING_REBALANCE: "all members joined, or the rebalance timeout passed",
            _S.EMPTY: "the last member left or expired",
            _S.DEAD: "upgraded to the consumer protocol, or moved to another coordinator",
        },
        _S.COMPLETING_REBALANCE: {
            _S.STABLE: "the leader's assignments are committed",
            _S.PREPARING_REBALANCE: "a member rejoins, leaves, expires, or does not sync in time",
            _S.DEAD: "upgraded to the consumer protocol, or moved to another coordinator",
        },
        _S.STABLE: {
            _S.PREPARING_REBALANCE: "a member joins, leaves or expires, or the leader rejoins",
            _S.DEAD: "upgraded to the consumer protocol, or moved to another coordinator",
        },
        _S.DEAD: {},
    }
)
