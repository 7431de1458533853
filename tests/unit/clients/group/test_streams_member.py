"""The member of a streams group, event by event: the fields of its heartbeats, and its way to the target."""

from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group import member
from headrace.clients.group.states import MemberState
from headrace.clients.group.streams import StreamsApplication, StreamsMember, TaskRoles
from headrace.protocol import errors
from headrace.protocol.messages.streams_groups import (
    EndpointToPartitions,
    Status,
    StatusCode,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)
from headrace.protocol.model import TopicPartition
from headrace.protocol.records.streams_group_records import (
    Endpoint,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    SubtopologyGraph,
    TaskIds,
    TopologyDescription,
    TopologyNode,
)

A0, A1, A2, B0 = (TopicPartition(topic, number) for topic, number in (("a", 0), ("a", 1), ("a", 2), ("b", 0)))
CONFIG = member.MemberConfig("g", max_poll_interval_ms=60_000, rack_id="r", client_id="c")
TOPOLOGY = StreamsGroupTopologyValue(0, (Subtopology("0", ("a", "b")), Subtopology("1", ("c",))))
SOURCES = {"0": frozenset(("a", "b")), "1": frozenset("c")}
DESCRIPTION = TopologyDescription((SubtopologyGraph("0", False, (TopologyNode("read", 1),)),))
COUNTS = {"a": 3, "b": 1, "c": 1}
TAGS = (KeyValue("zone", "z"),)
S, K = MemberState, member.ChangeKind


class Member:
    """A member with its application; `answer` is a response to the heartbeat that is due."""

    def __init__(self, config: member.MemberConfig = CONFIG, **counts: int) -> None:
        self.application = StreamsApplication(
            TOPOLOGY,
            "process",
            SOURCES,
            endpoint=Endpoint("here", 80),
            client_tags=TAGS,
            description=DESCRIPTION,
        )
        self.core = StreamsMember(config, "me", Backoff(100, 100, Random(1)), self.application)
        self.core.polled(0)
        self.core.subscribe(["a", "b", "c"])
        self.core.topics_changed(counts or COUNTS, {})
        self.now_ms = 0

    def request(self) -> Any:
        """The heartbeat that is due now."""
        return self.sent(self.core.poll(self.now_ms))

    def sent(self, effects: Any) -> Any:
        (self.last,) = [effect for effect in effects if isinstance(effect, member.SendRequest)]
        return self.last.request

    def answer(self, epoch: int, *tasks: Any, **fields: Any) -> tuple[Any, ...]:
        """Without `tasks` an answer that changes none."""
        response = StreamsGroupHeartbeatResponse(0, "me", epoch, 5_000, **{**given(*tasks), **fields})
        return self.core.on_response(self.last, response, self.now_ms)

    def perform(self) -> Any:
        """Perform the pending change; gives it, and leaves the heartbeat that follows in `last`."""
        change = self.core.begin()
        effects = self.core.on_done(self.now_ms)
        if effects:
            self.sent(effects)
        return change

    def later(self) -> Any:
        """The next regular heartbeat."""
        self.now_ms += 5_000
        self.core.polled(self.now_ms)
        return self.request()

    def joined(self, *tasks: Any) -> Any:
        """Join, adopt these tasks, report them."""
        self.request()
        self.answer(1, *tasks)
        self.perform()
        self.answer(1)
        assert self.core.state is S.STABLE
        return self


def given(active: str | None = None, standby: str = "", warmup: str = "") -> dict[str, Any]:
    """Tasks as in "00 01": subtopology and partition."""
    if active is None:
        return {}
    roles = {"active": active, "standby": standby, "warmup": warmup}
    return {role: ids(*names.split()) for role, names in roles.items()}


def ids(*names: str) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology, tuple(int(name[1]) for name in names if name[0] == subtopology))
        for subtopology in sorted({name[0] for name in names})
    )


def roles(active: str = "", standby: str = "", warmup: str = "") -> TaskRoles:
    return TaskRoles(
        *(frozenset((name[0], int(name[1])) for name in names.split()) for names in (active, standby, warmup))
    )


def test_join_has_all_fields_and_later_heartbeats_have_changes() -> None:
    """Tasks are reported once they are adopted."""
    me = Member()
    first = me.request()
    assert (first.member_id, first.member_epoch, first.topology) == ("me", 0, TOPOLOGY)
    assert (first.active, first.standby, first.warmup) == ((), (), ())
    assert (first.process_id, first.rack_id, first.client_tags) == ("process", "r", TAGS)
    assert (first.user_endpoint, first.rebalance_timeout_ms) == (Endpoint("here", 80), 60_000)
    assert (first.client_id, first.endpoint_information_epoch) == ("c", -1)
    assert first.topology_description == DESCRIPTION
    assert me.core.poll(99) == (), "one request at a time"
    me.answer(3, "00 02", "10")
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, (A0, A2, B0))
    assert me.application.tasks == roles("00 02", "10")
    report = me.last.request
    assert (report.active, report.standby, report.warmup) == (ids("00", "02"), ids("10"), ())
    assert (report.member_epoch, report.topology, report.process_id) == (3, None, None)
    assert report.topology_description is None, "once, when it joins"
    assert (report.rebalance_timeout_ms, report.client_tags, report.user_endpoint) == (-1, None, None)
    assert me.core.state is S.ACKNOWLEDGING
    me.answer(3)
    assert me.core.state is S.STABLE
    assert me.later().active is None


def test_active_tasks_are_revoked_and_reported_before_others_are_adopted() -> None:
    """So that the coordinator can assign them to other members. Standby tasks need no such step."""
    me = Member().joined("00 01", "10")
    me.later()
    me.answer(2, "01", "00")
    assert me.perform() == member.OwnershipChange(K.REVOKED, (A0, B0))
    assert me.application.tasks == roles("01", "00")
    assert (me.last.request.active, me.last.request.standby) == (ids("01"), ids("00"))
    me.answer(3, "01 02", "00")
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, (A2,))
    assert (me.last.request.active, me.last.request.standby) == (ids("01", "02"), ids("00"))
    assert me.core.metadata == ("g", 3, "me", None), "what commits carry"


def test_revocation_is_followed_by_an_assignment() -> None:
    """Also by one without further tasks: the thread is running again."""
    me = Member().joined("00 01")
    me.later()
    me.answer(2, "01")
    assert me.perform().kind is K.REVOKED
    assert me.core.pending == member.OwnershipChange(K.ASSIGNED, ())
    me.answer(3)
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, ())
    assert me.application.tasks == roles("01")
    me.answer(3)
    assert (me.core.state, me.core.pending) == (S.STABLE, None)


def test_change_of_standby_tasks_is_one_change_without_partitions() -> None:
    me = Member().joined("00", "01", "10")
    me.later()
    me.answer(2, "00", "02")
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, ())
    assert me.application.tasks == roles("00", "02")
    assert (me.last.request.standby, me.last.request.warmup) == (ids("02"), ())


def test_standby_task_becomes_active_in_one_change() -> None:
    me = Member().joined("", "00")
    me.later()
    me.answer(2, "00")
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, (A0, B0))
    assert me.application.tasks == roles("00")


def test_new_target_waits_for_a_change_that_has_begun() -> None:
    """The thread sees the target of the change, not the newer one."""
    me = Member().joined("")
    me.later()
    me.answer(2, "00")
    me.core.begin()
    me.later()
    me.answer(3, "01")
    assert me.core.pending == member.OwnershipChange(K.ASSIGNED, (A0, B0))
    assert me.application.tasks == roles("00")
    me.sent(me.core.on_done(me.now_ms))
    assert me.perform() == member.OwnershipChange(K.REVOKED, (A0, B0))
    assert me.application.tasks == roles("01")


def test_tasks_to_adopt_are_reported_as_owned() -> None:
    """Also before the consumer begins: a full heartbeat without them would give them to another member."""
    me = Member().joined("00")
    me.later()
    me.answer(2, "00 01")
    me.later()
    effects = me.core.on_failure(me.last, errors.NotCoordinatorError("moved"), me.now_ms)
    assert effects == (member.ForgetCoordinator(),)
    report = me.later()
    assert (report.active, report.topology) == (ids("00", "01"), None)
    assert (report.process_id, report.rebalance_timeout_ms, report.member_epoch) == ("process", 60_000, 2)


@pytest.mark.parametrize("code", [code for code in StatusCode if code.value in (1, 2, 3, 5)])
def test_empty_assignment_of_a_group_that_is_not_ready_is_not_adopted(code: StatusCode) -> None:
    """The instance is not running before its tasks are assigned."""
    me = Member()
    me.request()
    me.answer(1, "", status=(Status(code.value, "wait"),))
    assert me.core.begin() is None
    assert [each.status_code for each in me.application.statuses] == [code.value]
    me.later()
    me.answer(2)
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, ())


def test_partitions_follow_the_metadata() -> None:
    """A task waits for topics without metadata; partitions that are added later are adopted; topics that the
    application drops are released. A named topic that the metadata loses stays: the coordinator decides."""
    me = Member(c=1)
    me.request()
    me.answer(1, "00")
    assert me.core.has_unknown_topics
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, ())
    me.answer(1)
    me.core.topics_changed({"a": 1}, {})
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, (A0,))
    me.answer(1)
    assert me.core.has_unknown_topics
    me.core.topics_changed(COUNTS, {})
    assert not me.core.has_unknown_topics
    assert me.perform() == member.OwnershipChange(K.ASSIGNED, (B0,))
    me.answer(1)
    me.core.topics_changed({"c": 1}, {})
    assert me.core.pending is None
    me.application.sources = {"0": frozenset("a"), "1": frozenset("c")}
    me.core.subscribe(["a", "c"])
    me.sent(me.core.poll(me.now_ms))
    me.core.topics_changed(COUNTS, {})
    assert me.core.pending == member.OwnershipChange(K.REVOKED, (B0,))


def test_new_source_topics_are_adopted_and_make_a_heartbeat() -> None:
    """The coordinator may have internal topics to create."""
    me = Member().joined("00")
    me.application.sources = {"0": frozenset(("a", "b", "d")), "1": frozenset("c")}
    me.core.subscribe(["a", "b", "c", "d"])
    assert me.request().active is None
    me.core.topics_changed({**COUNTS, "d": 1}, {})
    assert me.core.begin() == member.OwnershipChange(K.ASSIGNED, (TopicPartition("d", 0),))


@pytest.mark.parametrize(
    "error",
    [errors.UnknownMemberIdError("x"), errors.FencedMemberEpochError("x"), errors.GroupIdNotFoundError("x")],
)
@pytest.mark.parametrize("task", ["active", "standby"])
def test_fenced_member_loses_its_tasks_and_rejoins(error: Any, task: str) -> None:
    """With the same id, at epoch 0, without tasks, and with the topology. Its old metadata fence commits."""
    me = Member().joined("00" if task == "active" else "", "01" if task == "standby" else "")
    me.later()
    assert me.core.on_failure(me.last, error, me.now_ms) == ()
    old = me.core.owner_metadata
    assert old.generation_id == (1 if task == "active" else -1)
    assert me.perform() == member.OwnershipChange(K.LOST, (A0, B0) if task == "active" else ())
    assert me.application.tasks == roles()
    rejoin = me.last.request
    assert (rejoin.member_id, rejoin.member_epoch, rejoin.topology) == ("me", 0, TOPOLOGY)
    assert (rejoin.active, rejoin.standby) == ((), ())
    me.answer(5, "00")
    assert me.perform().kind is K.ASSIGNED


def test_refused_join_is_raised_once() -> None:
    me = Member()
    me.request()
    assert me.core.on_failure(me.last, errors.InvalidRequestError("other topology"), 0) == ()
    assert (me.core.state, me.core.begin()) == (S.FAILED, None)
    assert isinstance(me.core.error, errors.InvalidRequestError)
    me.core.error_raised()
    assert me.request().member_epoch == 0


def test_leave_and_poll_timeout() -> None:
    me = Member().joined("00")
    assert me.core.poll(60_000)[0].request.member_epoch == -1  # type: ignore[union-attr]
    assert me.core.state is S.LATE
    me.core.polled(60_001)
    assert me.core.begin() == member.OwnershipChange(K.LOST, (A0, B0))
    other = Member().joined("00")
    (leave,) = other.core.unsubscribe(leave=True, reason="closed")
    assert isinstance(leave, member.SendRequest)
    assert (leave.request.member_epoch, leave.request.active) == (-1, None)
    assert other.core.poll(70_000) == ()


def test_shutdown_request_is_sent_at_once_and_its_status_is_shown() -> None:
    me = Member().joined("00")
    me.application.requests_shutdown = True
    me.core.enforce_rebalance("the end")
    assert me.request().shutdown_application
    me.answer(1, status=(Status(StatusCode.SHUTDOWN_APPLICATION.value, "me"),))
    assert [each.status_code for each in me.application.statuses] == [StatusCode.SHUTDOWN_APPLICATION.value]
    assert me.core.state is S.STABLE


def test_endpoints_and_offsets_of_tasks_travel() -> None:
    """Endpoint information stays until the coordinator sends other; offsets are sent when they change."""
    me = Member().joined("00")
    known = (EndpointToPartitions(Endpoint("there", 81), (), ()),)
    me.application.task_offsets, me.application.task_end_offsets = {("0", 0): 5}, {("0", 0): 7}
    request = me.later()
    assert request.task_offsets == (TaskOffset("0", 0, 5),)
    assert request.task_end_offsets == (TaskOffset("0", 0, 7),)
    me.answer(
        1, endpoint_information_epoch=9, partitions_by_user_endpoint=known, task_offset_interval_ms=60_000
    )
    assert me.application.partitions_by_endpoint == known
    assert me.application.task_offset_interval_ms == 60_000
    request = me.later()
    assert (request.endpoint_information_epoch, request.task_offsets) == (9, None)
    me.answer(2, endpoint_information_epoch=9)
    assert (me.application.partitions_by_endpoint, me.application.member_epoch) == (known, 2)
