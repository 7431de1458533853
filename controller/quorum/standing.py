"""What a controller is in the quorum, and how that changes: epochs, votes, timeouts. Pure but for its file.

`Raft`, which inherits this, takes the messages; here is what they, and time, lead to.
Invariant: epoch and vote are on the disk when `_enter` returns, before anything is sent that rests on them.
Source: KIP-595, KIP-996; Kafka QuorumState.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages import quorum
from ...protocol.model import NO_NODE
from ...runtime.config import MAX_INT
from .context import Context
from .election import Votes
from .events import Campaigning, LeaderChanged, Resigned, SetTimer
from .following import Following, fetch_request
from .leading import Leading
from .quorum_state import QuorumState
from .roles import Role, RoleEvent, next_role
from .voters import ReplicaKey

if TYPE_CHECKING:
    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig
    from .metadata_log import MetadataLog
    from .voters import Endpoint


STALL_MS = 100  # a timer that is later than this means that the process stood still


class Standing:
    """The role of one controller, in its epoch."""

    def __init__(
        self,
        config: ControllerConfig,
        key: ReplicaKey,
        endpoint: Endpoint,
        log: MetadataLog,
        random: RandomSource,
        *,
        bootstrap_servers: int = 0,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        """Errors: KafkaStorageError if the vote is lost."""
        self.context = Context(config, key, endpoint, log, random, wall_ms - now_ms)
        self.role = Role.UNATTACHED
        self.leading: Leading | None = None
        self.following: Following | None = None
        self._config = config
        self._log = log
        self._bootstrap = tuple(-number for number in range(1, bootstrap_servers + 1))
        self._votes: Votes | None = None
        self._timer_ms = -1
        self._seek_at_ms = now_ms
        self._seek_next = random.randrange(1 << 16)
        self._recall()
        self._election_at_ms = now_ms + self._election_timeout_ms()

    def check(self) -> None:
        """Assert the laws of one controller; tests call this after every step."""
        log, context = self._log, self.context
        assert log.high_watermark <= log.flushed_offset <= log.end_offset, "only what is durable is committed"
        assert log.last_epoch <= context.epoch, "nothing is written in an epoch that was not entered"
        assert (self.leading is not None) == (self.role is Role.LEADER)
        assert (self.following is not None) == (self.role is Role.FOLLOWER)
        assert (self._votes is not None) == (self.role in (Role.PROSPECTIVE, Role.CANDIDATE))
        if self.role is Role.LEADER:
            assert context.leader_id == context.key.replica_id
        if self.role in (Role.LEADER, Role.CANDIDATE):
            assert context.voted == context.key, "a candidate votes for itself"
        assert not context.effects, "effects are handed out by every step"
        assert log.start_offset == 0 or any(s.end_offset >= log.start_offset for s in log.snapshots), (
            "SnapshotAtLogStart: a snapshot has what the log has no more"
        )

    @property
    def is_active(self) -> bool:
        """Whether this controller decides now."""
        return self.leading is not None and self.leading.is_active

    # --- time -------------------------------------------------------------------------------------------

    def _give_back_stall(self, now_ms: int) -> None:
        """A timer that comes late means that this controller stood still and could receive nothing meanwhile:
        that is no silence of the others."""
        lost_ms = now_ms - self._timer_ms
        if self._timer_ms < 0 or lost_ms < STALL_MS:
            return
        self._timer_ms = now_ms  # Order: given back once
        if self.following is not None:
            self.following.give_back(lost_ms)
        elif self.leading is not None:
            self.leading.give_back(lost_ms)

    def _poll(self, now_ms: int) -> None:
        """Do what time, or what just happened, has made due."""
        self.context.requests.expire(now_ms)
        role = None
        while role is not self.role:  # Bound: at most unattached, candidate, leader; or one timeout
            role = self.role
            self._poll_role(now_ms)
        self.context.flush()

    def _poll_role(self, now_ms: int) -> None:
        if self.leading is not None:
            deadline_ms = self.leading.quorum_deadline_ms()
            if self.leading.is_removed or (deadline_ms is not None and deadline_ms <= now_ms):
                self._resign(now_ms)
            else:
                self.leading.poll(now_ms)
        elif self.following is not None:
            if self.following.deadline_ms > now_ms:
                self.following.poll(now_ms)
            elif self.context.is_voter:
                self._campaign(RoleEvent.FETCH_TIMEOUT, now_ms)
            else:
                self._unattach(RoleEvent.LEADER_LOST, now_ms)
        elif self.role is Role.RESIGNED:
            if self._election_at_ms <= now_ms:
                self._unattach(RoleEvent.ELECTION_TIMEOUT, now_ms)
        elif self.role is Role.UNATTACHED:
            self._poll_unattached(now_ms)
        else:
            if self._election_at_ms <= now_ms:
                self._campaign(RoleEvent.ELECTION_TIMEOUT, now_ms)
            if self._votes is not None:
                self._ask_for_votes(self._votes, now_ms)

    def _poll_unattached(self, now_ms: int) -> None:
        if self.context.voters == (self.context.key,):
            self._stand(RoleEvent.ONLY_VOTER, now_ms)
        elif self.context.is_voter and self._election_at_ms <= now_ms:
            self._campaign(RoleEvent.ELECTION_TIMEOUT, now_ms)
        elif self._seek_at_ms <= now_ms:
            self._seek_leader(now_ms)

    def _set_timer(self, now_ms: int, *, has_fired: bool) -> None:
        deadlines: list[int | None] = [self.context.requests.deadline_ms(now_ms)]
        if self.leading is not None:
            deadlines.append(self.leading.next_deadline_ms())
        elif self.following is not None:
            deadlines.append(self.following.next_deadline_ms(now_ms))
        elif self.role is Role.UNATTACHED:
            deadlines += [self._seek_at_ms, *([self._election_at_ms] if self.context.is_voter else [])]
        else:
            deadlines.append(self._election_at_ms)
        known = [deadline for deadline in deadlines if deadline is not None]
        if not known:
            self._timer_ms = -1
            return
        deadline_ms = max(min(known), now_ms + 1)
        if deadline_ms != self._timer_ms or has_fired:
            self._timer_ms = deadline_ms
            self.context.effects.append(SetTimer(deadline_ms))

    def _election_timeout_ms(self) -> int:
        timeout_ms = self._config.quorum_election_timeout_ms
        return timeout_ms + self.context.random.randrange(timeout_ms)

    def _backoff_ms(self) -> int:
        return 1 + self.context.random.randrange(self._config.quorum_election_backoff_max_ms)

    # --- roles ------------------------------------------------------------------------------------------

    def _recall(self) -> None:
        """Epoch and vote as they were. Who led before the restart leads no more: it may have lost
        records that others have with its epoch, and must write no others in their place."""
        state = self._log.read_state()
        if state is None:
            return
        self.context.epoch = state.leader_epoch
        self.context.cluster_id = state.cluster_id
        if state.voted_id != NO_NODE:
            self.context.voted = ReplicaKey(state.voted_id, state.voted_directory_id)

    def _enter(
        self, event: RoleEvent, epoch: int, leader_id: int, voted: ReplicaKey | None, now_ms: int
    ) -> None:
        """Change the role. Order: epoch and vote are on the disk on return, before anything is sent."""
        context = self.context
        role = next_role(self.role, event)
        has_news = (epoch, voted) != (context.epoch, context.voted)
        before = (context.leader_id, context.epoch)
        assert epoch >= context.epoch, "epochs never move back"
        leading = self.leading
        self.role, self.leading, self.following, self._votes = role, None, None, None
        context.epoch, context.leader_id, context.voted = epoch, leader_id, voted
        context.requests.forget()
        if has_news:
            self._persist()
        if leading is not None:
            leading.close()
            context.effects.append(Resigned(before[1]))
        if before != (leader_id, epoch):
            context.effects.append(LeaderChanged(leader_id, epoch, event.value))
        if role is Role.PROSPECTIVE:
            context.effects.append(Campaigning(epoch, event.value))
        self._seek_at_ms = now_ms

    def _persist(self) -> None:
        context = self.context
        voted = context.voted or ReplicaKey(NO_NODE, b"")
        self._log.write_state(QuorumState(context.cluster_id, context.leader_id, context.epoch, *voted))

    def _unattach(self, event: RoleEvent, now_ms: int, *, epoch: int | None = None) -> None:
        """No leader is known, in this epoch or in a higher one."""
        context = self.context
        is_same = epoch is None or epoch == context.epoch
        self._enter(
            event,
            context.epoch if epoch is None else epoch,
            NO_NODE,
            context.voted if is_same else None,
            now_ms,
        )
        self._election_at_ms = now_ms + self._election_timeout_ms()

    def _follow(self, epoch: int, leader_id: int, now_ms: int) -> None:
        voted = self.context.voted if epoch == self.context.epoch else None
        self._enter(RoleEvent.LEADER_FOUND, epoch, leader_id, voted, now_ms)
        self.following = Following(self.context, leader_id, now_ms)

    def _campaign(self, event: RoleEvent, now_ms: int) -> None:
        """Ask whether this controller would be elected; nobody's epoch changes by that."""
        context = self.context
        self._enter(event, context.epoch, context.leader_id, context.voted, now_ms)
        self._begin_votes(now_ms)

    def _stand(self, event: RoleEvent, now_ms: int) -> None:
        """Ask for votes in a new epoch, beginning with one's own."""
        self._enter(event, self.context.epoch + 1, NO_NODE, self.context.key, now_ms)
        self._begin_votes(now_ms)

    def _begin_votes(self, now_ms: int) -> None:
        self._votes = Votes(self.context.voters)
        self._votes.record(self.context.key, is_granted=True)
        self._election_at_ms = now_ms + self._election_timeout_ms()
        self._count_votes(self._votes, now_ms)

    def _count_votes(self, votes: Votes, now_ms: int) -> None:
        context = self.context
        if votes.is_won and self.role is Role.PROSPECTIVE:
            self._stand(RoleEvent.PRE_VOTE_WON, now_ms)
        elif votes.is_won:
            self._enter(RoleEvent.ELECTED, context.epoch, context.key.replica_id, context.voted, now_ms)
            self.leading = Leading(context, votes.granting, now_ms)
        elif votes.is_lost and self.role is Role.PROSPECTIVE and context.leader_id >= 0:
            self._follow(context.epoch, context.leader_id, now_ms)  # others hear it: try again
        elif votes.is_lost:
            lost = RoleEvent.PRE_VOTE_LOST if self.role is Role.PROSPECTIVE else RoleEvent.LOST
            self._unattach(lost, now_ms)
            self._election_at_ms = now_ms + self._backoff_ms()

    def _resign(self, now_ms: int) -> None:
        """Lead no more, and tell the others, so that they need not wait."""
        if self.leading is None:
            return
        context, successors = self.context, self.leading.successors()
        self._enter(RoleEvent.RESIGNED, context.epoch, NO_NODE, context.voted, now_ms)
        self._election_at_ms = now_ms + self._election_timeout_ms()
        body = quorum.EndQuorumEpochRequest(
            context.cluster_id, context.key.replica_id, context.epoch, successors
        )
        for target in successors:
            context.requests.send(target, body, now_ms)

    def _see(self, epoch: int, leader_id: int, endpoint: quorum.QuorumEndpoint, now_ms: int) -> None:
        """Another controller knows this epoch and leader."""
        context = self.context
        if epoch > MAX_INT:
            return
        is_other = leader_id >= 0 and leader_id != context.key.replica_id
        if is_other and epoch >= context.epoch:
            context.learn_endpoint(leader_id, endpoint)
        if epoch > context.epoch and is_other:
            self._follow(epoch, leader_id, now_ms)
        elif epoch > context.epoch:
            self._unattach(RoleEvent.HIGHER_EPOCH, now_ms, epoch=epoch)
        elif epoch == context.epoch and is_other and context.leader_id < 0:
            self._follow(epoch, leader_id, now_ms)

    # --- requests out -----------------------------------------------------------------------------------

    def _seek_leader(self, now_ms: int) -> None:
        """Ask one after the other who leads: with a fetch, whose answer says it."""
        ids = [key.replica_id for key in self.context.voters if key != self.context.key]
        targets = [*ids, *self._bootstrap]
        self._seek_at_ms = now_ms + max(1, self._config.quorum_election_timeout_ms // 10)
        if targets:
            self._seek_next += 1
            target = targets[self._seek_next % len(targets)]
            self.context.requests.send(target, fetch_request(self.context, max_wait_ms=0), now_ms)

    def _ask_for_votes(self, votes: Votes, now_ms: int) -> None:
        context = self.context
        for key in votes.missing:
            body = quorum.VoteRequest(
                context.cluster_id,
                *key,
                context.epoch,
                *context.key,
                self._log.last_epoch,
                self._log.end_offset,
                pre_vote=self.role is Role.PROSPECTIVE,
            )
            context.requests.send(key.replica_id, body, now_ms, self._config.quorum_election_timeout_ms)
