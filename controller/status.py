"""The status of a controller and of the cluster in its metadata, for the command line. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..runtime.telemetry.controller_table import CONTROLLER_METRICS
from ..runtime.telemetry.samples import Samples
from .metrics import write_image, write_quorum
from .state.broker_states import state_of

if TYPE_CHECKING:
    from ..protocol.metadata.image import MetadataImage
    from .config import ControllerConfig
    from .metrics import ElectionCounts, QuorumFacts
    from .quorum.metadata_log import MetadataLog


def describe(
    config: ControllerConfig,
    image: MetadataImage,
    log: MetadataLog,
    elections: ElectionCounts,
    *,
    is_active: bool,
    quorum: QuorumFacts,
    endpoint: str,
    connections: int,
    parked_polls: int,
    waiting_requests: int,
) -> dict[str, Any]:
    """JSON-able: the quorum as this controller sees it, and the committed metadata; `nodes` has one entry per
    storage node, sorted by id."""
    samples = Samples()
    write_quorum(samples, quorum, is_active=is_active)
    for _ in write_image(samples, image, elections):
        pass
    newest = log.snapshots.newest
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    leaders = Counter(partition.leader for partition in partitions)
    replicas = Counter(node_id for partition in partitions for node_id in partition.replicas)
    return {
        "controller_id": config.controller_id,
        "controller_epoch": quorum.epoch,
        "quorum": {**quorum._asdict(), "voters": list(quorum.voters)},
        "cluster_id": image.cluster_id,
        "endpoint": endpoint,
        "metadata_dir": config.metadata_log_dir,
        "metadata_offset": image.offset,
        "metadata_log_start_offset": log.start_offset,
        "metadata_log_bytes": log.size_bytes,
        "snapshot_end_offset": newest.end_offset if newest else -1,
        "topics": len(image.topics),
        "partitions": len(partitions),
        "metrics": samples.by_kafka_name(CONTROLLER_METRICS),
        "nodes": [
            {
                "node_id": node_id,
                "endpoint": f"{broker.host}:{broker.port}",
                "rack": broker.rack,
                "state": state_of(image, node_id).value,
                "broker_epoch": broker.broker_epoch,
                "leaders": leaders[node_id],
                "replicas": replicas[node_id],
            }
            for node_id, broker in sorted(image.brokers.items())
        ],
        "connections": connections,
        "parked_polls": parked_polls,
        "waiting_requests": waiting_requests,
    }
