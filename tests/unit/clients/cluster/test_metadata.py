"""How Metadata responses change the view of the cluster."""

from headrace.clients.cluster.metadata import ClusterView
from headrace.clients.cluster.network import Address
from headrace.protocol.messages.data import MetadataResponse, NodeEndpoint, PartitionMetadata, TopicMetadata

ID_A, ID_B = b"a" * 16, b"b" * 16


def answer(
    *leaders: tuple[int, int],
    offset: int = 1,
    topic_id: bytes = ID_A,
    nodes: int = 3,
    cluster: str = "c",
    error: int = 0,
) -> MetadataResponse:
    """One topic `t` with (leader, epoch) per partition."""
    partitions = tuple(
        PartitionMetadata(number, leader, epoch, (leader,), (leader,))
        for number, (leader, epoch) in enumerate(leaders)
    )
    return MetadataResponse(
        cluster,
        9,
        offset,
        tuple(NodeEndpoint(number, f"h{number}", 1, None) for number in range(nodes)),
        (TopicMetadata(error, "t", b"" if error else topic_id, False, partitions),),
    )


def test_first_response_fills_the_view() -> None:
    """Leaders, addresses and epochs."""
    view = ClusterView().merged(answer((1, 5), (2, 6)))
    assert view.leader_of("t", 0) == (ID_A, 1, 5)
    assert view.leader_of("t", 1) == (ID_A, 2, 6)
    assert view.leader_of("t", 2) is None
    assert view.leader_of("u", 0) is None
    assert view.nodes[2].address == Address("h2", 1)


def test_leader_epochs_never_decrease() -> None:
    """A lagging node responds after a current one, with the same or an older offset."""
    view = ClusterView().merged(answer((1, 5), offset=10)).merged(answer((0, 4), offset=10))
    assert view.leader_of("t", 0) == (ID_A, 1, 5)
    assert view.merged(answer((0, 4), offset=3)).leader_of("t", 0) == (ID_A, 1, 5)
    assert view.merged(answer((0, 6), offset=3)).leader_of("t", 0) == (ID_A, 0, 6)


def test_unknown_leader_node_means_no_leader() -> None:
    """Its node is not in the response, or the partition has leader -1."""
    assert ClusterView().merged(answer((7, 1))).leader_of("t", 0) is None
    assert ClusterView().merged(answer((1, 1))).merged(answer((-1, 2))).leader_of("t", 0) is None


def test_recreated_topic_replaces_the_old_one() -> None:
    """Same name, new id, lower epochs; an older response does not restore it (KAFKA-12257)."""
    view = ClusterView().merged(answer((1, 50), offset=5)).merged(answer((2, 0), offset=9, topic_id=ID_B))
    assert view.leader_of("t", 0) == (ID_B, 2, 0)
    assert view.merged(answer((1, 50), offset=5)).leader_of("t", 0) == (ID_B, 2, 0)


def test_a_deleted_topic_is_missing() -> None:
    """With the error of the response; an older response does not delete it, a later one restores it."""
    view = ClusterView().merged(answer((1, 1), offset=5))
    assert view.merged(answer(offset=4, error=3)).leader_of("t", 0) is not None
    gone = view.merged(answer(offset=6, error=3))
    assert gone.leader_of("t", 0) is None
    assert gone.missing == {"t": 3}
    assert gone.merged(answer((1, 1), offset=7, topic_id=ID_B)).missing == {}


def test_partition_counts_only_grow() -> None:
    """An older response with fewer partitions does not remove the new ones."""
    view = ClusterView().merged(answer((1, 1), (1, 1), offset=5)).merged(answer((1, 1), offset=4))
    assert len(view.topics["t"].partitions) == 2


def test_response_of_another_cluster_replaces_the_view() -> None:
    """The same addresses belong to a new cluster, whose offsets begin at 0."""
    view = ClusterView().merged(answer((1, 50), offset=100))
    new = view.merged(answer((2, 0), offset=1, cluster="other", topic_id=ID_B))
    assert (new.cluster_id, new.metadata_offset) == ("other", 1)
    assert new.leader_of("t", 0) == (ID_B, 2, 0)


def test_response_without_nodes_keeps_known_nodes() -> None:
    """A node that starts has no metadata yet; without known nodes the client could not continue."""
    view = ClusterView().merged(answer((1, 1), offset=5)).merged(answer(offset=6, nodes=0, error=3))
    assert sorted(view.nodes) == [0, 1, 2]


def test_hints_with_newer_epochs_only() -> None:
    """KIP-951: a newer epoch counts, an equal or older one and an unknown leader do not."""
    view = ClusterView().merged(answer((1, 5)))
    assert view.with_leader("t", 0, 2, 6).leader_of("t", 0) == (ID_A, 2, 6)
    assert view.with_leader("t", 0, 2, 5) is view
    assert view.with_leader("t", 0, -1, 9) is view
    assert view.with_leader("t", 1, 2, 9) is view
    assert view.with_leader("u", 0, 2, 9) is view


def test_unwatched_topics_are_removed() -> None:
    """Existing and missing ones."""
    view = ClusterView().merged(answer((1, 5)))
    assert view.without_topics(("t",)).topics == {}
    assert ClusterView().merged(answer(error=3)).without_topics(("t",)).missing == {}


def test_partitions_after_a_gap_are_ignored() -> None:
    """Without partition 1, partition 2 cannot be used."""
    full = answer((1, 1), (1, 1), (1, 1))
    topic = full.topics[0]
    holed = TopicMetadata(0, "t", ID_A, False, (topic.partitions[2], topic.partitions[0]))
    response = MetadataResponse("c", 9, 1, full.nodes, (holed,))
    assert len(ClusterView().merged(response).topics["t"].partitions) == 1
