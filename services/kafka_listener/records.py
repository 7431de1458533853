"""Produce, Fetch and ListOffsets. Pure.

Batches are passed on as buffers. Those of a Produce lie in the receive buffer, which is reused after the
request's turn: code that keeps them longer copies them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    InvalidRecordError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from ...protocol.messages import registry
from ...protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from ...protocol.model import EARLIEST_TIMESTAMP, MAX_TIMESTAMP, NO_NODE
from ...protocol.records.header import ATTRIBUTES_POSITION, COMPRESSION_MASK, HEADER_BYTES, Compression
from .calls import Call, KafkaApi
from .entities import Records, ms_of
from .topics import NamedTopics, endpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.messages.data import FetchResponse, ListOffsetsResponse, ProduceResponse
    from ...protocol.records.header import Buffer
    from .fetch_sessions import FetchContext

# With acks=0 a failed append closes the connection, so that the node is asked for a response.
_LEADER_ACKS = 1
# From this version on clients may compress with zstd.
_PRODUCE_ZSTD = 7
# From this version on there are fetch sessions.
_FETCH_SESSIONS = 7
# From this version on leaders add their partitions to the transaction (KIP-890).
_PRODUCE_ADDS_PARTITIONS = 12
# From this version on followers serve consumers (KIP-392).
_FETCH_FOLLOWS = 11
# From these versions on responses name the current leader (KIP-951).
_HINTED_SINCE = {0: 10, 1: 16}  # by api key
_HINTED = (NotLeaderOrFollowerError.code, FencedLeaderEpochError.code)
_EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = -4, -5, -6
# ListOffsets: the first version that knows a special timestamp. Source: KIP-734, 405, 1005, 1023.
_MEANT_SINCE = {MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING_UPLOAD: 11}


# --- what answers of these apis have in common ---------------------------------------------------------


class RequestedPartitions:
    """The partitions of a request, in order: some are passed to the node, the others fail here."""

    def __init__(self, call: Call) -> None:
        self._find = NamedTopics(call.host.image).find
        self._hides = call.hides_topic
        self._found: list[tuple[dict[str, Any], list[tuple[Any, int]]]] = []
        self.entries: list[Any] = []  # for the node

    def add(
        self,
        topics: Sequence[Any],
        partitions: str,
        make: Callable[[bytes, Any], Any],
        name_field: str = "name",
    ) -> None:
        """Add a partition; `make` returns the node's entry for it, or an error code."""
        for topic in topics:
            topic_id, names, code = self._find(topic, name_field)
            if code and (name := names.get(name_field)) is not None and self._hides(name):
                code = TopicAuthorizationFailedError.code
            rows: list[tuple[Any, int]] = []
            for asked in getattr(topic, partitions):
                entry = code or make(topic_id, asked)
                if isinstance(entry, int):
                    rows.append((asked, entry))
                else:
                    rows.append((asked, 0))
                    self.entries.append(entry)
            self._found.append((names, rows))

    def answers(
        self, partitions: str, results: Sequence[Any], tell: Callable[[Any, Any, int], dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Topics with their partitions. `tell` gets the requested partition, the node's result or None, and
        the error code without a result."""
        left = iter(results)
        return [
            names | {partitions: [tell(asked, None if code else next(left), code) for asked, code in rows]}
            for names, rows in self._found
        ]


def failed_topics(
    topics: str,
    answers: str,
    partitions: str,
    answered: str,
    tell: Callable[[Any, int], dict[str, Any]],
    name_field: str = "name",
) -> Callable[[Call, int, str], dict[str, Any]]:
    """The error response of an api with topics and partitions: the names of the fields of request and
    response, and the result of one partition."""

    def failed(call: Call, code: int, _text: str) -> dict[str, Any]:
        find = NamedTopics(call.host.image).find
        return {
            answers: [
                find(topic, name_field)[1]
                | {answered: [tell(asked, code) for asked in getattr(topic, partitions)]}
                for topic in getattr(call.body, topics)
            ]
        }

    return failed


def _is_hinted(call: Call, result: Any) -> bool:
    """Whether the response names the current leader of the partition to this client."""
    return result.error_code in _HINTED and call.version >= _HINTED_SINCE[call.api.key]


def _leader(result: Any) -> dict[str, Any]:
    """The current leader, if it is known, for a client that asked another node (KIP-951)."""
    return {"current_leader": {"leader_id": result.leader_id, "leader_epoch": result.leader_epoch}}


def _leaders(call: Call, results: Sequence[Any]) -> list[dict[str, Any]]:
    found = {each.leader_id for each in results if each.error_code and _is_hinted(call, each)} - {NO_NODE}
    return endpoints(call.host.image, call.peer.listener, found) if found else []


# --- Produce -------------------------------------------------------------------------------------------


def _produce(call: Call) -> None:
    body = call.body
    frames: list[Buffer] = []
    asked = RequestedPartitions(call)
    is_old = call.version < _PRODUCE_ZSTD

    def entry(topic_id: bytes, data: Any) -> ProducePartition | int:
        if data.records is None:
            return InvalidRecordError.code
        if is_old and _codec_of(data.records) == Compression.ZSTD:
            return UnsupportedCompressionTypeError.code
        frames.append(data.records)
        return ProducePartition(topic_id, data.index)

    asked.add(body.topic_data, "partition_data", entry)
    request = ProduceRequest(
        body.acks or _LEADER_ACKS,
        ms_of(body.timeout),
        tuple(asked.entries),
        body.transactional_id,
        adds_partitions=call.version >= _PRODUCE_ADDS_PARTITIONS,
    )
    call.ask(registry.PRODUCE, request, partial(_produced, call, asked), frames)


def _produced(call: Call, asked: RequestedPartitions, response: ProduceResponse) -> None:
    def tell(data: Any, result: Any, code: int) -> dict[str, Any]:
        if result is None:
            return _produce_failed(data, code)
        reply = {
            "index": data.index,
            "error_code": result.error_code,
            "base_offset": result.base_offset,
            "log_append_time": result.log_append_time_ms,
            "log_start_offset": result.log_start_offset,
            "record_errors": [
                {"batch_index": index, "batch_index_error_message": message}
                for index, message in result.record_errors
            ]
            if result.record_errors
            else (),
            "error_message": result.error_detail or None,
        }
        return reply | _leader(result) if result.error_code and _is_hinted(call, result) else reply

    answers = asked.answers("partition_responses", response.partitions, tell)
    if call.is_silent:
        codes = {row["error_code"] for topic in answers for row in topic["partition_responses"]}
        call.done() if codes <= {NO_ERROR, RequestTimedOutError.code} else call.close_connection()
        return
    call.answer({"responses": answers, "node_endpoints": _leaders(call, response.partitions)})


def _codec_of(batch: Buffer) -> int:
    return batch[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK if len(batch) >= HEADER_BYTES else 0


def _produce_failed(data: Any, code: int) -> dict[str, Any]:
    return {
        "index": data.index,
        "error_code": code,
        "base_offset": -1,
        "log_append_time": -1,
        "log_start_offset": -1,
        "record_errors": (),
    }


# --- Fetch ---------------------------------------------------------------------------------------------


def _fetch(call: Call) -> None:
    body = call.body
    context = call.plane.fetch_sessions.begin(body, call.plane.now_ms())
    asked = RequestedPartitions(call)

    def entry(topic_id: bytes, asked: Any) -> FetchPartition:
        return FetchPartition(
            topic_id,
            asked.partition,
            asked.fetch_offset,
            asked.partition_max_bytes,
            getattr(asked, "current_leader_epoch", -1),
            getattr(asked, "last_fetched_epoch", -1),
        )

    asked.add(context.topics, "partitions", entry, "topic")
    max_bytes = body.max_bytes if call.throttle is None else call.throttle.fetch_bytes(call, body.max_bytes)
    request = FetchRequest(
        ms_of(body.max_wait),
        min(body.min_bytes, max_bytes),
        max_bytes,
        body.isolation_level,
        tuple(asked.entries),
        rack=getattr(body, "rack_id", ""),
        may_follow=call.version >= _FETCH_FOLLOWS,
    )
    call.ask(registry.FETCH, request, partial(_fetched, call, context, asked), with_frames=True)


def _fetched(
    call: Call,
    context: FetchContext,
    asked: RequestedPartitions,
    response: FetchResponse,
    frames: Sequence[Buffer],
) -> None:
    if call.throttle is not None and call.throttle.throttles_fetch(call, sum(map(len, frames))):
        call.answer(context.throttled())
        return
    left = iter(frames)
    is_committed = call.body.isolation_level == 1

    def tell(asked: Any, result: Any, code: int) -> dict[str, Any]:
        if result is None:
            return _fetch_failed(asked, code)
        reply = {
            "partition_index": asked.partition,
            "error_code": result.error_code,
            "high_watermark": result.high_watermark,
            "last_stable_offset": result.last_stable_offset,
            "log_start_offset": -1 if result.error_code else result.log_start_offset,
            "aborted_transactions": [
                {"producer_id": producer_id, "first_offset": first} for producer_id, first in result.aborted
            ]
            if is_committed
            # null for read_uncommitted; but a Kafka broker sends an empty list for an unknown partition
            else ()
            if result.error_code == UnknownTopicOrPartitionError.code
            else None,
            "preferred_read_replica": result.preferred_read_replica,
            "records": Records([next(left) for _ in range(result.frame_count)]),
        }
        if _is_hinted(call, result):
            reply |= _leader(result)
        if result.diverging_epoch >= 0:
            reply["diverging_epoch"] = {
                "epoch": result.diverging_epoch,
                "end_offset": result.diverging_end_offset,
            }
        return reply

    topics = context.answer(asked.answers("partitions", response.partitions, tell))
    call.answer(topics | {"node_endpoints": _leaders(call, response.partitions)})


def _fetch_failed(asked: Any, code: int) -> dict[str, Any]:
    return {
        "partition_index": asked.partition,
        "error_code": code,
        "high_watermark": -1,
        "aborted_transactions": (),
        "records": b"",
    }


_fetch_topics_failed = failed_topics(
    "topics", "responses", "partitions", "partitions", _fetch_failed, "topic"
)


def _all_of_fetch_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    """Versions with sessions have an error of the whole response."""
    if call.version >= _FETCH_SESSIONS:
        return {"error_code": code, "responses": ()}
    return _fetch_topics_failed(call, code, text)


# --- ListOffsets ---------------------------------------------------------------------------------------


def _list_offsets(call: Call) -> None:
    body = call.body
    asked = RequestedPartitions(call)

    def entry(topic_id: bytes, asked: Any) -> ListOffsetsPartition | int:
        timestamp = asked.timestamp
        if call.version < _MEANT_SINCE.get(timestamp, 0):
            return UnsupportedVersionError.code
        # there is no tiered storage
        if timestamp == _EARLIEST_LOCAL:
            timestamp = EARLIEST_TIMESTAMP
        return ListOffsetsPartition(
            topic_id, asked.partition_index, timestamp, getattr(asked, "current_leader_epoch", -1)
        )

    asked.add(body.topics, "partitions", entry)
    request = ListOffsetsRequest(getattr(body, "isolation_level", 0), tuple(asked.entries))
    call.ask(registry.LIST_OFFSETS, request, partial(_listed, call, asked))


def _listed(call: Call, asked: RequestedPartitions, response: ListOffsetsResponse) -> None:
    def tell(asked: Any, result: Any, code: int) -> dict[str, Any]:
        if result is None:
            return _list_failed(asked, code)
        if asked.timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
            return _list_failed(asked, 0)
        return {
            "partition_index": asked.partition_index,
            "error_code": result.error_code,
            "timestamp": result.timestamp,
            "offset": result.offset,
            # without an offset there is no epoch
            "leader_epoch": result.leader_epoch if result.offset >= 0 else -1,
        }

    call.answer({"topics": asked.answers("partitions", response.partitions, tell)})


def _list_failed(asked: Any, code: int) -> dict[str, Any]:
    return {"partition_index": asked.partition_index, "error_code": code, "timestamp": -1, "offset": -1}


RECORD_APIS = (
    KafkaApi(
        0,
        "Produce",
        3,
        13,
        _produce,
        failed_topics("topic_data", "responses", "partition_data", "partition_responses", _produce_failed),
        advertised_low=0,  # librdkafka takes a broker without version 0 for one that cannot compress
        is_pipelined=True,
        is_silent=lambda body: bool(body.acks == 0),
    ),
    KafkaApi(1, "Fetch", 4, 18, _fetch, _all_of_fetch_failed),
    KafkaApi(
        2,
        "ListOffsets",
        1,
        11,
        _list_offsets,
        failed_topics("topics", "topics", "partitions", "partitions", _list_failed),
    ),
)
