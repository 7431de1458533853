"""Keys of a single group. Kafka's names.

What a group does not have itself it takes from the node that coordinates it, where the keys have names of
their own; the controller bounds them (controller/group_bounds.py). Not here: the keys of share and streams
groups. Source: Kafka GroupConfig.java; KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.metadata.image import GROUP_RESOURCE
from ...runtime.config import MAX_INT, SECOND, Config, key

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage
    from .coordinator_config import CoordinatorConfig

MAX_GROUP_ID_LENGTH = 2_048  # Bound: as of the ids that coordinators take
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
GROUP_KEY_SYNONYMS = {name: f"group.{name}" for name in (_SESSION, _HEARTBEAT)}


@dataclass(frozen=True, kw_only=True)
class GroupConfig(Config):
    """What may be set for one group."""

    consumer_session_timeout_ms: int = key(
        _SESSION,
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="A member of the new protocol that is silent for longer is taken out of this group.",
    )
    consumer_heartbeat_interval_ms: int = key(
        _HEARTBEAT,
        5 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How often members of the new protocol are to be heard in this group.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.consumer_session_timeout_ms <= self.consumer_heartbeat_interval_ms:
            raise ConfigError(
                f"{_SESSION} {self.consumer_session_timeout_ms} must be longer than "
                f"{_HEARTBEAT} {self.consumer_heartbeat_interval_ms}"
            )


class GroupTimes(NamedTuple):
    """Of the members of a group that speak the new protocol."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


def times_of_group(image: MetadataImage, group_id: str, config: CoordinatorConfig) -> GroupTimes:
    """What holds for a group at a node with this configuration. Cheap: it is asked at each heartbeat."""
    session_ms = config.group_consumer_session_timeout_ms
    heartbeat_ms = config.group_consumer_heartbeat_interval_ms
    own = image.configs.get((GROUP_RESOURCE, group_id))
    if own is not None:
        session_ms = int(own.get(_SESSION, session_ms))
        heartbeat_ms = int(own.get(_HEARTBEAT, heartbeat_ms))
    return GroupTimes(session_ms, heartbeat_ms)
