"""Version 2: brokers, topics, partitions and producing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ...clients.admin.admin_types import EARLIEST, LATEST
from ...clients.records import ProducerRecord
from ...protocol import errors
from ...protocol.errors import UnknownTopicOrPartitionError
from ...protocol.model import TopicPartition
from ..web.calls_io import decoded
from ..web.problems import Problem, problem_of, text_of_error
from ..web.routes import JSON, Route
from .formats import binary_bytes, embedded, json_bytes, no_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.admin.admin_types import PartitionDescription, TopicDescription
    from ...clients.producer.delivery_io import BatchResult
    from ..web.calls_io import Call

T = TypeVar("T")
V2, V2_JSON, V2_BINARY = (f"application/vnd.kafka.{name}v2+json" for name in ("", "json.", "binary."))
OF_REGISTRY = tuple(f"application/vnd.kafka.{name}.v2+json" for name in ("avro", "jsonschema", "protobuf"))
ACCEPTED = (V2_JSON, V2_BINARY, *OF_REGISTRY)
RETURNED = (V2, JSON)
TOPIC_NOT_FOUND, PARTITION_NOT_FOUND = 40401, 40402
_FATAL, _RETRIABLE = 1, 2  # error codes of single records
_TAG = "v2 Topics"


class Brokers(msgspec.Struct):
    """The ids of the brokers."""

    brokers: list[int]


class PartitionReplica(msgspec.Struct):
    """A replica of a partition."""

    broker: int
    leader: bool
    in_sync: bool


class PartitionInfo(msgspec.Struct):
    """A partition; `leader` is -1 while there is none."""

    partition: int
    leader: int
    replicas: list[PartitionReplica]


class TopicInfo(msgspec.Struct):
    """A topic with its configs and partitions."""

    name: str
    configs: dict[str, str | None]
    partitions: list[PartitionInfo]


class PartitionOffsets(msgspec.Struct):
    """The first offset, and the one after the last."""

    beginning_offset: int
    end_offset: int


class TopicRecord(msgspec.Struct):
    """A record to produce; key and value are JSON, or base64 text, by the content type."""

    key: msgspec.Raw = embedded()
    value: msgspec.Raw = embedded()
    partition: int | None = None


class PartitionRecord(msgspec.Struct):
    """A record to produce to the partition of the path."""

    key: msgspec.Raw = embedded()
    value: msgspec.Raw = embedded()


class Records(msgspec.Struct, Generic[T]):
    """Records to produce. Fields about schemas are ignored."""

    records: list[T]
    key_schema_id: Any = None
    value_schema_id: Any = None
    key_schema: Any = None
    value_schema: Any = None


class ProducedOffset(msgspec.Struct):
    """The outcome of one record; `error_code` is 1 for an error that remains, 2 if a retry may succeed."""

    partition: int | None
    offset: int | None
    error_code: int | None
    error: str | None


class Produced(msgspec.Struct):
    """The outcomes of all records, in their order."""

    offsets: list[ProducedOffset]
    key_schema_id: int | None = None
    value_schema_id: int | None = None


async def _brokers(call: Call) -> Brokers:
    found = await call.clients.admin.describe_cluster()
    return Brokers([node.node_id for node in found.nodes])


async def _topics(call: Call) -> list[str]:
    return [each.name for each in await call.clients.admin.list_topics(internal=True)]


async def _topic(call: Call) -> TopicInfo:
    found = await topic_of(call, call.params["topic_name"])
    values = (await call.clients.admin.describe_configs(found.name)).values()
    configs = {each.name: each.value for of_topic in values for each in of_topic.values()}
    return TopicInfo(found.name, configs, [_partition_info(each) for each in found.partitions])


async def _partitions(call: Call) -> list[PartitionInfo]:
    found = await topic_of(call, call.params["topic_name"])
    return [_partition_info(each) for each in found.partitions]


async def _partition(call: Call) -> PartitionInfo:
    return _partition_info(await _partition_of(call))


async def _offsets(call: Call) -> PartitionOffsets:
    found = await _partition_of(call)
    tp = TopicPartition(found.topic, found.partition)
    admin = call.clients.admin
    first = (await admin.list_offsets({tp: EARLIEST}))[tp]
    last = (await admin.list_offsets({tp: LATEST}))[tp]
    return PartitionOffsets(first.offset, last.offset)


async def _produce(call: Call) -> Produced:
    to_bytes = _format(call)
    body = decoded(await call.body(), Records[TopicRecord])
    topic = call.params["topic_name"]
    await _check_topic(call, topic)
    records = [
        ProducerRecord(to_bytes(each.value), to_bytes(each.key), partition=each.partition)
        for each in _checked(body, to_bytes)
    ]
    return _produced(await call.clients.producer.send_many(topic, records))


async def _produce_to_partition(call: Call) -> Produced:
    to_bytes = _format(call)
    body = decoded(await call.body(), Records[PartitionRecord])
    found = await _partition_of(call)
    records = [
        ProducerRecord(to_bytes(each.value), to_bytes(each.key), partition=found.partition)
        for each in _checked(body, to_bytes)
    ]
    return _produced(await call.clients.producer.send_many(found.topic, records))


async def topic_of(call: Call, name: str) -> TopicDescription:
    """A topic. Errors: Problem 404 with the error code of version 2."""
    try:
        return (await call.clients.admin.describe_topics(name))[name]
    except UnknownTopicOrPartitionError:
        raise Problem(404, f"topic {name!r} is not found", TOPIC_NOT_FOUND) from None


async def _check_topic(call: Call, name: str) -> None:
    try:
        await call.clients.check_topic(name)
    except UnknownTopicOrPartitionError:
        raise Problem(404, f"topic {name!r} is not found", TOPIC_NOT_FOUND) from None


async def _partition_of(call: Call) -> PartitionDescription:
    topic, wanted = await topic_of(call, call.params["topic_name"]), call.params["partition_id"]
    for each in topic.partitions:
        if str(each.partition) == wanted:
            return each
    raise Problem(404, f"partition {wanted!r} of topic {topic.name!r} is not found", PARTITION_NOT_FOUND)


def _partition_info(found: PartitionDescription) -> PartitionInfo:
    replicas = [PartitionReplica(node, node == found.leader, node in found.isr) for node in found.replicas]
    return PartitionInfo(found.partition, found.leader, replicas)


def _format(call: Call) -> Callable[[msgspec.Raw], bytes | None]:
    call.check_content_type()
    if call.content_type in OF_REGISTRY:
        raise no_registry(call.content_type)
    return json_bytes if call.content_type == V2_JSON else binary_bytes


def _checked(body: Records[T], to_bytes: Callable[[msgspec.Raw], bytes | None]) -> list[T]:
    """The records, all of which can be converted. Errors: Problem 422."""
    if not body.records:
        raise Problem(422, "the list of records is empty")
    if to_bytes is binary_bytes:
        for number, each in enumerate(body.records):
            for name in ("key", "value"):
                try:
                    to_bytes(getattr(each, name))
                except ValueError as error:
                    raise Problem(422, f"{name} of record {number}: {error}") from None
    return body.records


def _produced(result: BatchResult) -> Produced:
    """The outcomes. Errors: Problem if all records failed in one way that has a status of its own."""
    failed = result.errors()
    if len(failed) == len(result):
        problem = problem_of(next(iter(failed.values())))
        if problem is not None and problem.status in (401, 403, 404, 429, 503):
            problem.error_code = PARTITION_NOT_FOUND if problem.status == 404 else problem.error_code
            raise problem
    offsets: list[ProducedOffset] = []
    for number, future in enumerate(result):
        error = failed.get(number) if failed else None
        if error is None:
            done = future.result()
            offsets.append(ProducedOffset(done.partition, done.offset, None, None))
        else:
            is_retriable = isinstance(error, errors.HeadraceError) and getattr(error, "retriable", False)
            code = _RETRIABLE if is_retriable else _FATAL
            offsets.append(ProducedOffset(None, None, code, text_of_error(error)))
    return Produced(offsets)


_TOPIC, _ONE = "/topics/{topic_name}", "/topics/{topic_name}/partitions/{partition_id}"
ROUTES = (
    Route("GET", "/brokers", _brokers, "List brokers", "v2 Brokers", None, Brokers, returns=RETURNED),
    Route("GET", "/topics", _topics, "List topics", _TAG, None, list[str], returns=RETURNED),
    Route("GET", _TOPIC, _topic, "Get a topic", _TAG, None, TopicInfo, returns=RETURNED),
    Route(
        "POST", _TOPIC, _produce, "Produce records", _TAG, Records[TopicRecord], Produced,
        accepts=ACCEPTED, returns=RETURNED,
    ),
    Route(
        "GET", f"{_TOPIC}/partitions", _partitions, "List partitions", _TAG, None, list[PartitionInfo],
        returns=RETURNED,
    ),
    Route("GET", _ONE, _partition, "Get a partition", _TAG, None, PartitionInfo, returns=RETURNED),
    Route(
        "POST", _ONE, _produce_to_partition, "Produce records to a partition", _TAG, Records[PartitionRecord],
        Produced, accepts=ACCEPTED, returns=RETURNED,
    ),
    Route(
        "GET", f"{_ONE}/offsets", _offsets, "Get the offsets of a partition", _TAG, None, PartitionOffsets,
        returns=RETURNED,
    ),
)  # fmt: skip
