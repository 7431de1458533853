"""Random members of a classic group, on a coordinator that moves, fails to write, and loses uncommitted
state: the protocol's guarantees hold at every step, and in the end no request is pending."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from group_rig import Asked, GroupRig
from headrace.coordinators.group.classic_group import ClassicGroup
from headrace.coordinators.group.classic_states import ClassicState
from headrace.protocol.errors import KafkaError, MemberIdRequiredError, NotEnoughReplicasError
from headrace.protocol.messages import groups as m
from headrace.protocol.messages import registry
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from recount import check_group_state_counts

S = ClassicState
PARTITIONS = ("t", "u")
PROTOCOLS = (
    (m.GroupProtocol("range", b"1"),),
    (m.GroupProtocol("range", b"2"), m.GroupProtocol("sticky", b"2")),
)


@dataclass(eq=False)
class Client:
    """One process that wants to be a member."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    join: m.JoinGroupResponse | None = None  # its generation
    on_sync: bool = False
    protocols: tuple[m.GroupProtocol, ...] = PROTOCOLS[0]
    waits_for: Asked | None = None
    on_response: Callable[[Any], None] | None = None


class GroupMachine(RuleBasedStateMachine):
    """A model of the responses that the clients have."""

    clients_of = st.integers(0, 4)

    @initialize(delay_ms=st.sampled_from([0, 3_000]), size=st.sampled_from([2, 100]))
    def begin(self, delay_ms: int, size: int) -> None:
        self.rig = GroupRig(
            group_initial_rebalance_delay_ms=delay_ms,
            group_max_size=size,
            offsets_retention_minutes=2**31 - 1,
        )
        self.clients = [Client("i" if number == 0 else "j" if number == 1 else None) for number in range(5)]
        self.given: dict[tuple[int, bytes], str] = {}  # (generation, assignment): its member
        self.offsets: dict[tuple[str, int], int] = {}  # applied
        self.safe_offsets: dict[tuple[str, int], int] = {}  # committed
        self.next_offset = 0

    # --- clients -----------------------------------------------------------------------------------------

    def send(self, client: Client, asked: Asked, on_response: Callable[[Any], None]) -> None:
        client.waits_for, client.on_response = asked, on_response
        self.deliver_responses()

    def deliver_responses(self) -> None:
        """Clients handle their responses, and send the next requests at once."""
        for client in self.clients:
            asked, on_response = client.waits_for, client.on_response
            if asked is not None and on_response is not None and not asked.waits:
                client.waits_for = client.on_response = None
                on_response(asked.answer)

    def forget(self, client: Client) -> None:
        client.member_id, client.generation, client.join = "", -1, None

    def on_join_response(self, client: Client, protocols: tuple[m.GroupProtocol, ...], body: Any) -> None:
        code = body.code if isinstance(body, KafkaError) else body.error_code
        if code == MemberIdRequiredError.code:
            client.member_id = body.member_id
            self.ask_join(client, protocols)
        elif code:
            if code in (25, 81, 82):
                self.forget(client)
        else:
            assert client.member_id in ("", body.member_id)
            client.member_id, client.generation, client.join = body.member_id, body.generation_id, body
            client.on_sync = False

    def ask_join(self, client: Client, protocols: tuple[m.GroupProtocol, ...]) -> None:
        client.join, client.protocols = None, protocols
        asked = self.rig.join(
            client.member_id,
            group_instance_id=client.instance_id,
            protocols=protocols,
            rebalance_timeout_ms=30_000,
        )
        self.send(client, asked, lambda body: self.on_join_response(client, protocols, body))

    @rule(number=clients_of, protocols=st.sampled_from(PROTOCOLS))
    def joins(self, number: int, protocols: tuple[m.GroupProtocol, ...]) -> None:
        """The client joins, for the first time or again."""
        self.ask_join(self.clients[number], protocols)

    def on_sync_response(self, client: Client, generation: int, body: Any) -> None:
        code = body.code if isinstance(body, KafkaError) else body.error_code
        if code in (25, 82):
            self.forget(client)
        elif code == 27:
            client.join = None
        client.on_sync = not code
        if code or not body.assignment:
            return
        member = client.instance_id or client.member_id
        owner = self.given.setdefault((generation, body.assignment), member)
        assert owner == member, "two members have the same assignment"

    @rule(number=clients_of)
    def syncs(self, number: int) -> None:
        """The client syncs, for the first time or again."""
        if self.clients[number].join is not None:
            self.ask_sync(self.clients[number])

    def ask_sync(self, client: Client) -> None:
        """Sync; the group leader assigns each partition to one member."""
        joined = client.join
        assert joined is not None
        ids = [each.member_id for each in joined.members] if not joined.skip_assignment else []
        unique = f"{joined.generation_id}.{len(self.rig.asked)}"
        given = {each: f"{unique}.{place}".encode() for place, each in enumerate(ids)}
        asked = self.rig.sync(
            client.member_id, joined.generation_id, group_instance_id=client.instance_id, assignments=given
        )
        self.send(client, asked, lambda body: self.on_sync_response(client, joined.generation_id, body))

    @rule(number=clients_of)
    def heartbeats(self, number: int) -> None:
        """A heartbeat with the client's own view of its generation."""
        self.ask_heartbeat(self.clients[number])

    def ask_heartbeat(self, client: Client) -> Asked:
        return self.rig.heartbeat(client.member_id, client.generation, instance_id=client.instance_id)

    @rule(numbers=st.permutations(range(5)), count=st.integers(1, 5), rounds=st.integers(1, 4))
    def go_on(self, numbers: list[int], count: int, rounds: int) -> None:
        """Some clients run normally for a while."""
        for _ in range(rounds):
            self.all_go_on(numbers[:count])
            self.rig.advance(1_000)
            self.deliver_responses()

    @rule()
    def settle(self) -> None:
        """All clients run: in the end each has an assignment, or the group is full."""
        for _ in range(12):
            self.go_on(list(range(5)), 5, 2)
        group = self.rig.shard.groups["g"]
        assert isinstance(group, ClassicGroup)
        assert group.state is S.STABLE
        assert group.member_count == min(5, self.rig.config.now.group_max_size)

    def all_go_on(self, numbers: Iterable[int]) -> None:
        for client in (self.clients[number] for number in numbers):
            if client.waits_for is None:
                self.goes_on(client)
        self.remember_what_is_committed()

    def goes_on(self, client: Client) -> None:
        if client.join is None:
            self.ask_join(client, client.protocols)
        elif not client.on_sync:
            self.ask_sync(client)
        else:
            beat = self.ask_heartbeat(client)
            if beat.waits or not beat.code:
                return
            if beat.code in (25, 82):
                self.forget(client)
            self.ask_join(client, client.protocols)

    @rule(number=clients_of)
    def leaves(self, number: int) -> None:
        """The member sends LeaveGroup."""
        client = self.clients[number]
        self.rig.leave(m.LeavingMember(client.member_id, client.instance_id))
        self.forget(client)
        self.deliver_responses()

    @rule(number=clients_of)
    def dies(self, number: int) -> None:
        """The client loses its state; it may join again as a new member."""
        client = self.clients[number]
        client.waits_for = client.on_response = None
        self.forget(client)

    @rule(number=clients_of, topic=st.sampled_from(PARTITIONS), reset=st.booleans())
    def commits(self, number: int, topic: str, reset: bool) -> None:
        """As a member, or as a tool without a member id."""
        client = self.clients[number]
        self.next_offset += 1
        before = len(self.rig.log)
        member = ("", -1) if reset else (client.member_id, client.generation)
        self.rig.commit_offset(self.next_offset, *member, tp=(topic, 0))
        if len(self.rig.log) > before:
            self.offsets[topic, 0] = self.next_offset

    # --- the world ---------------------------------------------------------------------------------------

    @rule(by_ms=st.sampled_from([0, 1, 2_999, 5_000, 10_000, 30_000, 300_000]))
    def time_passes(self, by_ms: int) -> None:
        """Sessions and rebalances may time out."""
        self.rig.advance(by_ms)
        self.deliver_responses()

    @rule(mishap=st.sampled_from(["moves", "loses its tail", "stops", "fails"]), rounds=st.integers(0, 3))
    def has_a_mishap(self, mishap: str, rounds: int) -> None:
        """The coordinator moves, also to a node without uncommitted records, or cannot append for some
        rounds, in which the clients continue."""
        self.rig.is_committing = mishap not in ("stops", "loses its tail")
        self.rig.refuses = NotEnoughReplicasError() if mishap == "fails" else None
        for _ in range(rounds):
            self.all_go_on(range(len(self.clients)))
        self.rig.refuses = None
        if mishap == "loses its tail":
            self.offsets = dict(self.safe_offsets)
            self.rig.lose_tail()
        elif mishap == "moves":
            self.rig.reload()
        self.rig.is_committing = True
        self.rig.commit()
        self.deliver_responses()

    # --- what holds --------------------------------------------------------------------------------------

    @invariant()
    def remember_what_is_committed(self) -> None:
        if self.rig.committed_end == len(self.rig.log):
            self.safe_offsets = dict(self.offsets)

    @invariant()
    def committed_offsets_do_not_move_by_themselves(self) -> None:
        stored = self.rig.shard.store.of("g")
        assert {tuple(tp): each.value.offset for tp, each in stored.items()} == self.offsets

    @invariant()
    def groups_are_counted(self) -> None:
        check_group_state_counts(self.rig.shard)

    @invariant()
    def the_group_is_what_it_says(self) -> None:
        group = self.rig.shard.groups.get("g")
        if group is None:
            return
        assert isinstance(group, ClassicGroup)
        members = group.members
        static = {each.group_instance_id: key for key, each in members.items() if each.group_instance_id}
        assert group.static_members == static
        assert all(key == each.member_id for key, each in members.items())
        assert (group.leader in members) if members else group.leader is None
        assert bool(members) or group.state in (S.EMPTY, S.PREPARING_REBALANCE)
        assert not members or group.state is not S.EMPTY
        assert set(group.pending_syncs) <= set(members)
        assert not set(members) & group.pending_joins
        for member in members.values():
            assert member.joining is None or group.state is S.PREPARING_REBALANCE
            assert member.syncing is None or group.state is S.COMPLETING_REBALANCE
            assert member.waits or self.rig.deadline_of(("session", "g", member.member_id)) is not None
        for each in group.pending_joins:
            assert self.rig.deadline_of(("session", "g", each)) is not None
        is_preparing = group.state is S.PREPARING_REBALANCE
        assert (self.rig.deadline_of(("join", "g")) is not None) == is_preparing
        assert (self.rig.deadline_of(("sync", "g")) is not None) == bool(group.pending_syncs)
        assert group.state is not S.COMPLETING_REBALANCE or group.leader in group.pending_syncs

    def teardown(self) -> None:
        """Without further requests all pending ones get a response, and the group becomes empty."""
        if not hasattr(self, "rig"):
            return
        self.rig.refuses, self.rig.is_committing = None, True
        self.rig.commit()
        for client in self.clients:
            client.on_response = None
        for _ in range(20):
            self.rig.advance(300_000)
        assert [asked for asked in self.rig.asked if asked.waits] == []
        group = self.rig.shard.groups.get("g")
        assert group is None or group.is_empty
        assert self.rig.shard.close() == []
        body = m.OffsetFetchRequest((m.OffsetFetchGroup("g"),))
        self.rig.request(registry.OFFSET_FETCH, body)


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=120, stateful_step_count=60)
