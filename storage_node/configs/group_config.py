"""Configs of a single group, under Kafka's names. The defaults are keys of the coordinating node; the
controller bounds them (controller/group_bounds.py). Share and streams groups have no keys here. Source: Kafka
GroupConfig.java; KIP-848."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.metadata.image import GROUP_RESOURCE
from ...runtime.config import MAX_INT, SECOND, Config, key

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage
    from .coordinator_config import CoordinatorConfig

MAX_GROUP_ID_LENGTH = 2_048  # Bound: as for group ids
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
GROUP_KEY_SYNONYMS = {name: f"group.{name}" for name in (_SESSION, _HEARTBEAT)}


@dataclass(frozen=True, kw_only=True)
class GroupConfig(Config):
    """The keys of one group."""

    consumer_session_timeout_ms: int = key(
        _SESSION,
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Session timeout of members of this consumer group.",
    )
    consumer_heartbeat_interval_ms: int = key(
        _HEARTBEAT,
        5 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Heartbeat interval of members of this consumer group.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.consumer_session_timeout_ms <= self.consumer_heartbeat_interval_ms:
            raise ConfigError(
                f"{_SESSION} {self.consumer_session_timeout_ms} must be longer than "
                f"{_HEARTBEAT} {self.consumer_heartbeat_interval_ms}"
            )


class GroupTimes(NamedTuple):
    """Timeouts of the members of a consumer group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


def times_of_group(image: MetadataImage, group_id: str, config: CoordinatorConfig) -> GroupTimes:
    """The effective timeouts of a group at a node. Cheap: called at each heartbeat."""
    session_ms = config.group_consumer_session_timeout_ms
    heartbeat_ms = config.group_consumer_heartbeat_interval_ms
    own = image.configs.get((GROUP_RESOURCE, group_id))
    if own is not None:
        session_ms = int(own.get(_SESSION, session_ms))
        heartbeat_ms = int(own.get(_HEARTBEAT, heartbeat_ms))
    return GroupTimes(session_ms, heartbeat_ms)
