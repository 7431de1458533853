"""Members of both protocols join and leave one group in any order: the group converts with them, no
partition has two owners, and in the end each has one."""

from contextlib import suppress

from headrace.protocol.errors import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.consumer_group_rig import GROUP, ConsumerGroupRig, SimClassicMember, SimMember, held_by

Someone = SimMember | SimClassicMember
PARTITIONS = 5
WHAT = ["step"] * 8 + ["new", "classic", "eager", "leave", "die", "reload", "wait"]


class Crowd:
    """Consumers of one group; `dead` ones send no heartbeats, but still read their partitions."""

    def __init__(self) -> None:
        self.rig = ConsumerGroupRig()
        self.rig.set_topics(events=PARTITIONS)
        self.alive: list[Someone] = []
        self.dead: list[Someone] = []
        self.count = 0

    def happen(self, what: str, place: int) -> None:
        if what in ("new", "classic", "eager"):
            self.appear(what, is_static=place % 2 == 0)
        elif what == "reload":
            self.rig.reload()
        elif what == "wait":
            self.rig.advance(3_000)
        elif self.alive:
            member = self.alive[place % len(self.alive)]
            if what == "step":
                self.step(member)
            elif len(self.alive) > 1:
                self.alive.remove(member)
                if what == "die":
                    self.dead.append(member)
                else:
                    self.leave(member)
        self.check()

    def appear(self, what: str, *, is_static: bool) -> None:
        if len(self.alive) >= 5:
            return
        self.count += 1
        instance_id = f"instance-{self.count}" if is_static else None
        if what == "new":
            self.alive.append(SimMember(self.rig, f"new-{self.count}", ("events",), instance_id=instance_id))
        else:
            is_eager = what == "eager"
            self.alive.append(SimClassicMember(self.rig, instance_id=instance_id, is_eager=is_eager))

    def step(self, member: Someone) -> None:
        if isinstance(member, SimClassicMember):
            member.step()
            return
        try:
            member.beat()
        except KafkaError:
            assert not self.is_member(member)
            member.forget()

    def leave(self, member: Someone) -> None:
        member.owned = {}
        with suppress(KafkaError):
            member.leave()

    def return_to_classic(self) -> None:
        """All members of the new protocol leave, while classic members lag behind."""
        for member in [each for each in self.alive if isinstance(each, SimMember)]:
            self.alive.remove(member)
            self.leave(member)
            self.check()

    def is_member(self, member: Someone) -> bool:
        group = self.rig.shard.groups.get(GROUP)
        return group is not None and group.has_member(member.member_id)

    def check(self) -> None:
        self.rig.advance(0)
        members = [each for each in [*self.alive, *self.dead] if self.is_member(each)]
        shared = {place: owners for place, owners in held_by(*members).items() if len(owners) > 1}
        assert not shared, shared

    def come_to_rest(self) -> None:
        self.dead = []
        for _ in range(60):
            self.rig.advance(3_000)
            for member in self.alive:
                self.step(member)
            self.check()
        if self.alive:
            assert len(held_by(*self.alive)) == PARTITIONS, self.rig.shard.groups[GROUP].state_name


HAPPENINGS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 9)), max_size=60)


@settings(max_examples=150)
@given(HAPPENINGS, st.booleans())
def test_groups_of_both_protocols(happenings: list[tuple[str, int]], returns: bool) -> None:
    """Any mix of protocols, with coordinators that move. No coordinator has forgotten a generation that it
    gave to a member: see `SimClassicMember`."""
    crowd = Crowd()
    for protocol in ("classic", "eager", "new"):
        crowd.appear(protocol, is_static=False)
    for what, place in happenings:
        crowd.happen(what, place)
    if returns:
        crowd.return_to_classic()
    crowd.come_to_rest()
