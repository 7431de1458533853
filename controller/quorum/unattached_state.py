"""Unattached and resigned controllers: neither follows a leader or campaigns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .epoch_state import EpochState
from .follower_state import fetch_request
from .roles import Role, RoleEvent

if TYPE_CHECKING:
    from .context import QuorumContext


class LeaderSearch:
    """Finds the leader: each response to a fetch names it. Voters and bootstrap servers are asked in turn."""

    def __init__(self, context: QuorumContext, bootstrap_servers: int) -> None:
        self._context = context
        self._bootstrap = tuple(-number for number in range(1, bootstrap_servers + 1))
        self._turn = context.random.randrange(1 << 16)

    def send_fetch(self, now_ms: int) -> None:
        """Send a fetch to the next controller."""
        context = self._context
        targets = [*(key.replica_id for key in context.other_voters), *self._bootstrap]
        if targets:
            self._turn += 1
            target = targets[self._turn % len(targets)]
            context.requests.send(target, fetch_request(context, max_wait_ms=0), now_ms)


class UnattachedState(EpochState):
    """Searches for the leader of the epoch. A voter campaigns when the election timeout has passed.

    Source: Kafka UnattachedState.java.
    """

    role = Role.UNATTACHED

    def __init__(self, context: QuorumContext, search: LeaderSearch, now_ms: int) -> None:
        self._context, self._search = context, search
        self.election_at_ms = now_ms + context.election_timeout_ms()
        self._search_at_ms = now_ms

    def poll(self, now_ms: int) -> RoleEvent | None:
        context = self._context
        if context.voters == (context.key,):
            return RoleEvent.ONLY_VOTER
        if context.is_voter and self.election_at_ms <= now_ms:
            return RoleEvent.ELECTION_TIMEOUT
        if self._search_at_ms <= now_ms:
            self._search_at_ms = now_ms + max(1, context.config.quorum_election_timeout_ms // 10)
            self._search.send_fetch(now_ms)
        return None

    def next_deadline_ms(self, now_ms: int) -> int | None:
        return min(self._search_at_ms, self.election_at_ms) if self._context.is_voter else self._search_at_ms

    def check(self) -> None:
        assert self._context.leader_id < 0, "a controller that knows the leader follows it"


class ResignedState(EpochState):
    """Has led this epoch, and grants no vote in it. Source: Kafka ResignedState.java."""

    role = Role.RESIGNED

    def __init__(self, context: QuorumContext, now_ms: int) -> None:
        self._election_at_ms = now_ms + context.election_timeout_ms()

    def poll(self, now_ms: int) -> RoleEvent | None:
        return RoleEvent.ELECTION_TIMEOUT if self._election_at_ms <= now_ms else None

    def next_deadline_ms(self, now_ms: int) -> int | None:
        return self._election_at_ms
