"""Groups and transactions: routing to coordinators, requests for several ids, older versions."""

import importlib
import uuid
from dataclasses import replace
from typing import Any

import pytest
from headrace.protocol import errors
from headrace.protocol.coordinator_ids import partition_of_id
from headrace.protocol.messages import groups, registry, transactions
from headrace.protocol.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from headrace.protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.services.kafka_listener.entities import MS
from kafka_calls import FakePlane
from kafka_listener_rig import TOPIC, TOPIC_ID, small_image
from kafka_wire import example_request

COMMIT, OFFSETS, FIND, JOIN, HEARTBEAT, LEAVE, DESCRIBE = 8, 9, 10, 11, 12, 13, 15
INIT, ADD_PARTITIONS, END, BEAT = 22, 24, 26, 68


def image(leaders: tuple[int, ...] = (1, 2)) -> MetadataImage:
    """Two nodes; the partitions of the internal topics are led by `leaders` in turn."""
    base = small_image(nodes=2)
    partitions = tuple(PartitionRegistration((1, 2), (1, 2), leader, 1, 1) for leader in leaders)
    internal = {
        name: TopicImage(name, name.encode()[:16].ljust(16), partitions)
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE)
    }
    return replace(base, topics={**base.topics, **internal})


def key_at(node: int) -> str:
    """A group or transactional id whose coordinator is `node`."""
    return next(f"g{n}" for n in range(100) if partition_of_id(f"g{n}", 2) == node - 1)


HERE, THERE = key_at(1), key_at(2)
ALSO_THERE = next(f"h{n}" for n in range(100) if partition_of_id(f"h{n}", 2) == 1)


def test_requests_go_to_the_coordinators_node() -> None:
    """This node itself, or a request to another one."""
    plane = FakePlane(image())
    plane.start(HEARTBEAT, 4, group_id=HERE)
    assert plane.asked[0].api is registry.HEARTBEAT
    plane.answer(groups.HeartbeatResponse(27))
    assert int(plane.only_response(HEARTBEAT, 4).error_code) == 27
    other = FakePlane(image())
    other.start(HEARTBEAT, 4, group_id=THERE)
    node_id, api, body, *_ = other.asked[0]
    assert (node_id, api, body.group_id) == (2, registry.HEARTBEAT, THERE)
    other.answer(groups.HeartbeatResponse(0))
    assert int(other.only_response(HEARTBEAT, 4).error_code) == 0


@pytest.mark.parametrize("key", [HERE, THERE])
def test_members_stay_while_their_coordinator_loads(key: str) -> None:
    """As in Kafka: some clients leave the group at COORDINATOR_LOAD_IN_PROGRESS."""
    plane = FakePlane(image())
    plane.start(HEARTBEAT, 4, group_id=key)
    plane.answer(errors.CoordinatorLoadInProgressError("reading"))
    assert int(plane.only_response(HEARTBEAT, 4).error_code) == 0


@pytest.mark.parametrize(
    ("leaders", "error", "code"),
    [
        ((1, 2), errors.NetworkError("gone"), 15),
        ((1, 2), errors.ThrottlingQuotaExceededError("full"), 15),
        ((1, 2), errors.NotCoordinatorError("moved"), 16),
        ((1, -1), None, 15),
        ((), None, 15),
    ],
)
def test_an_unreachable_coordinator(leaders: tuple[int, ...], error: Any, code: int) -> None:
    """Error codes at which clients look for it again; codes of clients alone are never sent."""
    plane = FakePlane(image(leaders) if leaders else small_image())
    plane.start(HEARTBEAT, 4, group_id=THERE)
    if error is not None:
        plane.answer(error)
    assert int(plane.only_response(HEARTBEAT, 4).error_code) == code


def test_requests_for_several_groups_are_split() -> None:
    """One request per node, and the results in the order of the request."""
    m = importlib.import_module("kio.schema.describe_groups.v6.request")
    plane = FakePlane(image())
    names = (THERE, HERE, ALSO_THERE)
    plane.start(DESCRIBE, 6, m.DescribeGroupsRequest(groups=names, include_authorized_operations=False))
    there, here = plane.asked
    assert there[2].group_ids == (THERE, ALSO_THERE)
    assert here.body.group_ids == (HERE,)
    here.answered(groups.DescribeGroupsResponse((groups.DescribedGroup(0, HERE, "Stable"),)), ())
    assert plane.sent == []
    there[-1](errors.NetworkError("gone"))
    response = plane.only_response(DESCRIBE, 6).groups
    assert [(each.group_id, int(each.error_code)) for each in response] == [
        (THERE, 15),
        (HERE, 0),
        (ALSO_THERE, 15),
    ]


def test_find_coordinator_has_the_listeners_address() -> None:
    """Old versions have one key, new ones several."""
    for version in (0, 3):
        plane = FakePlane(image())
        plane.start(FIND, version, key=HERE, key_type=0)
        assert plane.asked[0].body.keys == (HERE,)
        plane.answer(groups.FindCoordinatorResponse((groups.Coordinator(0, HERE, 2, "own", 1),)))
        response = plane.only_response(FIND, version)
        assert (int(response.error_code), response.node_id, response.host, response.port) == (
            0,
            2,
            "host",
            9_002,
        )
    plane = FakePlane(image())
    plane.start(FIND, 4, coordinator_keys=HERE, key_type=1)
    plane.answer(groups.FindCoordinatorResponse((groups.Coordinator(15, HERE, error_detail="none"),)))
    (found,) = plane.only_response(FIND, 4).coordinators
    assert (int(found.error_code), found.node_id, found.error_message) == (15, -1, "none")


def test_joining_by_older_versions() -> None:
    """Missing fields have their old meaning; a member that cannot skip the assignment is no leader."""
    for version in (0, 1, 4, 5, 9):
        plane = FakePlane(image())
        plane.start(JOIN, version, group_id=HERE, protocol_type="consumer", member_id="")
        body = plane.asked[0].body
        assert (body.session_timeout_ms, body.rebalance_timeout_ms) == (9, 9)
        assert body.requires_member_id == (version >= 4)
        assert (body.client_id, body.client_host) == ("client", "/127.0.0.1")
        assert body.group_instance_id == ("text" if version >= 5 else None)
        members = (groups.JoinedMember("me", None, b"m"),)
        plane.answer(
            groups.JoinGroupResponse(0, 3, "consumer", None, "me", "me", members, skip_assignment=True)
        )
        response = plane.only_response(JOIN, version)
        assert response.generation_id == 3
        assert (response.leader, len(response.members)) == (("me", 1) if version >= 9 else ("", 0))
        assert response.protocol_name == (None if version >= 7 else "")


def test_leaving_by_older_versions() -> None:
    """They name one member, whose error is that of the response."""
    plane = FakePlane(image())
    plane.start(LEAVE, 2, group_id=HERE, member_id="me")
    assert plane.asked[0].body.members == (groups.LeavingMember("me"),)
    plane.answer(groups.LeaveGroupResponse(0, (groups.LeftMember("me", None, 25),)))
    assert int(plane.only_response(LEAVE, 2).error_code) == 25


def test_consumer_group_heartbeats() -> None:
    """Null means unchanged; in the first version the server generates the member id."""
    m = importlib.import_module("kio.schema.consumer_group_heartbeat.v0.request")
    body = m.ConsumerGroupHeartbeatRequest(
        group_id=HERE,
        member_id="",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=-1 * MS,
        subscribed_topic_names=None,
        server_assignor=None,
        topic_partitions=None,
    )
    plane = FakePlane(image())
    plane.start(BEAT, 0, body)
    asked = plane.asked[0].body
    assert (asked.member_id, asked.rebalance_timeout_ms) == ("new", -1)
    assert (asked.subscribed_topic_names, asked.owned) == (None, None)
    assignment = (groups.TopicIdPartitions(TOPIC_ID, (0, 2)),)
    plane.answer(groups.ConsumerGroupHeartbeatResponse(0, "new", 1, 5_000, assignment))
    response = plane.only_response(BEAT, 0)
    assert (response.member_id, response.heartbeat_interval.total_seconds()) == ("new", 5.0)
    (topic,) = response.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (uuid.UUID(bytes=TOPIC_ID), (0, 2))


def test_offsets_are_committed_by_name_or_by_id() -> None:
    """Unknown ids fail alone."""
    for version in (2, 9):
        plane = FakePlane(image())
        plane.start(COMMIT, version, group_id=HERE, name=TOPIC, committed_metadata=None)
        (offset,) = plane.asked[0].body.offsets
        assert (offset.topic, offset.partition, offset.offset, offset.metadata) == (TOPIC, 3, 3, "")
        plane.answer(groups.OffsetCommitResponse((groups.PartitionResult(TOPIC, 3, 113),)))
        code = plane.only_response(COMMIT, version).topics[0].partitions[0].error_code
        assert int(code) == (113 if version == 9 else 35)
    for topic_id, expected in ((TOPIC_ID, 0), (b"u" * 16, 100)):
        plane = FakePlane(image())
        plane.start(COMMIT, 10, group_id=HERE, topic_id=uuid.UUID(bytes=topic_id))
        results = tuple(groups.PartitionResult(TOPIC, 3, 0) for _ in plane.asked[0].body.offsets)
        assert len(results) == (expected == 0)
        plane.answer(groups.OffsetCommitResponse(results))
        (topic,) = plane.only_response(COMMIT, 10).topics
        assert (topic.topic_id.bytes, int(topic.partitions[0].error_code)) == (topic_id, expected)


def test_offsets_are_fetched_of_one_group_or_of_several() -> None:
    """All or some, by name or id; the error of a group where versions have a field for it."""
    for version in (1, 7):
        plane = FakePlane(image())
        plane.start(OFFSETS, version, group_id=HERE, name=TOPIC, partition_indexes=0)
        assert plane.asked[0].body.groups[0].topics == (groups.TopicNamePartitions(TOPIC, (0,)),)
        found = groups.OffsetsOfGroup(0, HERE, (groups.FetchedOffset(TOPIC, 0, 0, 41, 2, "note"),))
        plane.answer(groups.OffsetFetchResponse((found,)))
        partition = plane.only_response(OFFSETS, version).topics[0].partitions[0]
        assert (partition.committed_offset, partition.metadata) == (41, "note")
        failed = FakePlane(image())
        failed.start(OFFSETS, version, group_id=HERE, name=TOPIC, partition_indexes=0)
        failed.answer(groups.OffsetFetchResponse((groups.OffsetsOfGroup(14, HERE),)))
        response = failed.only_response(OFFSETS, version)
        failures = [each.partitions[0].error_code for each in response.topics] or [response.error_code]
        assert [int(code) for code in failures] == [14]
        assert bool(response.topics) == (version == 1), "later versions have a field for the group's error"
    plane = FakePlane(image())
    by_id = {"topic_id": uuid.UUID(bytes=TOPIC_ID), "partition_indexes": 0, "member_id": None}
    plane.start(OFFSETS, 10, group_id=HERE, **by_id)
    plane.answer(groups.OffsetFetchResponse((found,)))
    (group,) = plane.only_response(OFFSETS, 10).groups
    assert group.topics[0].topic_id.bytes == TOPIC_ID
    assert group.topics[0].partitions[0].committed_leader_epoch == 2


def test_idempotent_producers_get_an_id_from_any_node() -> None:
    """Any node gives them an id; others go to their coordinator."""
    plane = FakePlane(image())
    plane.start(INIT, 4, transactional_id=None)
    assert plane.asked[0].body.transactional_id is None
    plane.answer(transactions.InitProducerIdResponse(0, 77, 1))
    assert plane.only_response(INIT, 4).producer_id == 77
    for version, code in ((3, 47), (4, 90)):
        plane = FakePlane(image())
        plane.start(INIT, version, transactional_id=THERE)
        plane.answer(transactions.InitProducerIdResponse(90))
        assert int(plane.only_response(INIT, version).error_code) == code


def test_partitions_are_added_to_one_transaction_or_to_several() -> None:
    """An error of the transaction is that of each partition."""
    plane = FakePlane(image())
    given = {"v3_and_below_transactional_id": HERE, "name": TOPIC, "partitions": 0}
    plane.start(ADD_PARTITIONS, 3, **given)
    (asked,) = plane.asked[0].body.transactions
    assert asked.topics == (groups.TopicNamePartitions(TOPIC, (0,)),)
    assert not asked.verify_only
    plane.answer(transactions.AddPartitionsToTxnResponse((transactions.AddedPartitions(HERE, 51),)))
    (topic,) = plane.only_response(ADD_PARTITIONS, 3).results_by_topic_v3_and_below
    assert [int(each.partition_error_code) for each in topic.results_by_partition] == [51]
    batched = FakePlane(image())
    batched.start(ADD_PARTITIONS, 5, transactional_id=THERE, name=TOPIC, partitions=0)
    result = groups.PartitionResult(TOPIC, 0, 0)
    batched.answer(
        transactions.AddPartitionsToTxnResponse((transactions.AddedPartitions(THERE, 0, (result,)),))
    )
    (response,) = batched.only_response(ADD_PARTITIONS, 5).results_by_transaction
    assert response.transactional_id == THERE


@pytest.mark.parametrize(("version", "bumps"), [(3, False), (4, False), (5, True)])
def test_end_txn_bumps_the_epoch_from_version_5_on(version: int, bumps: bool) -> None:
    """And the response has the new epoch (KIP-890)."""
    plane = FakePlane(image())
    plane.start(END, version, transactional_id=HERE, committed=True)
    assert (plane.asked[0].body.committed, plane.asked[0].body.bumps_epoch) == (True, bumps)
    plane.answer(transactions.EndTxnResponse(0, 7, 8))
    assert not bumps or plane.only_response(END, version).producer_epoch == 8


def test_prepared_transactions_are_listed_as_ongoing() -> None:
    """Kafka clients know no such state; they have no timeout."""
    plane = FakePlane(image((1, 1)))
    plane.start(66, 2, replace(example_request(66, 2), state_filters=("Ongoing", "Empty")))
    assert plane.asked[0].body.states == ("Ongoing", "Empty", "Prepared")
    found = (
        transactions.ListedTransaction("a", 7, "Prepared", 99),
        transactions.ListedTransaction("b", 8, "Empty"),
    )
    plane.answer(transactions.ListTransactionsResponse(0, (), found))
    response = plane.only_response(66, 2).transaction_states
    assert [(each.transactional_id, each.transaction_state) for each in response] == [
        ("a", "Ongoing"),
        ("b", "Empty"),
    ]
    plane = FakePlane(image((1, 1)))
    plane.start(65, 0, replace(example_request(65, 0), transactional_ids=(HERE,)))
    described = transactions.DescribedTransaction(0, HERE, "Prepared", 60_000, 5_000, 7, 3, prepared_ms=9_000)
    plane.answer(transactions.DescribeTransactionsResponse((described,)))
    (one,) = plane.only_response(65, 0).transaction_states
    assert (one.transaction_state, one.producer_id, one.producer_epoch) == ("Ongoing", 7, 3)
    assert one.transaction_timeout == (2**31 - 1) * MS


@pytest.mark.parametrize(
    ("api_key", "version", "field", "asked"),
    [
        (DESCRIBE, 5, "groups", "group_ids"),
        (69, 1, "group_ids", "group_ids"),
        (65, 0, "transactional_ids", "transactional_ids"),
    ],
)
def test_repeated_ids_are_described_once(api_key: int, version: int, field: str, asked: str) -> None:
    """A group may have megabytes, and a request names it in three bytes."""
    plane = FakePlane(image((1, 1)))
    body = example_request(api_key, version)
    plane.start(api_key, version, replace(body, **{field: (HERE, THERE, HERE, HERE)}))
    assert getattr(plane.asked[0].body, asked) == (HERE, THERE)


def test_all_offsets_of_a_group_are_returned_once() -> None:
    """Those of named topics as often as in the request, as in Kafka: five groups are answered by three."""
    plane = FakePlane()
    (one,) = example_request(OFFSETS, 9, group_id=HERE, name=TOPIC, partition_indexes=0).groups
    whole = replace(one, topics=None)
    body = replace(example_request(OFFSETS, 9), groups=(whole, one, whole, one, whole))
    plane.start(OFFSETS, 9, body)
    response = plane.only_response(OFFSETS, 9).groups
    assert len(response) == 3
