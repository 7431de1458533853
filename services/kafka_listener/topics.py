"""Topics by the names and ids of requests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import UnknownTopicIdError, UnknownTopicOrPartitionError
from .entities import id_of

if TYPE_CHECKING:
    from ...protocol.metadata.image import BrokerRegistration, MetadataImage

NO_TOPIC_ID = bytes(16)


class NamedTopics:
    """The topics of one request, whose version names them by name or by id."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def find(self, entry: Any, name_field: str = "name") -> tuple[bytes, dict[str, Any], int]:
        """The id, empty for an unknown topic; the fields that name it in the response; the error code, 0 for
        a known topic."""
        if hasattr(entry, "topic_id"):
            topic_id = id_of(entry.topic_id)
            code = 0 if topic_id in self._image.topic_names else UnknownTopicIdError.code
            return topic_id, {"topic_id": topic_id}, code if topic_id else UnknownTopicOrPartitionError.code
        name = getattr(entry, name_field)
        topic = self._image.topics.get(name)
        if topic is None:
            return b"", {name_field: name}, UnknownTopicOrPartitionError.code
        return topic.topic_id, {name_field: name}, 0


def endpoint_of(broker: BrokerRegistration, listener: str) -> tuple[str, int] | None:
    """The address of a node for clients of a listener; None if the node does not have that listener."""
    for each in broker.listeners:
        if each.name == listener:
            return each.host, each.port
    return None


def endpoints(image: MetadataImage, listener: str, node_ids: set[int]) -> list[dict[str, Any]]:
    """The nodes that are known, as responses have them."""
    found = []
    for node_id in sorted(node_ids):
        broker = image.brokers.get(node_id)
        where = None if broker is None else endpoint_of(broker, listener)
        if broker is not None and where is not None:
            found.append({"node_id": node_id, "host": where[0], "port": where[1], "rack": broker.rack})
    return found
