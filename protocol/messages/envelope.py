"""The envelope of every message between headrace processes.

A message is a ZeroMQ multipart `[header, body, frame, frame, ...]`: header and body are MessagePack
arrays, record batches ride as frames of their own. New fields go at the end, with defaults, so that an
older peer ignores what it does not know.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import msgspec

PROTOCOL_VERSION = 1


class RequestHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """First frame of a request. `session` is what the handshake on this connection gave, 0 before it."""

    api_key: int
    api_version: int
    correlation_id: int
    session: int = 0


class ResponseHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """First frame of a response. With a non-zero `error_code` the body is empty: the request never ran.

    For `throttle_ms` the client is to send nothing more on this connection, as a quota wants.
    """

    correlation_id: int
    error_code: int = 0
    error_detail: str = ""
    throttle_ms: int = 0


class Role(Enum):
    """Which server answers an api."""

    DIRECT = "the server that is asked"
    FORWARDED = "the controller; a storage node forwards the request to it"
    GROUP = "the coordinator of the group, on the node that leads its partition of __consumer_offsets"
    TRANSACTION = "the coordinator of the transactional id, on the node that leads its partition"


class Api(NamedTuple):
    """One request kind: Kafka's number and name, the versions we speak, its two bodies, and its server."""

    key: int
    name: str
    min_version: int
    max_version: int
    request: type[Any]
    response: type[Any]
    role: Role = Role.DIRECT


class ApiVersionRange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Versions of one api that the server speaks, both ends inclusive."""

    api_key: int
    min_version: int
    max_version: int


class ApiVersionsRequest(msgspec.Struct, array_like=True, frozen=True):
    """The handshake: must be the first request on a connection. Session 0, always version 0."""

    software_name: str
    software_version: str
    client_id: str = ""
    protocol_version: int = PROTOCOL_VERSION


class ApiVersionsResponse(msgspec.Struct, array_like=True, frozen=True):
    """What the server is and what it allows on this connection.

    `incarnation` is new at every start of the server process, so a client that meets another one knows
    that its requests under way are gone.
    """

    error_code: int
    error_detail: str
    session: int
    incarnation: int
    cluster_id: str
    node_id: int
    apis: tuple[ApiVersionRange, ...]
    max_in_flight: int  # requests a client may have under way on this connection
    max_request_bytes: int  # of one frame
    idle_timeout_ms: int  # a connection silent for longer is forgotten
