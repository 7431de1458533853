"""What a registration must look like, and what it says of the process before. Pure.

Source: Kafka ClusterControlManager.java registerBroker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import InconsistentClusterIdError, InvalidRequestError

if TYPE_CHECKING:
    from ...protocol.messages.control import BrokerRegistrationRequest
    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ...protocol.metadata.records import RegisterBrokerRecord
    from ...protocol.model import ListenerEndpoint
    from .standing import ReplicaKey

ID_BYTES = 16
MAX_HOST_LENGTH = 255  # Bound: what DNS allows for a name
MAX_RACK_LENGTH = 255
MAX_LISTENERS = 16  # Bound: networks of one machine, with room
MAX_LOG_DIRS = 100  # Bound: disks of one machine, with room


def check_registration(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Errors: InconsistentClusterIdError, InvalidRequestError for a field that is out of its bounds."""
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the node's disk belongs to cluster {request.cluster_id[:64]!r}, this is {image.cluster_id!r}"
        )
    if request.node_id < -1:
        raise InvalidRequestError(f"node id {request.node_id}")
    ids = (request.incarnation_id, *request.log_dir_ids)
    if any(len(each) != ID_BYTES for each in ids) or len(ids) > MAX_LOG_DIRS + 1:
        raise InvalidRequestError(f"ids have {ID_BYTES} bytes, and a node at most {MAX_LOG_DIRS} log dirs")
    if not 1 <= len(request.host) <= MAX_HOST_LENGTH or not 1 <= request.port <= 65_535:
        raise InvalidRequestError(f"endpoint {request.host[:MAX_HOST_LENGTH]!r}:{request.port}")
    if len(request.listeners) > MAX_LISTENERS or not all(map(_is_endpoint, request.listeners)):
        raise InvalidRequestError(f"{len(request.listeners)} listeners, or one whose address is none")
    if request.rack is not None and len(request.rack) > MAX_RACK_LENGTH:
        raise InvalidRequestError(f"a rack's name has at most {MAX_RACK_LENGTH} characters")


def _is_endpoint(listener: ListenerEndpoint) -> bool:
    lengths = range(1, MAX_HOST_LENGTH + 1)
    return len(listener.name) in lengths and len(listener.host) in lengths and 1 <= listener.port <= 65_535


def registration_before(
    image: MetadataImage, request: BrokerRegistrationRequest
) -> BrokerRegistration | None:
    """What is registered under the node id; or, if an id is to be generated, what this very process got when
    it asked before and the answer was lost."""
    if request.node_id >= 0:
        return image.brokers.get(request.node_id)
    same = (b for b in image.brokers.values() if b.incarnation_id == request.incarnation_id)
    return next(same, None)


def lost_keys(image: MetadataImage, request: BrokerRegistrationRequest) -> frozenset[ReplicaKey]:
    """The replicas that the node reports as lost, of topics that exist. A topic that was deleted and created
    again since has the node in no ISR or ELR yet."""
    topics = image.topics
    return frozenset(
        (topics[name].topic_id, number) for name, number in request.lost_replicas if name in topics
    )


def differs(broker: BrokerRegistration, record: RegisterBrokerRecord) -> bool:
    """Whether a process that registers again has another address, rack, listeners or log dirs."""
    registered = (broker.host, broker.port, broker.rack, broker.log_dir_ids, broker.listeners)
    return registered != (record.host, record.port, record.rack, record.log_dir_ids, record.listeners)
