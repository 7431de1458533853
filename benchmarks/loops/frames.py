"""Ready requests of Kafka's protocol for bare sockets, and their answers."""

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
FETCH_BYTES = 1_000  # the first batch comes whole, however small this is
NUMBER = 1  # every request's: a connection has one under way
_SIZE = 4


class Requests:
    """Of clients of one topic with one partition: whole frames, and the types of their answers."""

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
                acks=i16(-1),
                timeout=wait,
                topic_data=(TopicProduceData(name=name, partition_data=produced),),
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
    """A whole request with its size in front."""
    header = request.__header_schema__
    out = io.BytesIO()
    entity_writer(header)(
        out,
        header(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=NUMBER,
            client_id="bench",
        ),
    )
    entity_writer(type(request))(out, request)
    data = out.getvalue()
    return len(data).to_bytes(_SIZE, "big") + data


def ask(connection: socket.socket, data: bytes) -> bytes:
    """The whole answer to a frame. Errors: ConnectionError when there is none."""
    connection.sendall(data)
    answer = b""
    while len(answer) < _SIZE or len(answer) < _SIZE + int.from_bytes(answer[:_SIZE], "big"):
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionError("the server closed the connection")
        answer += more
    return answer


def right_size(connection: socket.socket, request: Any, response: Any) -> tuple[bytes, int]:
    """A request's frame and how long its right answers are, this one included.

    Errors: RuntimeError when the answer tells an error.
    """
    data = frame(request)
    answer = ask(connection, data)
    _, start = entity_reader(response.__header_schema__)(answer, _SIZE)
    body, _ = entity_reader(response)(answer, _SIZE + start)
    wrong = errors(body)
    if wrong:
        raise RuntimeError(f"{type(request).__name__} was answered with errors {wrong}: {body}")
    return data, len(answer)


def errors(entity: Any) -> set[int]:
    """The error codes anywhere in an answer, but that of none."""
    found: set[int] = set()
    for name in getattr(type(entity), "__slots__", ()):
        value = getattr(entity, name)
        if name == "error_code":
            found |= {int(value)} - {0}
        for inner in value if isinstance(value, tuple) else (value,):
            found |= errors(inner)
    return found
