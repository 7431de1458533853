"""The states of a group member on the client, and the transitions between them. Values only."""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """The state of a member. The classic and the new protocol each use a part of them."""

    UNJOINED = "unjoined"  # not subscribed, or about to join
    REVOKING = "revoking"  # waits until the consumer has released the revoked partitions
    JOINING = "joining"  # sends JoinGroup, or the first ConsumerGroupHeartbeat
    SYNCING = "syncing"  # classic: waits for its assignment of this generation
    ADOPTING = "adopting"  # waits until the consumer has adopted its new assignment
    ACKNOWLEDGING = "acknowledging"  # new protocol: reports the owned partitions
    STABLE = "stable"
    LATE = "late"  # left the group: no poll within max.poll.interval.ms
    FAILED = "failed"  # an error that the next poll raises


S = MemberState
CLASSIC_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    S.UNJOINED: {S.JOINING: "topics subscribed", S.REVOKING: "partitions still owned"},
    S.REVOKING: {
        S.JOINING: "revoked partitions released",
        S.LATE: "max.poll.interval.ms exceeded",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "request refused",
    },
    S.JOINING: {
        S.SYNCING: "joined",
        S.REVOKING: "membership lost",
        S.LATE: "max.poll.interval.ms exceeded",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "request refused",
    },
    S.SYNCING: {
        S.ADOPTING: "assignment received",
        S.JOINING: "the group rebalances again",
        S.REVOKING: "membership lost",
        S.LATE: "max.poll.interval.ms exceeded",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "request refused",
    },
    S.ADOPTING: {
        S.STABLE: "assignment adopted",
        S.REVOKING: "membership lost",
        S.JOINING: "membership lost, no partitions owned",
        S.LATE: "max.poll.interval.ms exceeded",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "request refused",
    },
    S.STABLE: {
        S.JOINING: "the group rebalances",
        S.REVOKING: "eager rebalance, or membership lost",
        S.LATE: "max.poll.interval.ms exceeded",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "request refused",
    },
    S.LATE: {S.JOINING: "polled again", S.REVOKING: "polled again", S.UNJOINED: "unsubscribed"},
    S.FAILED: {
        S.JOINING: "error raised",
        S.REVOKING: "error raised",
        S.UNJOINED: "unsubscribed",
    },
}

_BUSY: dict[MemberState, str] = {
    S.REVOKING: "partitions revoked by the target assignment, or membership lost",
    S.ADOPTING: "partitions added by the target assignment",
    S.ACKNOWLEDGING: "assignment complete",
    S.STABLE: "assignment complete and reported",
    S.JOINING: "membership lost",
    S.LATE: "max.poll.interval.ms exceeded",
    S.UNJOINED: "unsubscribed",
    S.FAILED: "request refused",
}


def _but(state: MemberState) -> dict[MemberState, str]:
    return {target: label for target, label in _BUSY.items() if target is not state}


MODERN_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    S.UNJOINED: {S.JOINING: "topics subscribed", S.REVOKING: "partitions still owned"},
    S.JOINING: {S.ACKNOWLEDGING: "joined", S.UNJOINED: "unsubscribed", S.FAILED: "request refused"},
    S.ACKNOWLEDGING: _but(S.ACKNOWLEDGING),
    S.REVOKING: _but(S.REVOKING),
    S.ADOPTING: _but(S.ADOPTING),
    S.STABLE: _but(S.STABLE),
    S.LATE: {S.JOINING: "polled again", S.REVOKING: "polled again", S.UNJOINED: "unsubscribed"},
    S.FAILED: {
        S.JOINING: "error raised",
        S.REVOKING: "error raised",
        S.UNJOINED: "unsubscribed",
    },
}
