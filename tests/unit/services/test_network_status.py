"""The status of a cluster as a client sees it."""

from fake_cluster import FakeCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.services.network_status import TOPICS_PER_REQUEST, network_status


def test_many_topics_are_described_in_several_requests() -> None:
    """Each response is bounded; leaders and replicas of the nodes add up."""
    fake = FakeCluster(2, latency_ms=0)
    for number in range(2 * TOPICS_PER_REQUEST + 1):
        fake.create(f"t{number}", 2)
    fake.topics["t0"].partitions[1].leader = -1
    fake.topics["t0"].partitions[1].replicas = (0, 1)
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        facts = network_status(cluster.admin())
    asked = [len(body.topics) for api, _, body in fake.asked if api == "Metadata" and body.topics]
    assert asked == [TOPICS_PER_REQUEST, TOPICS_PER_REQUEST, 1]
    total = 2 * TOPICS_PER_REQUEST + 1
    assert (facts["state"], facts["topics"], facts["partitions"]) == ("degraded", total, 2 * total)
    assert facts["offline_partitions"] == 1
    assert [node["leaders"] for node in facts["nodes"]] == [total, total - 1]
    assert [node["partitions"] for node in facts["nodes"]] == [total + 1, total]
