"""The role of one controller and its transitions. Source: Kafka QuorumState.java; KIP-595, KIP-996.

The states (`UnattachedState`, `NomineeState`, ...) say which event changes the role; this class makes the
next state. Epoch and vote, which a transition may change, are durable when it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.quorum import EndQuorumEpochRequest
from ...protocol.model import NO_NODE
from ...runtime.config import MAX_INT
from .events import Campaigning, LeaderChanged
from .follower_state import FollowerState
from .leader_state import LeaderState
from .nominee_state import NomineeState
from .roles import Role, RoleEvent, next_role
from .unattached_state import LeaderSearch, ResignedState, UnattachedState

if TYPE_CHECKING:
    from ...protocol.messages.quorum import QuorumEndpoint
    from .context import QuorumContext
    from .epoch_state import EpochState
    from .voters import ReplicaKey


class QuorumState:
    """Holds the state of the current role; begins unattached, in the epoch of the disk."""

    def __init__(self, context: QuorumContext, bootstrap_servers: int, now_ms: int) -> None:
        """Errors: KafkaStorageError if the vote is lost."""
        self._context = context
        self._search = LeaderSearch(context, bootstrap_servers)
        context.recover_vote()
        self.state: EpochState = UnattachedState(context, self._search, now_ms)

    @property
    def role(self) -> Role:
        return self.state.role

    @property
    def leader(self) -> LeaderState | None:
        """The state of a leader; None in other roles."""
        return self.state if isinstance(self.state, LeaderState) else None

    @property
    def follower(self) -> FollowerState | None:
        """The state of a follower or observer; None in other roles."""
        return self.state if isinstance(self.state, FollowerState) else None

    @property
    def current_leader(self) -> int:
        """This controller if it leads, or the leader that has responded to this follower; -1 otherwise: a
        controller that campaigns knows the leader of its epoch, which may be gone."""
        is_led = self.follower is not None and self.follower.has_fetched
        return self._context.leader_id if is_led or self.leader is not None else NO_NODE

    def check(self) -> None:
        """Assert the invariants; after a step."""
        self._context.check()
        self.state.check()

    def poll(self, now_ms: int) -> None:
        """Do what is due in the current role, and in those that this leads to."""
        self._context.requests.expire(now_ms)
        while (event := self.state.poll(now_ms)) is not None:
            self._change_role(event, now_ms)
        self._context.flush()

    def _change_role(self, event: RoleEvent, now_ms: int) -> None:
        context = self._context
        match next_role(self.role, event):
            case Role.UNATTACHED:
                self.become_unattached(event, now_ms)
                if event in (RoleEvent.PRE_VOTE_LOST, RoleEvent.LOST):
                    self.campaign_after(context.election_backoff_ms(), now_ms)
            case Role.PROSPECTIVE:
                self._enter(event, context.epoch, context.leader_id, context.voted)
                context.effects.append(Campaigning(context.epoch, event.value))
                self.state = NomineeState(context, Role.PROSPECTIVE, now_ms)
            case Role.CANDIDATE:
                self._enter(event, context.epoch + 1, NO_NODE, context.key)
                self.state = NomineeState(context, Role.CANDIDATE, now_ms)
            case Role.FOLLOWER:
                self.become_follower(context.epoch, context.leader_id, now_ms)
            case Role.LEADER:
                self._become_leader(now_ms)
            case Role.RESIGNED:
                self.resign(now_ms)

    # --- transitions ------------------------------------------------------------------------------------

    def become_unattached(
        self, event: RoleEvent, now_ms: int, *, epoch: int | None = None, voted: ReplicaKey | None = None
    ) -> None:
        """No leader is known, in this epoch or in a higher one; `voted` gets this controller's vote."""
        context = self._context
        epoch = context.epoch if epoch is None else epoch
        self._enter(event, epoch, NO_NODE, voted or context.vote_in(epoch))
        self.state = UnattachedState(context, self._search, now_ms)

    def campaign_after(self, wait_ms: int, now_ms: int) -> None:
        """An unattached voter campaigns after this wait, in place of the election timeout."""
        if isinstance(self.state, UnattachedState):
            self.state.election_at_ms = now_ms + wait_ms

    def become_follower(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Follow the leader of an epoch."""
        context = self._context
        self._enter(RoleEvent.LEADER_FOUND, epoch, leader_id, context.vote_in(epoch))
        self.state = FollowerState(context, leader_id, now_ms)

    def resign(self, now_ms: int) -> None:
        """Stop leading, and tell the other voters, so that they do not wait for the fetch timeout."""
        context, leader = self._context, self.leader
        if leader is None:
            return
        successors = leader.successors()
        self._enter(RoleEvent.RESIGNED, context.epoch, NO_NODE, context.voted)
        self.state = ResignedState(context, now_ms)
        body = EndQuorumEpochRequest(context.cluster_id, context.key.replica_id, context.epoch, successors)
        for target in successors:
            context.requests.send(target, body, now_ms)

    def observe(self, epoch: int, leader_id: int, endpoint: QuorumEndpoint, now_ms: int) -> None:
        """Another controller named this epoch and leader (-1: none)."""
        context = self._context
        if epoch > MAX_INT:
            return
        is_other = leader_id >= 0 and leader_id != context.key.replica_id
        if is_other and epoch >= context.epoch:
            context.learn_endpoint(leader_id, endpoint)
        is_newer = epoch > context.epoch
        if is_other and (is_newer or (epoch == context.epoch and context.leader_id < 0)):
            self.become_follower(epoch, leader_id, now_ms)
        elif is_newer:
            self.become_unattached(RoleEvent.HIGHER_EPOCH, now_ms, epoch=epoch)

    def _become_leader(self, now_ms: int) -> None:
        context, nominee = self._context, self.state
        assert isinstance(nominee, NomineeState), "only a candidate is elected"
        self._enter(RoleEvent.ELECTED, context.epoch, context.key.replica_id, context.voted)
        self.state = LeaderState(context, nominee.election.granting, now_ms)

    def _enter(self, event: RoleEvent, epoch: int, leader_id: int, voted: ReplicaKey | None) -> None:
        """End the current state, before the next one is made. Order: epoch and vote are durable on return."""
        context = self._context
        next_role(self.role, event)  # asserts that the table has this transition
        before = (context.leader_id, context.epoch)
        context.requests.forget()
        context.enter_epoch(epoch, leader_id, voted)
        self.state.close()
        if before != (leader_id, epoch):
            context.effects.append(LeaderChanged(leader_id, epoch, event.value))
