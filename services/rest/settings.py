"""The config keys of REST. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.config import MAX_INT, MIB, MINUTE, SECOND, Config, key


@dataclass(frozen=True, kw_only=True)
class RestConfig(Config):
    """Keys of `headrace rest`, in addition to those of the web server."""

    max_tails: int = key(
        "max.tails", 2000, low=1, high=MAX_INT, doc="Open tails of topics; further ones get status 503."
    )
    tail_max_event_bytes: int = key(
        "tail.max.event.bytes",
        MIB,
        low=1,
        high=MAX_INT,
        unit="bytes",
        doc="Larger keys and values have no data in the events of a tail, only their size.",
    )
    tail_heartbeat_ms: int = key(
        "tail.heartbeat.ms",
        15 * SECOND,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="Tails without records get a comment this often, which keeps proxies from closing them.",
    )
    max_consumer_instances: int = key(
        "max.consumer.instances",
        256,
        low=1,
        high=MAX_INT,
        doc="Consumer instances of version 2 that exist at once; further ones get status 503.",
    )
    consumer_instance_timeout_ms: int = key(
        "consumer.instance.timeout.ms",
        5 * MINUTE,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="A consumer instance without requests is closed after this time.",
    )
    consumer_request_timeout_ms: int = key(
        "consumer.request.timeout.ms",
        SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Longest time in which a consumer instance collects records for a response.",
    )
