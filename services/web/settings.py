"""The config keys of the web server. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...clients.config import ClientConfigs
from ...protocol.errors import ConfigError
from ...runtime.config import MAX_INT, MIB, MINUTE, SECOND, Config, key

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO, NONE, BASIC, BEARER = "auto", "none", "basic", "bearer"


@dataclass(frozen=True, kw_only=True)
class WebConfig(Config):
    """Keys of `headrace rest` and `headrace console`."""

    host: str = key("host", "127.0.0.1", doc="Address that the server listens on.")
    port: int = key("port", 8082, low=0, high=65535, doc="Port that the server listens on; 0 is a free one.")
    allowed_hosts: tuple[str, ...] = key(
        "allowed.hosts",
        (),
        doc="Further names in the Host header. A server on a loopback address accepts IP addresses and"
        " localhost only, which prevents DNS rebinding; * accepts every name.",
    )
    certificate_file: str = key(
        "ssl.certificate.location", "", doc="PEM file with the server's certificate chain; enables HTTPS."
    )
    key_file: str = key("ssl.key.location", "", doc="PEM file with the private key of the certificate.")
    authentication_method: str = key(
        "authentication.method",
        AUTO,
        choices=(AUTO, NONE, BASIC, BEARER),
        doc="basic: user and password of each request are those of a SCRAM or PLAIN user of the cluster;"
        " bearer: its token is that of OAUTHBEARER; none: requests act as the server's own user; auto: basic"
        " or bearer (by sasl.mechanism) if the cluster has users, else none.",
    )
    allow_origin: tuple[str, ...] = key(
        "access.control.allow.origin",
        (),
        doc="Origins of web pages that may call the server (CORS), such as https://app.example.com; *"
        " allows every page. Empty: pages of this server only.",
    )
    allow_methods: tuple[str, ...] = key(
        "access.control.allow.methods",
        ("GET", "POST", "PUT", "PATCH", "DELETE"),
        doc="Methods that pages of other origins may use.",
    )
    max_request_bytes: int = key(
        "max.request.bytes",
        32 * MIB,
        low=1024,
        high=MAX_INT,
        unit="bytes",
        doc="Largest request body, or largest record of a streamed one; larger ones get status 413.",
    )
    max_response_bytes: int = key(
        "max.response.bytes",
        32 * MIB,
        low=1024,
        high=MAX_INT,
        unit="bytes",
        doc="Largest sum of the keys and values in a response with records; at least one record is returned.",
    )
    max_requests: int = key(
        "max.concurrent.requests",
        256,
        low=1,
        high=MAX_INT,
        doc="Requests that are served at once, without open tails; others wait.",
    )
    max_queued_requests: int = key(
        "max.queued.requests", 1024, low=0, high=MAX_INT, doc="Requests that wait; others get status 503."
    )
    queue_timeout_ms: int = key(
        "queue.timeout.ms",
        10 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="Requests that wait longer than this get status 503.",
    )
    max_connections: int = key(
        "max.connections", 4096, low=1, high=MAX_INT, doc="Open connections; further ones get status 503."
    )
    request_timeout_ms: int = key(
        "request.timeout.ms",
        15 * SECOND,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="Longest time of the requests to the cluster that a request causes.",
    )
    header_timeout_ms: int = key(
        "header.timeout.ms",
        10 * SECOND,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="Time for a client to send the header of a request; then the connection is closed.",
    )
    body_timeout_ms: int = key(
        "body.timeout.ms",
        30 * SECOND,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="Time for a client to send the body of a request; of a streamed one, the time without a byte.",
    )
    write_timeout_ms: int = key(
        "write.timeout.ms",
        30 * SECOND,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="Time without progress in which a client may read nothing; then the connection is closed.",
    )
    max_users: int = key(
        "max.users",
        64,
        low=1,
        high=MAX_INT,
        doc="Users whose clients are kept; the least recently used are closed, and if all are in use, further"
        " users get status 503.",
    )
    user_idle_ms: int = key(
        "user.idle.ms",
        5 * MINUTE,
        low=10,
        high=MAX_INT,
        unit="ms",
        doc="Clients of a user without requests are closed after this time.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.certificate_file) != bool(self.key_file):
            raise ConfigError("ssl.certificate.location and ssl.key.location need each other")
        for origin in self.allow_origin:
            if origin != "*" and (not origin.startswith(("http://", "https://")) or origin.endswith("/")):
                raise ConfigError(
                    f"access.control.allow.origin: {origin!r} is not an origin like https://app.example.com"
                )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback_name(self.host)


def split_config(
    pairs: Mapping[str, Any], *schemas: type[Config]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(pairs of each schema, pairs of the clients) by dotted names; keys that clients have too are theirs."""
    rest = {name.replace("_", "."): value for name, value in pairs.items()}
    of_clients = {name for schema in ClientConfigs for name in schema.keys()}  # noqa: SIM118 - a classmethod
    found = []
    for schema in schemas:
        names = set(schema.keys()) - of_clients
        found.append({name: rest.pop(name) for name in names if name in rest})
    return found, rest


def is_loopback_name(host: str) -> bool:
    """Whether a host name or address is localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
