"""Encoded requests of Kafka's protocol for bare sockets, and their responses."""

from __future__ import annotations

import datetime
import io
from typing import TYPE_CHECKING, Any

from kio.schema.api_versions.v3 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from .raw import ready_batch

if TYPE_CHECKING:
    import socket

RECORD_BYTES = 1_200  # room for a batch with one record
FETCH_BYTES = 1_000  # the first batch is returned even if it is larger
CORRELATION_ID = 1  # of every request: a connection has one in flight
_SIZE = 4


class Requests:
    """Requests for a topic with one partition, each with the type of its response."""

    def __init__(self, topic: str) -> None:
        name = TopicName(topic)
        batch, self.records = ready_batch(RECORD_BYTES)
        wait, none = (i32Timedelta.parse(datetime.timedelta(seconds=seconds)) for seconds in (30, 0))
        produced = (PartitionProduceData(index=i32(0), records=Records(batch)),)
        fetched = (
            FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(FETCH_BYTES)),
        )
        wanted = (MetadataRequestTopic(topic_id=None, name=name),)
        self.hello = (
            ApiVersionsRequest(client_software_name="bench", client_software_version="1"),
            ApiVersionsResponse,
        )
        self.metadata = (
            MetadataRequest(
                topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=False
            ),
            MetadataResponse,
        )
        self.produce = (
            ProduceRequest(
                acks=i16(-1), timeout=wait, topic_data=(TopicProduceData(name=name, partition_data=produced),)
            ),
            ProduceResponse,
        )
        self.fetch = (
            FetchRequest(
                max_wait=none,
                min_bytes=i32(1),
                topics=(FetchTopic(topic=name, partitions=fetched),),
                forgotten_topics_data=(),
            ),
            FetchResponse,
        )


def frame(request: Any) -> bytes:
    """An encoded request after its size."""
    header = request.__header_schema__
    out = io.BytesIO()
    entity_writer(header)(
        out,
        header(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=CORRELATION_ID,
            client_id="bench",
        ),
    )
    entity_writer(type(request))(out, request)
    data = out.getvalue()
    return len(data).to_bytes(_SIZE, "big") + data


def call(connection: socket.socket, data: bytes) -> bytes:
    """Send a frame; the response with its size. Errors: ConnectionError when the connection ends."""
    connection.sendall(data)
    response = b""
    while len(response) < _SIZE or len(response) < _SIZE + int.from_bytes(response[:_SIZE], "big"):
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionError("the server closed the connection")
        response += more
    return response


def frame_and_response_size(connection: socket.socket, request: Any, response: Any) -> tuple[bytes, int]:
    """The frame of a request, and the size of a correct response; this one is checked.

    Errors: RuntimeError for a response with an error code.
    """
    data = frame(request)
    reply = call(connection, data)
    _, start = entity_reader(response.__header_schema__)(reply, _SIZE)
    body, _ = entity_reader(response)(reply, _SIZE + start)
    codes = error_codes(body)
    if codes:
        raise RuntimeError(f"{type(request).__name__}: response with error codes {codes}: {body}")
    return data, len(reply)


def error_codes(entity: Any) -> set[int]:
    """All error codes in a response but 0."""
    found: set[int] = set()
    for name in getattr(type(entity), "__slots__", ()):
        value = getattr(entity, name)
        if name == "error_code":
            found |= {int(value)} - {0}
        for inner in value if isinstance(value, tuple) else (value,):
            found |= error_codes(inner)
    return found
