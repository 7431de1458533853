"""Members of the consumer protocol join, leave, die, stall and miss responses, while the coordinator moves.

Laws: no partition has two owners, each member may commit for its partitions, repeated heartbeats never fence
a member, and after the faults each partition has an owner.
"""

import contextlib
from typing import Any

from headrace.coordinators.group.consumer_group import ConsumerGroup, GroupState
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import CommittedOffset, OffsetCommitRequest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from recount import check_group_state_counts

from tests.fakes.consumer_group_rig import GROUP, SESSION_MS, ConsumerGroupRig, SimMember, held_by

TOPICS = ("log_a", "log_b", "other")
SUBSCRIPTIONS: list[tuple[tuple[str, ...] | None, str | None]] = [
    (("log_a",), None),
    (("log_a", "log_b"), None),
    (TOPICS, None),
    (None, "log_.*"),
    (("other",), "log_b"),
]
REBALANCE_MS = 30_000
BEATS = ["", "", "slow", "slow", "lost", "full", "full slow", "full lost"]


class ConsumerGroupModel(RuleBasedStateMachine):
    """Each member is a SimMember; `lost` are those whose last response is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = ConsumerGroupRig()
        self.members: dict[int, SimMember] = {}
        self.dead: list[SimMember] = []
        self.lost: set[str] = set()
        self.count = 0

    @initialize(counts=st.tuples(*[st.integers(1, 4)] * 3))
    def begin(self, counts: tuple[int, ...]) -> None:
        self.rig.set_topics(**dict(zip(TOPICS, counts, strict=True)))
        for place in range(3):
            self.appear(place, SUBSCRIPTIONS[2 - place], is_static=place == 0)

    # --- members -----------------------------------------------------------------------------------------

    @rule(place=st.integers(0, 4), what=st.sampled_from(SUBSCRIPTIONS), is_static=st.booleans())
    def appear(self, place: int, what: tuple[Any, Any], *, is_static: bool) -> None:
        """A new consumer, if the place is free; it joins with its first heartbeat."""
        if place in self.members:
            return
        self.count += 1
        self.members[place] = SimMember(
            self.rig,
            f"member-{self.count}",
            *what,
            instance_id=f"place-{place}" if is_static else None,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    def _some(self, place: int) -> SimMember | None:
        alive = sorted(self.members)
        return self.members[alive[place % len(alive)]] if alive else None

    @rule(beats=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(BEATS)), min_size=1, max_size=6))
    def heartbeats(self, beats: list[tuple[int, str]]) -> None:
        """Send the next heartbeats, or repeat those whose response is missing; assigned changes may be
        applied later."""
        for place, how in beats:
            member = self._some(place)
            if member is not None:
                is_full, is_lost = "full" in how, "lost" in how
                self._beat(member, is_full=is_full, is_lost=is_lost, settles="slow" not in how)
                self.no_partition_has_two_owners()

    @rule(beats=st.lists(st.integers(0, 4), min_size=1, max_size=6))
    def go_on(self, beats: list[int]) -> None:
        """Some rounds without faults."""
        self.heartbeats([(place, "") for place in beats])

    @rule(beats=st.lists(st.integers(0, 4), min_size=1, max_size=6))
    def receive_slowly(self, beats: list[int]) -> None:
        """Responses arrive, but the assigned changes are not done yet."""
        self.heartbeats([(place, "slow") for place in beats])

    def _beat(self, member: SimMember, *, is_full: bool, is_lost: bool, settles: bool) -> None:
        is_member = self._is_member(member)
        try:
            if member.member_id in self.lost and not is_full:
                answer = member.resend()
            else:
                answer = member.send(is_full=is_full)
        except errors.CoordinatorNotAvailableError:
            self.lost.add(member.member_id)
            return
        except (errors.UnknownMemberIdError, errors.GroupIdNotFoundError, errors.FencedInstanceIdError):
            assert not is_member
            self._forget(member)
            return
        except errors.UnreleasedInstanceIdError:
            assert not is_member
            return
        if is_lost:
            self.lost.add(member.member_id)
            return
        self.lost.discard(member.member_id)
        member.take(answer)
        if settles:
            member.settle()

    def _is_member(self, member: SimMember) -> bool:
        group = self.rig.shard.groups.get(GROUP)
        return isinstance(group, ConsumerGroup) and member.member_id in group.members

    def _forget(self, member: SimMember) -> None:
        member.forget()
        self.lost.discard(member.member_id)

    @rule(place=st.integers(0, 4), seed=st.integers(0, 99))
    def commit(self, place: int, seed: int) -> None:
        """A member may commit for its partitions, whatever responses it missed; no other member may."""
        member = self._some(place)
        if member is None or not self._is_member(member) or self.rig.refuses is not None:
            return
        mine = [(topic, each) for topic in member.owned for each in member.owned[topic]]
        if mine:
            assert self._commit(member, *mine) == 0
        everything = [(topic, each) for topic in self.rig.image.topics for each in self._partitions(topic)]
        if not everything or not member.epoch:
            return
        topic, partition = everything[seed % len(everything)]
        owner = self.rig.group.owner_of(self.rig.image.topics[topic].topic_id, partition)
        is_current = member.epoch == self.rig.group.members[member.member_id].epoch
        # with its current epoch Kafka does not check the owner
        if owner != member.member_id and not is_current:
            assert self._commit(member, (topic, partition)) == errors.StaleMemberEpochError.code

    def _commit(self, member: SimMember, *places: tuple[str, int]) -> int:
        offsets = tuple(CommittedOffset(topic, partition, 1) for topic, partition in places)
        body = OffsetCommitRequest(GROUP, member.epoch, member.member_id, offsets)
        answer = self.rig.request(registry.OFFSET_COMMIT, body).answer
        return answer.code if isinstance(answer, errors.KafkaError) else answer.results[0].error_code

    @rule(place=st.integers(0, 4))
    def settle(self, place: int) -> None:
        """Apply the pending changes of a member."""
        member = self._some(place)
        if member is not None:
            member.settle()

    @rule(place=st.integers(0, 4), changes=st.sampled_from(SUBSCRIPTIONS))
    def change_subscription(self, place: int, changes: tuple[Any, Any]) -> None:
        """The member reads other topics from its next full heartbeat on."""
        member = self._some(place)
        if member is None or member.epoch == 0:
            return
        topics, regex = changes
        member.topics, member.regex = topics or (), regex or ""
        self._beat(member, is_full=True, is_lost=False, settles=False)

    @rule(place=st.integers(0, 4), for_a_while=st.booleans())
    def leave(self, place: int, *, for_a_while: bool) -> None:
        """The member has revoked its partitions and leaves; a static one may return with another member
        id."""
        member = self._some(place)
        if member is None or len(self.members) < 3:
            return
        member.owned = {}
        [at] = [at for at, each in self.members.items() if each is member]
        del self.members[at]
        with contextlib.suppress(errors.KafkaError):
            member.leave(-2 if for_a_while and member.instance_id is not None else -1)

    @rule(place=st.integers(0, 4))
    def die(self, place: int) -> None:
        """The member sends no more heartbeats, but still reads its partitions."""
        member = self._some(place)
        if member is not None and len(self.members) > 2:
            [at] = [at for at, each in self.members.items() if each is member]
            self.dead.append(self.members.pop(at))

    @rule()
    def wake(self) -> None:
        """A silent member resumes, as after a pause."""
        if not self.dead:
            return
        at = next(place for place in range(99) if place not in self.members)
        self.members[at] = self.dead.pop(0)

    # --- the cluster -------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1_000, 10_000, 30_000, 46_000]))
    def wait(self, ms: int) -> None:
        """Sessions and revocation timeouts may expire."""
        self.rig.advance(ms)

    @rule(counts=st.tuples(*[st.integers(0, 5)] * 3))
    def change_topics(self, counts: tuple[int, ...]) -> None:
        """Topics are created, grow and are deleted; members drop deleted partitions."""
        old = {name: len(topic.partitions) for name, topic in self.rig.image.topics.items()}
        wanted = dict(zip(TOPICS, counts, strict=True))
        new = {name: max(count, old.get(name, 0)) for name, count in wanted.items() if count}
        self.rig.set_topics(**new)
        for member in [*self.members.values(), *self.dead]:
            for held in (member.owned, member.wanted):
                for name in set(held) - set(new):
                    del held[name]

    @rule(is_compacted=st.booleans())
    def move_coordinator(self, *, is_compacted: bool) -> None:
        """Another node loads the partition."""
        if is_compacted:
            self.rig.compact()
        self.rig.reload()

    @rule(refuses=st.booleans())
    def lose_replicas(self, *, refuses: bool) -> None:
        """Appends fail from now on, or succeed again."""
        self.rig.refuses = errors.NotEnoughReplicasError("no") if refuses else None

    # --- what must hold ----------------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        """OneOwner. A removed member does not count: its session has expired, so its consumer has stopped."""
        members = [each for each in [*self.members.values(), *self.dead] if self._is_member(each)]
        shared = {place: owners for place, owners in held_by(*members).items() if len(owners) > 1}
        assert not shared, shared

    @invariant()
    def groups_are_counted(self) -> None:
        """The counted metrics equal a full recount."""
        check_group_state_counts(self.rig.shard)

    def teardown(self) -> None:
        """After the faults each partition is read by one live member."""
        self.rig.refuses = None
        self.dead = []
        members = list(self.members.values())
        for _ in range(3 * SESSION_MS // 10_000):
            self.rig.advance(10_000)
            for member in members:
                self._beat(member, is_full=False, is_lost=False, settles=True)
        for _ in range(3):
            for member in members:
                self._beat(member, is_full=False, is_lost=False, settles=True)
        if not members:
            return
        group = self.rig.group
        assert group.state is GroupState.STABLE, self.rig.describe()
        read = {(topic, each) for topic in group.all_topics() for each in self._partitions(topic)}
        held = held_by(*members)
        assert held.keys() == read
        assert all(len(owners) == 1 for owners in held.values())

    def _partitions(self, topic: str) -> range:
        found = self.rig.image.topics.get(topic)
        return range(0 if found is None else len(found.partitions))


ConsumerGroupModel.TestCase.settings = settings(max_examples=120, stateful_step_count=50)
TestConsumerGroupModel = ConsumerGroupModel.TestCase
