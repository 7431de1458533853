"""Version 3: clusters and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..web.problems import Problem
from ..web.routes import Route
from .links import Links
from .shapes import Broker, Cluster, ListMetadata, Page

if TYPE_CHECKING:
    from ...clients.admin.admin_types import ClusterDescription, NodeInfo
    from ..web.calls_io import Call

CLUSTER = "/v3/clusters/{cluster_id}"


async def links_of(call: Call) -> Links:
    """The links of a request to this cluster. Errors: Problem 404 for another cluster."""
    cluster_id = await call.clients.cluster_id()
    if call.params["cluster_id"] != cluster_id:
        raise Problem(404, f"cluster {call.params['cluster_id']!r} cannot be found: this is {cluster_id!r}")
    return Links(call, cluster_id)


async def _list_clusters(call: Call) -> Page[Cluster]:
    data = [_cluster(call, await _described(call))]
    return Page("KafkaClusterList", ListMetadata(call.url("v3", "clusters")), data)


async def _get_cluster(call: Call) -> Cluster:
    await links_of(call)
    return _cluster(call, await _described(call))


async def _list_brokers(call: Call) -> Page[Broker]:
    links = await links_of(call)
    nodes = (await _described(call)).nodes
    return links.page("KafkaBrokerList", [_broker(links, node) for node in nodes], "brokers")


async def _get_broker(call: Call) -> Broker:
    links = await links_of(call)
    wanted = broker_id(call)
    for node in (await _described(call)).nodes:
        if node.node_id == wanted:
            return _broker(links, node)
    raise no_broker(wanted)


def broker_id(call: Call) -> int:
    """The broker in the path. Errors: Problem 404."""
    return path_number(call, "broker_id", "broker")


def path_number(call: Call, name: str, what: str) -> int:
    """A number in the path. Errors: Problem 404."""
    value = call.params[name]
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise Problem(404, f"{what} {value!r} is not a number")
    return int(value)


def no_broker(node_id: int) -> Problem:
    """The response for a broker that is not registered, or fenced."""
    return Problem(404, f"broker {node_id} cannot be found")


async def _described(call: Call) -> ClusterDescription:
    return await call.clients.admin.describe_cluster()


def _cluster(call: Call, found: ClusterDescription) -> Cluster:
    links = Links(call, found.cluster_id)
    return Cluster(
        metadata=links.metadata(name=""),
        cluster_id=found.cluster_id,
        controller=links.related("brokers", found.controller_id) if found.controller_id >= 0 else None,
        acls=links.related("acls"),
        brokers=links.related("brokers"),
        broker_configs=links.related("broker-configs"),
        consumer_groups=links.related("consumer-groups"),
        topics=links.related("topics"),
        partition_reassignments=links.related("topics", "-", "partitions", "-", "reassignment"),
    )


def _broker(links: Links, node: NodeInfo) -> Broker:
    number = node.node_id
    return Broker(
        metadata=links.metadata("brokers", number, name=f"broker={number}"),
        cluster_id=links.cluster_id,
        broker_id=number,
        host=node.address.host,
        port=node.address.port,
        rack=node.rack,
        configs=links.related("brokers", number, "configs"),
        partition_replicas=links.related("brokers", number, "partition-replicas"),
    )


ROUTES = (
    Route("GET", "/v3/clusters", _list_clusters, "List clusters", "v3 Clusters", None, Page[Cluster]),
    Route("GET", CLUSTER, _get_cluster, "Get a cluster", "v3 Clusters", None, Cluster),
    Route("GET", f"{CLUSTER}/brokers", _list_brokers, "List brokers", "v3 Brokers", None, Page[Broker]),
    Route("GET", f"{CLUSTER}/brokers/{{broker_id}}", _get_broker, "Get a broker", "v3 Brokers", None, Broker),
)
