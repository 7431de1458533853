"""Listeners for clients of other protocols: Kafka's `listeners` and `advertised.listeners`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...protocol.errors import ConfigError
from ...protocol.model import ListenerEndpoint
from ...runtime.config import MAX_INT, MIB, MINUTE, SECOND, key
from ...runtime.listener_address import MAX_PORT, is_wildcard
from .listener_security import (
    ListenerSecurity,
    ListenerSecurityConfig,
    SecurityProtocol,
    listener_security,
)

_ADDRESS = re.compile(r"([A-Za-z0-9_.-]{1,100})://(\[[0-9A-Fa-f:.%]*\]|[^\[\]:/\s]*):([0-9]{1,5})")
_PROTOCOLS = {protocol.value: protocol for protocol in SecurityProtocol}
# Bound: each has a socket, and its address is part of every registration.
MAX_LISTENERS = 16

NATIVE_LISTENER = "NATIVE"  # the name of the node's own listener in keys of one listener


@dataclass(frozen=True, kw_only=True)
class GatewayConfig(ListenerSecurityConfig):
    """Keys of the Kafka listener."""

    listeners: tuple[str, ...] = key(
        "listeners",
        (),
        doc="Addresses for Kafka clients, as NAME://host:port; empty for none. Several, each with its"
        " own name, serve several networks. No host: that of this node's own listener. Port 0 takes any free"
        " one, remembers it and tries it again.",
    )
    listener_security_protocol_map: tuple[str, ...] = key(
        "listener.security.protocol.map",
        (),
        doc="Security protocols of listeners, as NAME:PROTOCOL; PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL"
        " are their own names. Empty: listeners with other names are PLAINTEXT.",
    )
    listener_name: tuple[str, ...] = key(
        "listener.name.*",
        (),
        sensitive=True,
        doc="listener.name.<name>.<key> sets an ssl or sasl key for one listener,"
        " listener.name.<name>.<mechanism>.<key> for one SASL mechanism there.",
    )
    connection_failed_authentication_delay_ms: int = key(
        "connection.failed.authentication.delay.ms",
        100,
        low=0,
        high=MINUTE,
        unit="ms",
        live=True,
        doc="How long the answer to a failed authentication is held back.",
    )
    connection_handshake_timeout_ms: int = key(
        "connection.handshake.timeout.ms",
        30 * SECOND,
        low=100,
        unit="ms",
        live=True,
        doc="Connections that are not authenticated by then, TLS and SASL together, are closed. Kafka has no"
        " such key.",
    )
    advertised_listeners: tuple[str, ...] = key(
        "advertised.listeners",
        (),
        doc="Addresses that Kafka clients use, by the listener's name; empty: those of listeners."
        " Port 0 takes the bound one.",
    )

    inter_broker_listener_name: str = key(
        "inter.broker.listener.name",
        "",
        doc="Taken from configurations of Kafka, and has to name one of listeners; it has no effect: servers"
        " talk to each other on listener.port, with native.security.protocol.",
    )
    auto_create_topics_enable: bool = key(
        "auto.create.topics.enable",
        True,
        live=True,
        doc="Whether Metadata requests of Kafka clients, such as producers, create missing topics.",
    )

    max_incremental_fetch_session_cache_slots: int = key(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        low=0,
        live=True,
        doc="Fetch sessions of Kafka clients; others send all partitions with each fetch.",
    )

    socket_request_receive_timeout_ms: int = key(
        "socket.request.receive.timeout.ms",
        30_000,
        low=100,
        unit="ms",
        live=True,
        doc="A Kafka client that has not sent the rest of a request by then is disconnected, if others"
        " wait for its memory (queued.max.request.bytes). Kafka has no such key.",
    )
    quota_window_num: int = key(
        "quota.window.num",
        11,
        low=1,
        high=1_000,
        doc="Sample windows of the rates of clients with quotas.",
    )
    quota_window_size_seconds: int = key(
        "quota.window.size.seconds", 1, low=1, high=3_600, unit="s", doc="Length of each sample window."
    )
    telemetry_max_bytes: int = key(
        "telemetry.max.bytes",
        MIB,
        low=1,
        high=MAX_INT,
        unit="bytes",
        doc="Largest push of client metrics, compressed and decompressed.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        bound = parse_listeners("listeners", self.listeners)
        advertised_endpoints = parse_listeners("advertised.listeners", self.advertised_listeners)
        if advertised_endpoints.keys() - bound.keys():
            (name, *_) = sorted(advertised_endpoints.keys() - bound.keys())
            raise ConfigError(f"advertised.listeners names {name}, which listeners does not")
        for name, endpoint in (bound | advertised_endpoints).items():
            if endpoint.host and is_wildcard(endpoint.host):
                raise ConfigError(
                    f"listener {name} listens on {endpoint.host!r}, which is no address that clients can"
                    " connect to: name one in advertised.listeners"
                )
        inter_broker = self.inter_broker_listener_name
        if inter_broker and inter_broker.upper() not in bound:
            raise ConfigError(
                f"inter.broker.listener.name is {inter_broker[:100]!r}, which listeners does not name"
            )
        _protocol_map(self.listener_security_protocol_map)
        for name in bound:
            security_of(self, name)
        for override in self.listener_name:
            if override.partition(".")[0].upper() not in (*bound, NATIVE_LISTENER):
                raise ConfigError(
                    f"listener.name.{override.partition('=')[0][:200]} is of a listener that listeners lacks"
                )


def configured_listeners(config: GatewayConfig, own_host: str) -> list[ListenerEndpoint]:
    """The listeners to bind; without a host they use `own_host`."""
    listeners = parse_listeners("listeners", config.listeners).values()
    return [each._replace(host=each.host or own_host) for each in listeners]


def advertised(config: GatewayConfig, name: str, port: int, own_host: str) -> ListenerEndpoint:
    """The advertised address of a listener that was bound to `port`; without a host it is `own_host`."""
    bound = parse_listeners("listeners", config.listeners)[name]
    endpoint = parse_listeners("advertised.listeners", config.advertised_listeners).get(name, bound)
    return endpoint._replace(host=endpoint.host or own_host, port=endpoint.port or port)


def security_of(config: GatewayConfig, name: str) -> ListenerSecurity:
    """The security of a listener. Errors: ConfigError."""
    protocols = _protocol_map(config.listener_security_protocol_map)
    protocol = protocols.get(name) or _PROTOCOLS.get(name)
    if protocol is None:
        if protocols:
            raise ConfigError(f"listener.security.protocol.map lacks the listener {name}")
        protocol = SecurityProtocol.PLAINTEXT
    return listener_security(name, protocol, config, config.listener_name)


def _protocol_map(values: tuple[str, ...]) -> dict[str, SecurityProtocol]:
    """Errors: ConfigError."""
    found: dict[str, SecurityProtocol] = {}
    for value in values:
        name, _, protocol = (part.strip().upper() for part in value.partition(":"))
        if protocol not in _PROTOCOLS:
            raise ConfigError(f"listener.security.protocol.map has {value[:200]!r}, expected NAME:PROTOCOL")
        if name in found:
            raise ConfigError(f"listener.security.protocol.map names {name} twice")
        found[name] = _PROTOCOLS[protocol]
    return found


def parse_listeners(key_name: str, values: tuple[str, ...]) -> dict[str, ListenerEndpoint]:
    """The endpoints by their names. Errors: ConfigError."""
    found: dict[str, ListenerEndpoint] = {}
    for value in values:
        match = _ADDRESS.fullmatch(value)
        if match is None or int(match[3]) > MAX_PORT:
            raise ConfigError(f"{key_name} has {value[:200]!r}, expected NAME://host:port")
        name = match[1].upper()
        if name in found:
            raise ConfigError(f"{key_name} names {name} twice")
        found[name] = ListenerEndpoint(name, match[2].strip("[]"), int(match[3]))
    if len(found) > MAX_LISTENERS:
        raise ConfigError(f"{key_name} has {len(found)} addresses, at most {MAX_LISTENERS} are allowed")
    return found
