"""The states of a classic group, and which may follow which. Pure. Source: Kafka ClassicGroupState.java."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ClassicState(Enum):
    """Where a classic group stands; the values are Kafka's names."""

    EMPTY = "Empty"  # no members; there may be offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # members are to join, those that did wait
    COMPLETING_REBALANCE = "CompletingRebalance"  # all have joined; the leader is to bring assignments
    STABLE = "Stable"
    DEAD = "Dead"  # deleted, or no longer here


_S = ClassicState
CLASSIC_TRANSITIONS: Mapping[ClassicState, Mapping[ClassicState, str]] = MappingProxyType(
    {
        _S.EMPTY: {
            _S.PREPARING_REBALANCE: "first member joins",
            _S.DEAD: "deleted, or no offsets left",
        },
        _S.PREPARING_REBALANCE: {
            _S.COMPLETING_REBALANCE: "all have joined, or the time is over",
            _S.EMPTY: "all members are gone",
            _S.DEAD: "now of the new protocol, or no longer here",
        },
        _S.COMPLETING_REBALANCE: {
            _S.STABLE: "the assignments of the leader are written",
            _S.PREPARING_REBALANCE: "a member joins anew, leaves, fails, or never syncs",
            _S.DEAD: "now of the new protocol, or no longer here",
        },
        _S.STABLE: {
            _S.PREPARING_REBALANCE: "a member joins, leaves or fails, or the leader joins again",
            _S.DEAD: "now of the new protocol, or no longer here",
        },
        _S.DEAD: {},
    }
)
