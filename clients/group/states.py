"""Where a member of a group stands, and what leads from where to where. Values only."""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """Where a member stands; the classic protocol and the new one each use some of them."""

    UNJOINED = "unjoined"  # does not want to be a member, or begins as soon as it can
    GIVING_UP = "giving_up"  # waits until the user's side has given up partitions
    JOINING = "joining"  # asks to be a member (again)
    SYNCING = "syncing"  # classic: a member of a generation, waits for its share
    TAKING_OVER = "taking_over"  # waits until the user's side has taken its new share over
    ACKNOWLEDGING = "acknowledging"  # new protocol: tells the coordinator what it has now
    STABLE = "stable"
    LATE = "late"  # left, because the user did not ask for records for max.poll.interval.ms
    FAILED = "failed"  # the user has to hear an error first


S = MemberState
CLASSIC_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    S.UNJOINED: {S.JOINING: "topics are subscribed", S.GIVING_UP: "something is owned still"},
    S.GIVING_UP: {
        S.JOINING: "given up",
        S.LATE: "the user does not come",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "refused",
    },
    S.JOINING: {
        S.SYNCING: "joined",
        S.GIVING_UP: "not a member any more",
        S.LATE: "the user does not come",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "refused",
    },
    S.SYNCING: {
        S.TAKING_OVER: "got a share",
        S.JOINING: "the group rebalances again",
        S.GIVING_UP: "not a member any more",
        S.LATE: "the user does not come",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "refused",
    },
    S.TAKING_OVER: {
        S.STABLE: "taken over",
        S.GIVING_UP: "not a member any more",
        S.JOINING: "not a member any more, and nothing is owned",
        S.LATE: "the user does not come",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "refused",
    },
    S.STABLE: {
        S.JOINING: "the group rebalances",
        S.GIVING_UP: "the group rebalances, eager; or not a member any more",
        S.LATE: "the user does not come",
        S.UNJOINED: "unsubscribed",
        S.FAILED: "refused",
    },
    S.LATE: {S.JOINING: "the user is back", S.GIVING_UP: "the user is back", S.UNJOINED: "unsubscribed"},
    S.FAILED: {
        S.JOINING: "the user has heard it",
        S.GIVING_UP: "the user has heard it",
        S.UNJOINED: "unsubscribed",
    },
}

_BUSY: dict[MemberState, str] = {
    S.GIVING_UP: "the target lacks something, or not a member any more",
    S.TAKING_OVER: "the target has more",
    S.ACKNOWLEDGING: "has what the target says",
    S.STABLE: "has what the target says, and has told it",
    S.JOINING: "not a member any more",
    S.LATE: "the user does not come",
    S.UNJOINED: "unsubscribed",
    S.FAILED: "refused",
}


def _but(state: MemberState) -> dict[MemberState, str]:
    return {target: label for target, label in _BUSY.items() if target is not state}


MODERN_TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    S.UNJOINED: {S.JOINING: "topics are subscribed", S.GIVING_UP: "something is owned still"},
    S.JOINING: {S.ACKNOWLEDGING: "joined", S.UNJOINED: "unsubscribed", S.FAILED: "refused"},
    S.ACKNOWLEDGING: _but(S.ACKNOWLEDGING),
    S.GIVING_UP: _but(S.GIVING_UP),
    S.TAKING_OVER: _but(S.TAKING_OVER),
    S.STABLE: _but(S.STABLE),
    S.LATE: {S.JOINING: "the user is back", S.GIVING_UP: "the user is back", S.UNJOINED: "unsubscribed"},
    S.FAILED: {
        S.JOINING: "the user has heard it",
        S.GIVING_UP: "the user has heard it",
        S.UNJOINED: "unsubscribed",
    },
}
