"""Cluster-wide bounds of group configs, under Kafka's names.

In Kafka they are read-only; here they apply as soon as they are set, to new values only. Source: Kafka
GroupCoordinatorConfig.java, GroupConfig.java; KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError, InvalidConfigError
from ..runtime.config import MAX_INT, SECOND, Config, key

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIN_SESSION, _MAX_SESSION = "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"
_MIN_INTERVAL = "group.consumer.min.heartbeat.interval.ms"
_MAX_INTERVAL = "group.consumer.max.heartbeat.interval.ms"
_MIN_CONSUMER_ASSIGNMENT = "group.consumer.min.assignment.interval.ms"
_MAX_CONSUMER_ASSIGNMENT = "group.consumer.max.assignment.interval.ms"
_MIN_STREAMS_SESSION = "group.streams.min.session.timeout.ms"
_MAX_STREAMS_SESSION = "group.streams.max.session.timeout.ms"
_MIN_STREAMS_INTERVAL = "group.streams.min.heartbeat.interval.ms"
_MAX_STREAMS_INTERVAL = "group.streams.max.heartbeat.interval.ms"
_MIN_ASSIGNMENT = "group.streams.min.assignment.interval.ms"
_MAX_ASSIGNMENT = "group.streams.max.assignment.interval.ms"
_MAX_STANDBYS = "group.streams.max.standby.replicas"
# A group's key, and the cluster's keys that bound it; no lower one: the key's own bound
_BOUNDS = (
    ("consumer.session.timeout.ms", _MIN_SESSION, _MAX_SESSION),
    ("consumer.heartbeat.interval.ms", _MIN_INTERVAL, _MAX_INTERVAL),
    ("consumer.assignment.interval.ms", _MIN_CONSUMER_ASSIGNMENT, _MAX_CONSUMER_ASSIGNMENT),
    ("streams.session.timeout.ms", _MIN_STREAMS_SESSION, _MAX_STREAMS_SESSION),
    ("streams.heartbeat.interval.ms", _MIN_STREAMS_INTERVAL, _MAX_STREAMS_INTERVAL),
    ("streams.assignment.interval.ms", _MIN_ASSIGNMENT, _MAX_ASSIGNMENT),
    ("streams.num.standby.replicas", None, _MAX_STANDBYS),
)


@dataclass(frozen=True, kw_only=True)
class GroupBounds(Config):
    """The keys by which controllers check group configs."""

    group_consumer_min_session_timeout_ms: int = key(
        _MIN_SESSION,
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Lower bound of the group config consumer.session.timeout.ms.",
    )
    group_consumer_max_session_timeout_ms: int = key(
        _MAX_SESSION,
        60 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Upper bound of the group config consumer.session.timeout.ms.",
    )
    group_consumer_min_heartbeat_interval_ms: int = key(
        _MIN_INTERVAL,
        5 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Lower bound of the group config consumer.heartbeat.interval.ms.",
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        _MAX_INTERVAL,
        15 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Upper bound of the group config consumer.heartbeat.interval.ms.",
    )
    group_consumer_min_assignment_interval_ms: int = key(
        _MIN_CONSUMER_ASSIGNMENT,
        0,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Lower bound of the group config consumer.assignment.interval.ms.",
    )
    group_consumer_max_assignment_interval_ms: int = key(
        _MAX_CONSUMER_ASSIGNMENT,
        15 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Upper bound of the group config consumer.assignment.interval.ms.",
    )
    group_streams_min_session_timeout_ms: int = key(
        _MIN_STREAMS_SESSION,
        45 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Lower bound of the group config streams.session.timeout.ms.",
    )
    group_streams_max_session_timeout_ms: int = key(
        _MAX_STREAMS_SESSION,
        60 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Upper bound of the group config streams.session.timeout.ms.",
    )
    group_streams_min_heartbeat_interval_ms: int = key(
        _MIN_STREAMS_INTERVAL,
        5 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Lower bound of the group config streams.heartbeat.interval.ms.",
    )
    group_streams_max_heartbeat_interval_ms: int = key(
        _MAX_STREAMS_INTERVAL,
        15 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Upper bound of the group config streams.heartbeat.interval.ms.",
    )
    group_streams_min_assignment_interval_ms: int = key(
        _MIN_ASSIGNMENT,
        0,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Lower bound of the group config streams.assignment.interval.ms.",
    )
    group_streams_max_assignment_interval_ms: int = key(
        _MAX_ASSIGNMENT,
        15 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        live=True,
        doc="Upper bound of the group config streams.assignment.interval.ms.",
    )
    group_streams_max_standby_replicas: int = key(
        _MAX_STANDBYS,
        2,
        low=0,
        high=MAX_INT,
        live=True,
        doc="Upper bound of the group config streams.num.standby.replicas.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self.to_mapping()
        for _, low, high in _BOUNDS:
            if low is not None and values[low] > values[high]:
                raise ConfigError(f"{low} {values[low]} must not be more than {high} {values[high]}")

    def check_group(self, values: Mapping[str, str]) -> None:
        """Check canonical values by dotted names. Errors: InvalidConfigError."""
        bounds = self.to_mapping()
        for name, low, high in _BOUNDS:
            if name not in values:
                continue
            value = int(values[name])
            if low is not None and value < bounds[low]:
                raise InvalidConfigError(f"{name} {value} is less than {low} {bounds[low]}")
            if value > bounds[high]:
                raise InvalidConfigError(f"{name} {value} is more than {high} {bounds[high]}")
