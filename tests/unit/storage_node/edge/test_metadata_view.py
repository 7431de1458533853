"""MetadataView: Metadata and DescribeCluster responses of an image."""

from dataclasses import replace

import pytest
from headrace.protocol.errors import InvalidTopicError, UnknownTopicIdError, UnknownTopicOrPartitionError
from headrace.protocol.messages.data import (
    ClusterNode,
    DescribeClusterRequest,
    MetadataRequest,
    NodeEndpoint,
    PartitionMetadata,
)
from headrace.protocol.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from headrace.storage_node.edge.metadata_view import MetadataView

ID = b"i" * 16


def image() -> MetadataImage:
    brokers = {
        node_id: BrokerRegistration(node_id, 1, b"", "h", 9_000 + node_id, None, (), node_id == 2)
        for node_id in (2, 1)
    }
    partitions = (
        PartitionRegistration(
            (1, 2), (1,), 1, 4, 7, adding_replicas=(1,), removing_replicas=(2,), elr=(2,), last_known_elr=(3,)
        ),
        PartitionRegistration((2,), (2,), -1, 5, 8),
    )
    topics = {
        "t": TopicImage("t", ID, partitions),
        "__consumer_offsets": TopicImage("__consumer_offsets", b"o" * 16, ()),
    }
    names = {topic.topic_id: name for name, topic in topics.items()}
    return MetadataImage(offset=11, cluster_id="c", brokers=brokers, topics=topics, topic_names=names)


@pytest.fixture
def view() -> MetadataView:
    return MetadataView(image(), controller_id=7)


def test_all_topics_with_leaders_and_offline_replicas(view: MetadataView) -> None:
    """Fenced nodes have no endpoint, and their replicas are offline."""
    answer = view.answer(MetadataRequest())
    assert (answer.cluster_id, answer.controller_id, answer.metadata_offset) == ("c", 7, 11)
    assert answer.nodes == (NodeEndpoint(1, "h", 9_001, None),)
    internal, topic = answer.topics
    assert (internal.name, internal.is_internal) == ("__consumer_offsets", True)
    assert (topic.name, topic.topic_id, topic.is_internal) == ("t", ID, False)
    assert topic.partitions == (
        PartitionMetadata(
            0,
            1,
            4,
            (1, 2),
            (1,),
            offline_replicas=(2,),
            partition_epoch=7,
            elr=(2,),
            last_known_elr=(3,),
            adding_replicas=(1,),
            removing_replicas=(2,),
        ),
        PartitionMetadata(1, -1, 5, (2,), (2,), (2,), partition_epoch=8),
    )


def test_a_replica_in_a_log_dir_that_failed_is_offline() -> None:
    """Its node is alive, and so are its other replicas."""
    before = image()
    alive = replace(before.brokers[2], is_fenced=False, offline_replicas=((ID, 1),))
    response = MetadataView(replace(before, brokers={**before.brokers, 2: alive}), 7).answer(
        MetadataRequest()
    )
    assert [each.offline_replicas for each in response.topics[1].partitions] == [(), (2,)]


def test_fenced_nodes_are_described_on_request(view: MetadataView) -> None:
    answer = view.cluster(DescribeClusterRequest())
    assert (answer.cluster_id, answer.controller_id, answer.metadata_offset) == ("c", 7, 11)
    up = ClusterNode(1, "h", 9_001, None, 1, is_fenced=False, in_controlled_shutdown=False)
    down = ClusterNode(2, "h", 9_002, None, 1, is_fenced=True, in_controlled_shutdown=False)
    assert answer.nodes == (up,)
    assert view.cluster(DescribeClusterRequest(include_fenced_brokers=True)).nodes == (up, down)


def test_an_empty_list_of_topics_gives_nodes_only(view: MetadataView) -> None:
    """Unlike None, which asks for all."""
    answer = view.answer(MetadataRequest(topics=()))
    assert answer.topics == ()
    assert answer.nodes


def test_topic_ids_without_names_request_these_topics_only(view: MetadataView) -> None:
    """Ids without names do not ask for all topics."""
    (topic,) = view.answer(MetadataRequest(topic_ids=(ID,))).topics
    assert topic.name == "t"


def test_unknown_and_invalid_topics_have_errors(view: MetadataView) -> None:
    """Each requested topic once, in the order of the request."""
    request = MetadataRequest(topics=("no", "a/b", "", "t", "no"), topic_ids=(b"x" * 16, ID))
    answer = view.answer(request)
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [
        (UnknownTopicOrPartitionError.code, "no"),
        (InvalidTopicError.code, "a/b"),
        (InvalidTopicError.code, ""),
        (0, "t"),
        (UnknownTopicIdError.code, ""),
        (0, "t"),
    ]
