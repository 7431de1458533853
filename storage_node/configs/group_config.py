"""Configs of a single group, under Kafka's names. The defaults are keys of the coordinating node; the
controller bounds them (controller/group_bounds.py). Share groups have no keys here. Source: Kafka
GroupConfig.java; KIP-848, KIP-1071, KIP-1263."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.metadata.image import GROUP_RESOURCE
from ...runtime.config import MAX_INT, MAX_LONG, SECOND, Config, key

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage
    from .coordinator_config import CoordinatorConfig

MAX_GROUP_ID_LENGTH = 2_048  # Bound: as for group ids
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_CONSUMER_ASSIGNMENT = "consumer.assignment.interval.ms"
_STREAMS_SESSION, _STREAMS_HEARTBEAT = "streams.session.timeout.ms", "streams.heartbeat.interval.ms"
_STANDBY_REPLICAS = "streams.num.standby.replicas"
_WARMUP_REPLICAS = "streams.num.warmup.replicas"
_RECOVERY_LAG = "streams.acceptable.recovery.lag"
_OFFSET_INTERVAL = "streams.task.offset.interval.ms"
_INITIAL_DELAY = "streams.initial.rebalance.delay.ms"
_ASSIGNMENT_INTERVAL = "streams.assignment.interval.ms"
_STREAMS_KEYS = (
    _STREAMS_SESSION,
    _STREAMS_HEARTBEAT,
    _STANDBY_REPLICAS,
    _INITIAL_DELAY,
    _ASSIGNMENT_INTERVAL,
    _WARMUP_REPLICAS,
    _RECOVERY_LAG,
    _OFFSET_INTERVAL,
)
_KEYS = (_SESSION, _HEARTBEAT, _CONSUMER_ASSIGNMENT, *_STREAMS_KEYS)
GROUP_KEY_SYNONYMS = {name: f"group.{name}" for name in _KEYS}


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
    consumer_assignment_interval_ms: int = key(
        _CONSUMER_ASSIGNMENT,
        1 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Shortest time between two assignments of this consumer group.",
    )

    streams_session_timeout_ms: int = key(
        _STREAMS_SESSION,
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Session timeout of members of this streams group.",
    )
    streams_heartbeat_interval_ms: int = key(
        _STREAMS_HEARTBEAT,
        5 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Heartbeat interval of members of this streams group.",
    )
    streams_num_standby_replicas: int = key(
        _STANDBY_REPLICAS,
        0,
        low=0,
        high=MAX_INT,
        live=True,
        doc="Standby tasks of each stateful task of this streams group.",
    )
    streams_initial_rebalance_delay_ms: int = key(
        _INITIAL_DELAY,
        3 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How long the first assignment of this streams group waits for more members while it is empty.",
    )
    streams_assignment_interval_ms: int = key(
        _ASSIGNMENT_INTERVAL,
        1 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Shortest time between two assignments of this streams group.",
    )
    streams_num_warmup_replicas: int = key(
        _WARMUP_REPLICAS,
        2,
        low=0,
        high=MAX_INT,
        live=True,
        doc="Warm-up tasks of this streams group, at most: a stateful task moves when its warm-up task has"
        " caught up. 0: it moves at once.",
    )
    streams_acceptable_recovery_lag: int = key(
        _RECOVERY_LAG,
        10_000,
        low=0,
        high=MAX_LONG,
        live=True,
        doc="Offsets that a warm-up task of this streams group may be behind when its task moves to it.",
    )
    streams_task_offset_interval_ms: int = key(
        _OFFSET_INTERVAL,
        60 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="How often members of this streams group report the offsets of their stores.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self.to_mapping()
        for session, heartbeat in ((_SESSION, _HEARTBEAT), (_STREAMS_SESSION, _STREAMS_HEARTBEAT)):
            if values[session] <= values[heartbeat]:
                raise ConfigError(
                    f"{session} {values[session]} must be longer than {heartbeat} {values[heartbeat]}"
                )


class GroupTimes(NamedTuple):
    """Timeouts of the members of a consumer group, and the shortest time between two assignments."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def times_of_group(image: MetadataImage, group_id: str, config: CoordinatorConfig) -> GroupTimes:
    """The effective timeouts of a group at a node. Cheap: called at each heartbeat."""
    session_ms = config.group_consumer_session_timeout_ms
    heartbeat_ms = config.group_consumer_heartbeat_interval_ms
    assignment_ms = config.group_consumer_assignment_interval_ms
    own = image.configs.get((GROUP_RESOURCE, group_id))
    if own is not None:
        session_ms = int(own.get(_SESSION, session_ms))
        heartbeat_ms = int(own.get(_HEARTBEAT, heartbeat_ms))
        assignment_ms = int(own.get(_CONSUMER_ASSIGNMENT, assignment_ms))
    return GroupTimes(session_ms, heartbeat_ms, assignment_ms)


class StreamsGroupSettings(NamedTuple):
    """Timeouts and assignment configs of a streams group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    num_standby_replicas: int
    initial_rebalance_delay_ms: int
    assignment_interval_ms: int
    num_warmup_replicas: int
    acceptable_recovery_lag: int
    task_offset_interval_ms: int


def streams_settings_of_group(
    image: MetadataImage, group_id: str, config: CoordinatorConfig
) -> StreamsGroupSettings:
    """The effective settings of a streams group at a node. Cheap: called at each heartbeat."""
    of_node = StreamsGroupSettings(
        config.group_streams_session_timeout_ms,
        config.group_streams_heartbeat_interval_ms,
        config.group_streams_num_standby_replicas,
        config.group_streams_initial_rebalance_delay_ms,
        config.group_streams_assignment_interval_ms,
        config.group_streams_num_warmup_replicas,
        config.group_streams_acceptable_recovery_lag,
        config.group_streams_task_offset_interval_ms,
    )
    own = image.configs.get((GROUP_RESOURCE, group_id))
    if own is None:
        return of_node
    return StreamsGroupSettings(*(int(own.get(name, of_node[at])) for at, name in enumerate(_STREAMS_KEYS)))
