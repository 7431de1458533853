"""Calls of Kafka clients in front of a node with an authorizer."""

import dataclasses
import uuid
from collections.abc import Iterable
from typing import Any

from authorization_kit import AnyRight, Rights
from headrace.protocol.errors import KafkaError
from headrace.protocol.metadata import image
from headrace.protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.storage_node.edge.gate import admitted
from headrace.storage_node.edge.gateway import BothPlanes
from headrace.storage_node.edge.request_meter import RequestMeter
from kafka_calls import FakePlane
from kafka_listener_rig import NODE, small_image

NAME = "text"  # the name of topics and of unnamed other resources in example requests
TOPIC_ID = uuid.UUID(int=5)


class GuardedPlane(FakePlane):
    """A node with an authorizer: `asked` are the requests that reached a handler or another node."""

    def __init__(self, rights: Iterable[AnyRight]) -> None:
        super().__init__(node_image())
        self.gate.authorizer = Rights(rights)

    def handle(self, request: Any) -> None:
        try:
            meter = RequestMeter(lambda: 0.0)
            left = admitted(self.gate, request, BothPlanes(None, meter))  # type: ignore[arg-type]
        except KafkaError as error:
            request.answered(error, ())
            return
        if left is not None:
            super().handle(left)


def node_image() -> image.MetadataImage:
    """An image with one topic, and coordinators on this node."""
    topics = {}
    for name in (NAME, CONSUMER_OFFSETS, TRANSACTION_STATE):
        topic_id = TOPIC_ID.bytes if name == NAME else name[:16].encode()
        partitions = tuple(image.PartitionRegistration((NODE,), (NODE,), NODE, 0, 0) for _ in range(4))
        topics[name] = image.TopicImage(name, topic_id, partitions)
    names = {topic.topic_id: name for name, topic in topics.items()}
    return dataclasses.replace(small_image(), topics=topics, topic_names=names)
