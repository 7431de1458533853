"""Admin requests whose translation is more than renaming: paging, replaced configs, topic ids."""

import importlib
import uuid
from typing import Any

import pytest
from headrace.protocol.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    CreatedTopic,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    DescribedConfigs,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
    ItemError,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headrace.protocol.messages.data import MetadataResponse, NodeEndpoint, PartitionMetadata, TopicMetadata
from headrace.protocol.messages.quorum import DescribeQuorumResponse, QuorumEndpoint, QuorumReplica
from headrace.services.kafka_listener.entities import MS
from kafka_calls import FakePlane
from kafka_listener_rig import TOPIC, TOPIC_ID, small_image

METADATA, CREATE_TOPICS, DELETE_TOPICS = 3, 19, 20
DESCRIBE_CONFIGS, LIST_RESOURCES = 32, 74
ALTER_CONFIGS, ELECT, QUORUM, DESCRIBE_PARTITIONS = 33, 43, 55, 75


def topic_of(name: str, partitions: int, code: int = 0) -> TopicMetadata:
    """As the node describes it."""
    numbers = range(partitions)
    return TopicMetadata(
        code, name, b"i" * 16, False, tuple(PartitionMetadata(each, 1, 3, (1,), (1,)) for each in numbers)
    )


def test_topics_are_described_page_by_page() -> None:
    """Each page continues at the last one's end, also within a topic; together they are complete."""
    m = importlib.import_module("kio.schema.describe_topic_partitions.v0.request")
    topics = (topic_of("b", 3), topic_of("a", 2), topic_of("c", 1))
    cursor, found, pages = None, [], 0
    while True:
        plane = FakePlane()
        body = m.DescribeTopicPartitionsRequest(topics=(), response_partition_limit=2, cursor=cursor)
        plane.start(DESCRIBE_PARTITIONS, 0, body)
        assert plane.asked[0].body.topics is None
        plane.answer(MetadataResponse("c", 1, 5, (), topics))
        response = plane.only_response(DESCRIBE_PARTITIONS, 0)
        page = [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]
        assert len(page) <= 2
        found += page
        pages += 1
        if response.next_cursor is None:
            break
        cursor = m.Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )
    assert found == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert pages == 3


def test_alter_configs_resets_keys_that_are_not_named() -> None:
    """Values of the resource itself are deleted."""
    plane = FakePlane()
    plane.start(ALTER_CONFIGS, 1, resource_type=2, resource_name="t", name="retention.ms", value="5")
    entries = (
        ConfigEntry("retention.ms", "9", 1, False),
        ConfigEntry("segment.bytes", "9", 1, False),
        ConfigEntry("cleanup.policy", "delete", 5, True),
        ConfigEntry("max.message.bytes", "9", 3, True),
    )
    plane.answer(DescribeConfigsResponse((DescribedConfigs(ConfigResource(2, "t"), entries=entries),)))
    asked = plane.asked[-1]
    assert asked.api is registry.INCREMENTAL_ALTER_CONFIGS
    (alteration,) = asked.body.resources
    changes = [(each.name, each.operation, each.value) for each in alteration.changes]
    assert changes == [("retention.ms", 0, "5"), ("segment.bytes", 1, "")]
    plane.answer(IncrementalAlterConfigsResponse((ItemError("t"),)))
    response = plane.only_response(ALTER_CONFIGS, 1).responses[0]
    assert (int(response.error_code), response.resource_name) == (0, "t")


def test_topics_are_deleted_by_their_ids() -> None:
    """Unknown ids fail alone; the controller gets names."""
    m = importlib.import_module("kio.schema.delete_topics.v6.request")
    known = m.DeleteTopicState(name=None, topic_id=uuid.UUID(bytes=TOPIC_ID))
    unknown = m.DeleteTopicState(name=None, topic_id=uuid.UUID(bytes=b"u" * 16))
    by_name = m.DeleteTopicState(name="other", topic_id=None)
    plane = FakePlane()
    plane.start(DELETE_TOPICS, 6, m.DeleteTopicsRequest(topics=(unknown, known, by_name), timeout=5 * MS))
    assert plane.asked[0].body.names == (TOPIC, "other")
    plane.answer(DeleteTopicsResponse((ItemError(TOPIC), ItemError("other", 3, "no such topic"))))
    response = plane.only_response(DELETE_TOPICS, 6).responses
    assert [int(each.error_code) for each in response] == [100, 0, 3]
    assert response[1].topic_id == uuid.UUID(bytes=TOPIC_ID)
    assert response[2].error_message == "no such topic"


@pytest.mark.parametrize("name", [None, "", "another"])
def test_metadata_by_topic_id(name: str | None) -> None:
    """Whatever name is beside the id: the Java client sends an empty one."""
    plane = FakePlane()
    plane.start(METADATA, 12, topic_id=uuid.UUID(bytes=TOPIC_ID), name=name)
    assert (plane.asked[-1].body.topics, plane.asked[-1].body.topic_ids) == ((), (TOPIC_ID,))


@pytest.mark.parametrize(("allows", "makes"), [(True, True), (False, False)])
def test_metadata_creates_missing_topics(allows: bool, makes: bool) -> None:
    """If the client allows it, also when another client is faster. Internal topics are not created."""
    plane = FakePlane()
    plane.start(METADATA, 9, name="new", allow_auto_topic_creation=allows)
    missing = TopicMetadata(UnknownTopicOrPartitionError.code, "new", b"", False, ())
    plane.answer(MetadataResponse("c", 1, 5, (), (missing,)))
    if makes:
        assert [each.name for each in plane.asked[-1].body.topics] == ["new"]
        plane.answer(CreateTopicsResponse((CreatedTopic("new", TopicAlreadyExistsError.code),)))
        plane.answer(MetadataResponse("c", 1, 6, (), (topic_of("new", 1),)))
    response = plane.only_response(METADATA, 9)
    assert [int(topic.error_code) for topic in response.topics] == [0 if makes else 3]
    internal = FakePlane()
    internal.start(METADATA, 9, name="__consumer_offsets", allow_auto_topic_creation=True)
    nowhere = TopicMetadata(UnknownTopicOrPartitionError.code, "__consumer_offsets", b"", True, ())
    internal.answer(MetadataResponse("c", 1, 5, (), (nowhere,)))
    assert len(internal.asked) == 1


def test_nodes_without_the_listener_are_left_out() -> None:
    """Partitions that they lead have an error that the client's version knows."""
    for version, code in ((5, 5), (6, 72)):
        plane = FakePlane(small_image(nodes=2))
        plane.start(METADATA, version, name=TOPIC)
        partitions = (PartitionMetadata(0, 1, 3, (1, 3), (1,)), PartitionMetadata(1, 3, 3, (1, 3), (3,)))
        topic = TopicMetadata(0, TOPIC, TOPIC_ID, False, partitions)
        plane.answer(MetadataResponse("c", 9, 5, tuple(map(node, (1, 2, 3))), (topic,)))
        response = plane.only_response(METADATA, version)
        assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
            (1, "host", 9_001),
            (2, "host", 9_002),
        ]
        assert response.controller_id == 1
        found = [(int(each.error_code), each.leader_id) for each in response.topics[0].partitions]
        assert found == [(0, 1), (code, -1)]


def node(node_id: int) -> Any:
    """As the node describes another one, with its own listener."""
    return NodeEndpoint(node_id, "own", 1)


def test_a_partition_without_a_leader_is_described() -> None:
    """With leader -1, without an error."""
    m = importlib.import_module("kio.schema.describe_topic_partitions.v0.request")
    plane = FakePlane()
    body = m.DescribeTopicPartitionsRequest(topics=(), response_partition_limit=2, cursor=None)
    plane.start(DESCRIBE_PARTITIONS, 0, body)
    topic = TopicMetadata(0, "t", b"i" * 16, False, (PartitionMetadata(0, -1, 3, (1,), ()),))
    plane.answer(MetadataResponse("c", 1, 5, (), (topic,)))
    ((part,),) = [each.partitions for each in plane.only_response(DESCRIBE_PARTITIONS, 0).topics]
    assert (int(part.error_code), part.leader_id) == (0, -1)


def test_a_refused_election_names_the_partitions() -> None:
    """Kafka's tools look for each partition of their request."""
    m = importlib.import_module("kio.schema.elect_leaders.v2.request")
    plane = FakePlane()
    asked = (m.TopicPartitions(topic="t", partitions=(0, 4)),)
    plane.start(ELECT, 2, m.ElectLeadersRequest(election_type=9, topic_partitions=asked, timeout=5 * MS))
    plane.answer(ElectLeadersResponse(42, "no such election"))
    response = plane.only_response(ELECT, 2)
    assert int(response.error_code) == 42
    ((topic, parts),) = [(each.topic, each.partition_result) for each in response.replica_election_results]
    assert topic == "t"
    assert [(each.partition_id, int(each.error_code)) for each in parts] == [(0, 42), (4, 42)]


def quorum_of(*wanted: tuple[str, int]) -> Any:
    """A response with these partitions and a quorum of two."""
    m = importlib.import_module("kio.schema.describe_quorum.v2.request")
    topics = tuple(
        m.TopicData(topic_name=name, partitions=(m.PartitionData(partition_index=index),))
        for name, index in wanted
    )
    plane = FakePlane()
    plane.start(QUORUM, 2, m.DescribeQuorumRequest(topics=topics))
    at = QuorumEndpoint("c", 5)
    voters = (QuorumReplica(1, b"d" * 16, 10, endpoint=at), QuorumReplica(2, b"e" * 16, 9, 500, 700))
    plane.answer(DescribeQuorumResponse(0, 1, 4, 9, voters))
    return plane.only_response(QUORUM, 2)


def test_only_the_metadata_log_has_a_quorum() -> None:
    """Other partitions are unknown, and no nodes are named."""
    response = quorum_of(("t", 0), ("__cluster_metadata", 3))
    found = [(each.topic_name, each.partitions[0].partition_index) for each in response.topics]
    assert found == [("t", 0), ("__cluster_metadata", 3)]
    assert [int(each.partitions[0].error_code) for each in response.topics] == [3, 3]
    assert response.nodes == ()
    assert [each.node_id for each in quorum_of(("__cluster_metadata", 0)).nodes] == [1]


def test_the_quorum_has_timestamps() -> None:
    """Where headrace has durations."""
    response = quorum_of(("__cluster_metadata", 0))
    (log,) = response.topics[0].partitions
    assert (log.leader_id, log.leader_epoch, log.high_watermark) == (1, 4, 9)
    found = [(each.last_fetch_timestamp, each.last_caught_up_timestamp) for each in log.current_voters]
    assert found == [(-1, -1), (999_500, 999_300)]


@pytest.mark.parametrize("version", [4, 5, 7])
def test_created_topics_have_their_configs(version: int) -> None:
    """Kafka's admin client fails on null; a topic that failed has none."""
    plane = FakePlane()
    plane.start(CREATE_TOPICS, version, name="new", validate_only=False, value="5")
    (spec,) = plane.asked[0].body.topics
    assert (spec.name, spec.configs) == ("new", {"new": "5"})
    plane.answer(CreateTopicsResponse((CreatedTopic("new", 0, "", TOPIC_ID, 3, 1), CreatedTopic("bad", 17))))
    if version >= 5:
        assert [each.name for each in plane.asked[-1].body.resources] == ["new"]
        entries = (ConfigEntry("retention.ms", "5", 1, False),)
        plane.answer(DescribeConfigsResponse((DescribedConfigs(ConfigResource(2, "new"), entries=entries),)))
    new, bad = plane.only_response(CREATE_TOPICS, version).topics
    assert (int(new.error_code), int(bad.error_code)) == (0, 17)
    if version >= 5:
        assert [(each.name, each.value) for each in new.configs] == [("retention.ms", "5")]
        assert bad.configs == ()


@pytest.mark.parametrize("version", [5, 7])
def test_validated_topics_have_the_configs_they_would_have(version: int) -> None:
    """Its own over those of the node; the node is not asked."""
    plane = FakePlane()
    key = "retention.ms"  # the topic's name, too
    plane.start(CREATE_TOPICS, version, name=key, validate_only=True, value="5")
    made = CreatedTopic(key, num_partitions=1, replication_factor=1)
    plane.answer(CreateTopicsResponse((made,)))
    (topic,) = plane.only_response(CREATE_TOPICS, version).topics
    own = {config.name: config.value for config in topic.configs if config.config_source == 1}
    assert own == {key: "5"}
    assert len(topic.configs) > len(own)
    assert topic.topic_config_error_code == 0
    assert len(plane.asked) == 1


@pytest.mark.parametrize(("is_asked", "response"), [(True, 3576), (False, -(2**31))])
def test_all_operations_are_authorized(is_asked: bool, response: int) -> None:
    """As in Kafka without an authorizer, if the request asks for them."""
    m = importlib.import_module("kio.schema.metadata.v8.request")
    plane = FakePlane()
    for asked in (not is_asked, is_asked):
        body = m.MetadataRequest(
            topics=None,
            include_cluster_authorized_operations=asked,
            include_topic_authorized_operations=asked,
        )
        plane.sent.clear()
        plane.start(METADATA, 8, body)
        plane.answer(MetadataResponse("c", 1, 5, (), (topic_of("t", 1),)))
    answer = plane.only_response(METADATA, 8)
    assert answer.topics[0].topic_authorized_operations == response
    assert answer.cluster_authorized_operations == (8096 if is_asked else response)


def test_nodes_without_the_clients_listener_and_their_loggers_are_not_listed() -> None:
    """No client of this listener can reach node 2."""
    plane = FakePlane(small_image())
    plane.start(LIST_RESOURCES, 1, resource_types=4)
    assert plane.asked[0].body == ListConfigResourcesRequest((4,))
    found = [ConfigResource(kind, name) for kind, name in ((2, "t"), (4, "1"), (4, "2"), (8, "1"), (8, "2"))]
    plane.answer(ListConfigResourcesResponse(0, "", tuple(found)))
    answer = plane.only_response(LIST_RESOURCES, 1)
    listed = [(each.resource_type, each.resource_name) for each in answer.config_resources]
    assert listed == [(2, "t"), (4, "1"), (8, "1")]


def test_the_first_version_lists_client_metrics_subscriptions() -> None:
    """Version 0 is ListClientMetricsResources and has no types."""
    plane = FakePlane(small_image())
    plane.start(LIST_RESOURCES, 0)
    assert plane.asked[0].body == ListConfigResourcesRequest((16,))


def test_cluster_wide_defaults_are_described_by_the_keys_that_are_set() -> None:
    """As in Kafka, without built-in values."""
    plane = FakePlane(small_image())
    m = importlib.import_module("kio.schema.describe_configs.v4.request")
    wanted = m.DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None)
    plane.start(DESCRIBE_CONFIGS, 4, m.DescribeConfigsRequest(resources=(wanted,)))
    levels = (ConfigSynonym("min.insync.replicas", "2", 3), ConfigSynonym("min.insync.replicas", "1", 5))
    entries = (
        ConfigEntry("min.insync.replicas", "2", 3, False, synonyms=levels),
        ConfigEntry("num.partitions", "1", 5, True, synonyms=(ConfigSynonym("num.partitions", "1", 5),)),
    )
    described = DescribedConfigs(ConfigResource(4, ""), 0, "", entries)
    plane.answer(DescribeConfigsResponse((described,), 5))
    (result,) = plane.only_response(DESCRIBE_CONFIGS, 4).results
    (entry,) = result.configs
    assert (entry.name, [each.source for each in entry.synonyms]) == ("min.insync.replicas", [3])
