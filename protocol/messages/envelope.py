"""The envelope of all messages between headrace processes.

A message is a ZeroMQ multipart `[header, body, frame, frame, ...]`: header and body are MessagePack arrays,
record batches are frames of their own. New fields are appended with defaults, so that an older peer ignores
them.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import msgspec

PROTOCOL_VERSION = 1


class RequestHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """First frame of a request. `session`: from the handshake of this connection, 0 before it."""

    api_key: int
    api_version: int
    correlation_id: int
    session: int = 0


class ResponseHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """First frame of a response. With a non-zero `error_code` the body is empty and the request had no
    effect.

    `throttle_ms`: how long the client must pause on this connection, by a quota.
    """

    correlation_id: int
    error_code: int = 0
    error_detail: str = ""
    throttle_ms: int = 0


class Role(Enum):
    """The server that handles an api."""

    DIRECT = "the server that receives the request"
    FORWARDED = "the controller; a storage node forwards the request to it"
    GROUP = "the coordinator of the group, on the node that leads its partition of __consumer_offsets"
    TRANSACTION = "the coordinator of the transactional id, on the node that leads its partition"


class Api(NamedTuple):
    """One api: Kafka's key and name, the supported versions, request and response type, and its role."""

    key: int
    name: str
    min_version: int
    max_version: int
    request: type[Any]
    response: type[Any]
    role: Role = Role.DIRECT


class ApiVersionRange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The versions of one api that the server supports, both inclusive."""

    api_key: int
    min_version: int
    max_version: int


class ApiVersionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """The handshake: the first request on a connection. Session 0, always version 0."""

    software_name: str
    software_version: str
    client_id: str = ""
    protocol_version: int = PROTOCOL_VERSION


class ApiVersionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """Server information, and the limits of this connection.

    `incarnation` is new at each start of the server process: a client that finds another one knows that its
    pending requests are lost. `sasl_mechanisms`: if there are some, this connection has to authenticate with
    one of them. `server_keys`: the CURVE keys of the cluster's servers, `<server's name> <key>` each.
    """

    error_code: int
    error_detail: str
    session: int
    incarnation: int
    cluster_id: str
    node_id: int
    apis: tuple[ApiVersionRange, ...]
    max_in_flight: int  # requests in flight that the server accepts on this connection
    max_request_bytes: int  # header, body and frames
    idle_timeout_ms: int  # the server closes a connection after this idle time
    sasl_mechanisms: tuple[str, ...] = ()
    server_keys: tuple[str, ...] = ()
