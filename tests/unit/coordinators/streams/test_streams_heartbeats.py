"""Heartbeats of streams groups: joining, leaving, epochs, statuses, and what is refused."""

from dataclasses import replace

import pytest
from headrace.coordinators.streams.streams_group import GroupState
from headrace.coordinators.streams.streams_member import MemberState
from headrace.coordinators.streams.tasks import Role
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.streams_groups import StatusCode, StreamsGroupHeartbeatRequest
from headrace.protocol.metadata.image import GROUP_RESOURCE
from headrace.protocol.records.streams_group_records import KeyValue, Subtopology, TaskIds
from headrace.protocol.security.acls import AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity

from tests.fakes.consumer_group_rig import SimMember, with_config
from tests.fakes.streams_group_rig import (
    APP,
    JOINING,
    KEYING,
    MAPPING,
    REBALANCE_MS,
    SESSION_MS,
    StreamsGroupRig,
    StreamsMember,
    run_app,
    tasks_of,
    topic,
    topology,
)

_S = StatusCode


@pytest.fixture
def rig() -> StreamsGroupRig:
    rig = StreamsGroupRig()
    rig.set_topics(events=6, **{"app-counts-changelog": 6})
    return rig


def config_of(rig: StreamsGroupRig, **values: str) -> None:
    """Set configs of the group; underscores for dots."""
    own = {name.replace("_", "."): value for name, value in values.items()}
    rig.image = replace(rig.image, configs={(GROUP_RESOURCE, APP): own})


def test_first_member_is_assigned_all_tasks(rig: StreamsGroupRig) -> None:
    """Group epoch 2, as Kafka's: epoch 1 is that of members which wait for the first assignment."""
    first = StreamsMember(rig, "a")
    answer = first.beat()
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.status) == (0, "a", 2, ())
    assert first.tasks() == tasks_of("0", range(6))
    assert rig.app.state is GroupState.STABLE
    assert rig.app.metadata.validated_topology_epoch == 0


def test_second_member_gets_its_half_after_the_first_revoked_it(rig: StreamsGroupRig) -> None:
    """An active task is assigned only after its previous owner has revoked it."""
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    first.beat()
    second.beat()
    assert second.owned == {}
    assert rig.app.members["b"].state is MemberState.UNRELEASED_TASKS
    first.take(first.send())
    assert (first.epoch, len(first.wanted)) == (2, 3)
    assert rig.app.members["a"].state is MemberState.UNREVOKED_TASKS
    second.beat()
    assert second.owned == {}, "the first still processes them"
    first.settle()
    first.beat()
    second.beat()
    assert first.epoch == second.epoch == 3
    assert first.tasks() | second.tasks() == tasks_of("0", range(6))
    assert len(second.tasks()) == 3
    assert rig.app.state is GroupState.STABLE


def test_tasks_of_a_leaving_member_are_reassigned(rig: StreamsGroupRig) -> None:
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first, second)
    assert first.leave().member_epoch == -1
    assert rig.app.state is GroupState.ASSIGNING
    run_app(second)
    assert len(second.tasks()) == 6
    second.leave()
    assert rig.app.state is GroupState.EMPTY
    with pytest.raises(errors.UnknownMemberIdError):
        second.leave()


def test_reload_restores_the_group(rig: StreamsGroupRig) -> None:
    """From the whole log and from the compacted log; the next heartbeats write no record."""
    config_of(rig, streams_num_standby_replicas="1")
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first, second)
    assert second.tasks(Role.STANDBY)
    before = rig.described()
    rig.reload()
    assert rig.described() == before
    rig.compact()
    rig.reload()
    assert rig.described() == before
    size = len(rig.log)
    run_app(first, second)
    assert len(rig.log) == size, "no record was appended"


def test_member_with_an_expired_session_is_removed(rig: StreamsGroupRig) -> None:
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first, second)
    rig.advance(SESSION_MS - 1)
    second.beat()
    rig.advance(1)
    assert list(rig.app.members) == ["b"]
    with pytest.raises(errors.UnknownMemberIdError):
        first.beat()
    run_app(second)
    assert len(second.tasks()) == 6


def test_session_timeout_of_the_group_config(rig: StreamsGroupRig) -> None:
    config_of(rig, streams_session_timeout_ms="8000", streams_heartbeat_interval_ms="1000")
    first = StreamsMember(rig, "a")
    first.beat()
    rig.advance(7_999)
    assert first.beat().heartbeat_interval_ms == 1_000
    rig.advance(8_000)
    assert rig.app.is_empty


def test_member_that_does_not_revoke_in_time_is_removed(rig: StreamsGroupRig) -> None:
    """Although its heartbeats arrive."""
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    first.beat()
    second.beat()
    first.take(first.send())
    for _ in range(2):
        rig.advance(REBALANCE_MS // 2 - 1)
        first.send()
        second.beat()
    rig.advance(2)
    assert list(rig.app.members) == ["b"]
    second.beat()
    assert len(second.tasks()) == 6


def test_lost_response_is_repeated(rig: StreamsGroupRig) -> None:
    """The previous epoch is accepted, and the response has the assignment again."""
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first, second)
    second.leave()
    first.send()
    answer = first.resend()
    assert answer.member_epoch == 4
    assert answer.active == (TaskIds("0", (0, 1, 2, 3, 4, 5)),)
    with pytest.raises(errors.FencedMemberEpochError):
        first.send(member_epoch=99)


def test_unchanged_assignment_is_not_sent(rig: StreamsGroupRig) -> None:
    """Once the member has reported the tasks."""
    first = StreamsMember(rig, "a")
    first.take(first.send())
    assert first.send().active is not None, "not reported yet"
    first.settle()
    assert first.beat().active is None
    assert first.beat().active is None
    assert first.beat(is_full=True).active is not None


# --- the topology and its topics ----------------------------------------------------------------------------


def test_missing_source_topics(rig: StreamsGroupRig) -> None:
    """The group is NotReady until they exist; a deleted topic takes the tasks away."""
    rig.set_topics()
    first = StreamsMember(rig, "a")
    answer = first.beat()
    assert first.statuses == (_S.MISSING_SOURCE_TOPICS,)
    assert answer.status[0].status_detail == "Source topics events are missing."
    assert (first.owned, rig.app.state, rig.sent) == ({}, GroupState.NOT_READY, [])
    rig.set_topics(events=2, **{"app-counts-changelog": 2})
    first.beat()
    assert first.statuses == ()
    assert first.tasks() == tasks_of("0", range(2))
    rig.set_topics()
    run_app(first, rounds=2)
    assert (first.owned, rig.app.state) == ({}, GroupState.NOT_READY)


def test_internal_topics_are_created(rig: StreamsGroupRig) -> None:
    """With the computed numbers of partitions and the configs of the topology, in one request per group."""
    rig.set_topics(events=4, users=8)
    first = StreamsMember(rig, "a", topology=topology(KEYING, JOINING))
    first.beat()
    first.beat()
    assert first.statuses == (_S.MISSING_INTERNAL_TOPICS,)
    (sent,) = rig.sent
    specs = {spec.name: spec for spec in sent.body.topics}
    joined, keyed = specs["app-joined-changelog"], specs["app-keyed-repartition"]
    assert (joined.num_partitions, joined.replication_factor) == (8, -1)
    assert joined.configs == {"cleanup.policy": "compact"}
    assert (keyed.num_partitions, keyed.replication_factor) == (8, 2)
    rig.create_topics()
    first.beat()
    assert (first.statuses, rig.app.state) == ((), GroupState.STABLE)
    assert first.tasks() == tasks_of("0", range(4)) | tasks_of("1", range(8))


def test_failed_creation_is_reported_and_repeated(rig: StreamsGroupRig) -> None:
    """A second later; the status has the error."""
    rig.set_topics(events=4)
    first = StreamsMember(rig, "a")
    first.beat()
    rig.reply(errors.RequestTimedOutError("no controller"))
    detail = first.beat().status[0].status_detail
    assert detail == "Internal topics are missing: app-counts-changelog; Creation failed: no controller"
    assert rig.sent == []
    rig.advance(1_000)
    first.beat()
    assert rig.create_topics() == {"app-counts-changelog": 4}
    first.beat()
    assert first.statuses == ()


def test_topics_are_created_after_the_commit(rig: StreamsGroupRig) -> None:
    """A coordinator that lost its leadership creates none."""
    rig.set_topics(events=4)
    rig.is_committing = False
    rig.request(registry.STREAMS_GROUP_HEARTBEAT, StreamsMember(rig, "a").request())
    assert rig.sent == []
    rig.commit()
    assert len(rig.sent) == 1


def test_incorrectly_partitioned_topics(rig: StreamsGroupRig) -> None:
    rig.set_topics(events=4, **{"app-counts-changelog": 3})
    first = StreamsMember(rig, "a")
    answer = first.beat()
    assert first.statuses == (_S.INCORRECTLY_PARTITIONED_TOPICS,)
    assert "expected 4, found 3" in answer.status[0].status_detail
    assert rig.described().topology.subtopologies is None


def test_more_partitions_are_more_tasks(rig: StreamsGroupRig) -> None:
    first = StreamsMember(rig, "a", topology=topology(MAPPING))
    first.beat()
    rig.set_topics(events=8)
    run_app(first, rounds=2)
    assert first.tasks() == tasks_of("0", range(8))


def test_member_with_an_older_topology(rig: StreamsGroupRig) -> None:
    """It is a member; a changed topology is refused while there are members."""
    StreamsMember(rig, "a", topology=topology(epoch=2)).beat()
    older = StreamsMember(rig, "b", topology=topology(MAPPING, epoch=1))
    older.beat()
    assert older.statuses == (_S.STALE_TOPOLOGY,)
    older.beat()
    assert older.statuses == (_S.STALE_TOPOLOGY,), "also in later heartbeats"
    with pytest.raises(errors.InvalidRequestError, match="stop all instances"):
        StreamsMember(rig, "c", topology=topology(MAPPING, epoch=2)).beat()
    with pytest.raises(errors.InvalidRequestError, match="stop all instances"):
        StreamsMember(rig, "c", topology=topology(epoch=4)).beat()
    others = MAPPING._replace(source_topics=("others",))
    with pytest.raises(errors.InvalidRequestError, match="stop all instances"):
        StreamsMember(rig, "c", topology=topology(others, epoch=3)).beat()


def test_next_topology_epoch_with_the_same_tasks_is_taken(rig: StreamsGroupRig) -> None:
    """A rolling upgrade: members with the older topology get a status and keep tasks; one more joins both."""
    before = StreamsMember(rig, "a", topology=topology(MAPPING))
    before.beat()
    store = MAPPING._replace(state_changelog_topics=(topic("app-late-changelog", 0),))
    rig.set_topics(events=6, **{"app-late-changelog": 6})
    after = StreamsMember(rig, "b", topology=topology(store, epoch=1))
    run_app(after, before, rounds=4)
    assert rig.app.topology == after.topology
    assert before.statuses == (_S.STALE_TOPOLOGY,)
    assert _S.STALE_TOPOLOGY not in after.statuses
    assert len(before.tasks()) == len(after.tasks()) == 3
    rig.reload()
    assert rig.app.topology == after.topology
    with pytest.raises(errors.InvalidRequestError, match="stop all instances"):
        StreamsMember(rig, "c", topology=topology(store._replace(source_topics=("other",)), epoch=2)).beat()


def test_empty_group_takes_a_new_topology(rig: StreamsGroupRig) -> None:
    """An application that was stopped and changed."""
    first = StreamsMember(rig, "a")
    first.beat()
    first.leave()
    rig.set_topics(events=6, others=2)
    second = StreamsMember(rig, "b", topology=topology(MAPPING._replace(source_topics=("others",))))
    second.beat()
    assert second.tasks() == tasks_of("0", range(2))
    rig.reload()
    assert rig.app.topology == second.topology


# --- delays -------------------------------------------------------------------------------------------------


def test_first_assignment_is_delayed(rig: StreamsGroupRig) -> None:
    """Members that join within the delay wait in epoch 1, and nothing is revoked afterwards."""
    with_config(rig, group_streams_initial_rebalance_delay_ms=3_000)
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    first.beat()
    assert (first.epoch, first.owned, first.statuses) == (1, {}, (_S.ASSIGNMENT_DELAYED,))
    assert rig.app.state is GroupState.ASSIGNING
    rig.advance(2_999)
    second.beat()
    assert (second.epoch, second.statuses) == (1, (_S.ASSIGNMENT_DELAYED,))
    rig.advance(1)
    assert rig.app.state is GroupState.RECONCILING
    first.beat()
    second.beat()
    assert (len(first.tasks()), len(second.tasks())) == (3, 3)


def test_assignments_have_an_interval(rig: StreamsGroupRig) -> None:
    """A member that joins sooner waits for it, without a heartbeat in between."""
    with_config(rig, group_streams_assignment_interval_ms=1_000)
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    first.beat()
    rig.advance(400)
    second.beat()
    assert (second.statuses, rig.app.assignment_epoch) == ((_S.ASSIGNMENT_DELAYED,), 2)
    rig.advance(599)
    assert rig.app.assignment_epoch == 2
    rig.advance(1)
    assert rig.app.assignment_epoch == 3
    run_app(first, second)
    assert len(second.tasks()) == 3


# --- standby tasks, processes and configs -------------------------------------------------------------------


def test_standby_replicas_of_the_group_config(rig: StreamsGroupRig) -> None:
    """A change of the config starts a rebalance; a standby is never beside its active task."""
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first, second)
    assert not first.tasks(Role.STANDBY)
    config_of(rig, streams_num_standby_replicas="1")
    run_app(first, second)
    assert first.tasks(Role.STANDBY) == second.tasks()
    assert second.tasks(Role.STANDBY) == first.tasks()
    assert rig.app.metadata.last_assignment_configs == (
        KeyValue("num.standby.replicas", "1"),
        KeyValue("num.warmup.replicas", "2"),
        KeyValue("acceptable.recovery.lag", "10000"),
    )


def test_standby_becomes_active_when_its_active_leaves(rig: StreamsGroupRig) -> None:
    config_of(rig, streams_num_standby_replicas="1")
    members = [StreamsMember(rig, each) for each in "abc"]
    run_app(*members)
    first, *others = members
    moved = first.tasks()
    standby = {task: each for each in others for task in each.tasks(Role.STANDBY) & moved}
    assert standby.keys() == moved
    first.leave()
    run_app(*others)
    assert sum(task in each.tasks() for task, each in standby.items()) >= 1
    assert others[0].tasks() | others[1].tasks() == tasks_of("0", range(6))


def test_a_process_has_a_task_once(rig: StreamsGroupRig) -> None:
    """Its members share a state directory: a standby in the same process would be useless."""
    config_of(rig, streams_num_standby_replicas="2")
    members = [StreamsMember(rig, name, process) for name, process in (("a", "p"), ("b", "p"), ("c", "q"))]
    run_app(*members)
    a, b, c = members
    assert not set(a.owned) & set(b.owned)
    assert len(a.owned) + len(b.owned) == len(c.owned) == 6


def test_member_that_rejoins_from_another_process(rig: StreamsGroupRig) -> None:
    """It has no tasks there; a running member must not change its process."""
    first = StreamsMember(rig, "a", "p")
    first.beat()
    with pytest.raises(errors.InvalidRequestError, match="process id"):
        first.send(process_id="q")
    first.forget()
    first.process_id = "q"
    run_app(first, rounds=3)
    assert first.tasks() == tasks_of("0", range(6))
    assert rig.app.members["a"].process_id == "q"


# --- shutdown -----------------------------------------------------------------------------------------------


def test_shutdown_of_the_application(rig: StreamsGroupRig) -> None:
    """All members get the status, also new ones, until the group is empty."""
    first, second = StreamsMember(rig, "a"), StreamsMember(rig, "b")
    run_app(first, second)
    first.leave(shutdown_application=True)
    third = StreamsMember(rig, "c")
    third.beat()
    second.beat()
    assert second.statuses == third.statuses == (_S.SHUTDOWN_APPLICATION,)
    second.leave()
    third.leave()
    first.beat()
    assert first.statuses == ()


# --- other groups -------------------------------------------------------------------------------------------


def test_empty_classic_group_becomes_a_streams_group(rig: StreamsGroupRig) -> None:
    """With its offsets; and an empty streams group becomes a classic one. Groups with members do not."""
    rig.advance(0)  # the sweep for the rig's first topics, which are gone, is over
    assert rig.commit_offset(7, group=APP, tp=("events", 0)).answer.results[0].error_code == 0
    first = StreamsMember(rig, "a")
    first.beat()
    assert rig.offsets(APP) == {("events", 0): 7}
    assert rig.join(group=APP).code == errors.InconsistentGroupProtocolError.code
    with pytest.raises(errors.GroupIdNotFoundError):
        SimMember(rig, "x", ("events",), group_id=APP).beat()
    first.leave()
    with pytest.raises(errors.GroupIdNotFoundError):
        SimMember(rig, "x", ("events",), group_id=APP).beat()
    rig.stable_group(group=APP)
    with pytest.raises(errors.GroupIdNotFoundError, match="classic"):
        first.beat()
    rig.reload()
    assert rig.offsets(APP) == {("events", 0): 7}


def test_consumer_group_does_not_become_a_streams_group(rig: StreamsGroupRig) -> None:
    SimMember(rig, "x", ("events",), group_id=APP).beat()
    with pytest.raises(errors.GroupIdNotFoundError, match="consumer"):
        StreamsMember(rig, "a").beat()


# --- refusals -----------------------------------------------------------------------------------------------


def test_group_size_is_limited(rig: StreamsGroupRig) -> None:
    """A member that rejoins has its place."""
    with_config(rig, group_streams_max_size=1)
    first = StreamsMember(rig, "a")
    first.beat()
    with pytest.raises(errors.GroupMaxSizeReachedError):
        StreamsMember(rig, "b").beat()
    first.forget()
    assert first.beat().error_code == 0


JOIN = StreamsGroupHeartbeatRequest(
    APP, "a", 0, rebalance_timeout_ms=1, topology=topology(), active=(), standby=(), warmup=(), process_id="p"
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"group_id": ""}, "group id"),
        ({"member_id": ""}, "member id"),
        ({"instance_id": ""}, "instance id"),
        ({"rack_id": ""}, "rack id"),
        ({"member_epoch": -2}, "epoch -2"),
        ({"rebalance_timeout_ms": -1}, "rebalance timeout"),
        ({"rebalance_timeout_ms": -2}, "rebalance timeout"),
        ({"topology": None}, "topology"),
        ({"member_epoch": 1}, "only a joining member"),
        ({"active": None}, "together"),
        ({"standby": (TaskIds("0", (1,)),)}, "no tasks"),
        ({"process_id": None}, "process id"),
        ({"client_tags": (KeyValue("k", "v"),) * 101}, "client tags"),
    ],
)
def test_invalid_requests(rig: StreamsGroupRig, changes: dict[str, object], said: str) -> None:
    body = StreamsGroupHeartbeatRequest(
        **{**{name: getattr(JOIN, name) for name in JOIN.__struct_fields__}, **changes}  # type: ignore[arg-type]
    )
    with pytest.raises(errors.InvalidRequestError, match=said):
        rig.send(body)
    assert APP not in rig.shard.groups


@pytest.mark.parametrize(
    ("subtopologies", "said"),
    [
        ((Subtopology("", ("events",)),), "ids"),
        ((MAPPING, MAPPING), "ids"),
        ((Subtopology("0"),), "no source topics"),
        ((Subtopology("0", ("bad name",)),), "bad name"),
        ((Subtopology("0", ("events",), state_changelog_topics=(topic("c", -1),)),), "-1 partitions"),
        ((JOINING._replace(repartition_source_topics=()),), "index"),
        ((MAPPING, Subtopology("1", ("events",))), "two subtopologies"),
    ],
)
def test_invalid_topologies(rig: StreamsGroupRig, subtopologies: tuple[Subtopology, ...], said: str) -> None:
    with pytest.raises(errors.StreamsInvalidTopologyError, match=said):
        StreamsMember(rig, "a", topology=topology(*subtopologies)).beat()


def test_tasks_that_do_not_exist_are_refused(rig: StreamsGroupRig) -> None:
    first = StreamsMember(rig, "a")
    first.beat()
    for subtopology_id, partition in (("7", 0), ("0", 6)):
        with pytest.raises(errors.InvalidRequestError, match=r"task|subtopology"):
            first.send(active=(TaskIds(subtopology_id, (partition,)),), standby=(), warmup=())


def test_unknown_groups_and_members(rig: StreamsGroupRig) -> None:
    member = StreamsMember(rig, "a", epoch=3)
    with pytest.raises(errors.GroupIdNotFoundError):
        member.beat()
    with pytest.raises(errors.GroupIdNotFoundError):
        member.leave()
    StreamsMember(rig, "b").beat()
    with pytest.raises(errors.UnknownMemberIdError):
        StreamsMember(rig, "a", epoch=3).beat()


def test_refused_append_changes_nothing(rig: StreamsGroupRig) -> None:
    """And an expired member gets another session."""
    first = StreamsMember(rig, "a")
    first.beat()
    before = rig.described()
    rig.refuses = errors.NotEnoughReplicasError("")
    rig.advance(SESSION_MS)
    assert rig.described() == before
    rig.refuses = None
    rig.advance(SESSION_MS)
    assert rig.app.is_empty


class Rules:
    """Implements Authorizer: a principal may create the topics that begin with its name."""

    is_ready = True

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        assert operation is AclOperation.CREATE
        return resource.name.startswith(f"app-{identity.principal.name}")

    def allows_some(self, identity: Identity, operation: AclOperation, resource_type: ResourceType) -> bool:
        raise AssertionError


def test_missing_topics_that_a_member_may_not_create_are_left_to_others(rig: StreamsGroupRig) -> None:
    """As in Kafka: the member joins, and its status names them. Another member's heartbeat creates them."""
    rules = rig.authorizer = Rules()
    rig.set_topics(events=4)
    both = Subtopology(
        "0", ("events",), state_changelog_topics=(topic("app-alice-changelog"), topic("app-bob-changelog"))
    )
    first = StreamsMember(rig, "a", topology=topology(both))
    detail = rig.send(first.request(client=("User:alice", "10.0.0.1"))).status[0].status_detail
    assert detail == (
        "Internal topics are missing: app-alice-changelog, app-bob-changelog;"
        " Unauthorized to CREATE on topics app-bob-changelog."
    )
    assert rig.sent == []
    rules.is_ready = False
    with pytest.raises(errors.CoordinatorNotAvailableError):
        rig.send(first.request(client=("User:alice", "10.0.0.1")))
    rig.authorizer = None
    first.beat()
    assert rig.create_topics() == {"app-alice-changelog": 4, "app-bob-changelog": 4}
