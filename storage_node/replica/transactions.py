"""WriteTxnMarkers of transaction coordinators, and DescribeProducers.

A marker is appended with acks=all; its partition is in the response when the marker is committed.
Source: Kafka KafkaApis.handleWriteTxnMarkersRequest, handleDescribeProducersRequest; KIP-98, KIP-664.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import (
    NO_ERROR,
    InvalidRequestError,
    KafkaError,
    ThrottlingQuotaExceededError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages import registry
from ...protocol.messages.groups import PartitionResult
from ...protocol.messages.transactions import (
    ActiveProducer,
    DescribeProducersResponse,
    PartitionProducers,
    WriteTxnMarkersResponse,
    WrittenMarker,
)
from ...protocol.records.control import EndTransaction
from ...protocol.records.settings import INT16_MAX, INT32_MAX, INT64_MAX
from ..log.markers import encode_marker
from .appending import Acked
from .delayed_entries import DelayedEntries, Waiting
from .partition import ACKS_ALL

if TYPE_CHECKING:
    from ...protocol.messages.transactions import (
        DescribeProducersRequest,
        TransactionMarker,
        WriteTxnMarkersRequest,
    )
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.purgatory import Purgatory
    from .appending import LeaderAppender
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable


class OnMarker(Protocol):
    """Called for each marker that this node has appended as leader, before it is committed."""

    def __call__(
        self,
        key: PartitionKey,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        *,
        is_commit: bool,
        offset: int,
    ) -> None: ...


def _ignore_marker(
    key: PartitionKey, producer_id: int, producer_epoch: int, now_ms: int, *, is_commit: bool, offset: int
) -> None:
    """The default: ignore markers."""


class _Place(NamedTuple):
    """The position of one result in the response."""

    marker: int
    result: int


@dataclass(slots=True, eq=False)
class _Writing:
    """A request in progress."""

    request: Incoming
    results: list[list[PartitionResult]]
    places: list[_Place]
    waiting: list[Waiting]


class TransactionsHandler:
    """See the module's docstring. `on_marker` may be replaced."""

    api_keys = frozenset((registry.WRITE_TXN_MARKERS.key, registry.DESCRIBE_PRODUCERS.key))

    def __init__(
        self,
        table: PartitionTable,
        appender: LeaderAppender,
        purgatory: Purgatory,
        replies: Replies,
        *,
        max_wait_ms: int,
        max_partitions: int,
    ) -> None:
        self.on_marker: OnMarker = _ignore_marker
        self._table = table
        self._appender = appender
        self._purgatory = purgatory
        self._replies = replies
        self._max_wait_ms = max_wait_ms
        self._max_partitions = max_partitions

    def handle(self, request: Incoming, now_ms: int, wall_ms: int) -> None:
        """Errors: InvalidRequestError for too many partitions or invalid markers;
        ThrottlingQuotaExceededError."""
        if request.api.key == registry.DESCRIBE_PRODUCERS.key:
            self._describe(request)
        else:
            self._write(request, now_ms, wall_ms)

    def _find(self, topic: str, index: int) -> Partition:
        """Errors: UnknownTopicOrPartitionError, NotLeaderOrFollowerError."""
        found = self._table.image.topics.get(topic)
        if found is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {topic[:300]!r}")
        return self._table.find(found.topic_id, index)

    def _check_size(self, partitions: int) -> None:
        if partitions > self._max_partitions:
            raise InvalidRequestError(f"{partitions} partitions, at most {self._max_partitions} are allowed")

    # --- markers ----------------------------------------------------------------------------------------

    def _write(self, request: Incoming, now_ms: int, wall_ms: int) -> None:
        body: WriteTxnMarkersRequest = request.body
        self._check_size(sum(len(topic.partitions) for marker in body.markers for topic in marker.topics))
        for marker in body.markers:
            _check_marker(marker)
        writing = _Writing(request, [[] for _ in body.markers], [], [])
        for number, marker in enumerate(body.markers):
            results = writing.results[number]
            for topic in marker.topics:
                for index in topic.partitions:
                    writing.places.append(_Place(number, len(results)))
                    results.append(PartitionResult(topic.topic, index, NO_ERROR))
                    try:
                        self._append(writing, marker, topic.topic, index, now_ms, wall_ms)
                    except KafkaError as error:
                        results[-1] = PartitionResult(topic.topic, index, error.code)
        if not writing.waiting:
            self._answer(writing)
            return
        delayed = DelayedEntries(
            writing.waiting,
            Acked(ACKS_ALL),
            settled=partial(self._settled, writing),
            finished=partial(self._answer, writing),
            is_wanted=lambda: request.peer.is_connected,
            abandoned=lambda: self._replies.no_reply(request),
        )
        keys = (request.peer.session, *dict.fromkeys(item.partition.key for item in writing.waiting))
        try:
            self._purgatory.park(delayed, keys, now_ms + self._max_wait_ms, now_ms)
        except (
            ThrottlingQuotaExceededError
        ) as error:  # they are appended; the coordinator writes them again, which is harmless
            self._replies.reply_error(request, error)

    def _append(
        self,
        writing: _Writing,
        marker: TransactionMarker,
        topic: str,
        index: int,
        now_ms: int,
        wall_ms: int,
    ) -> None:
        partition = self._find(topic, index)
        partition.leader_log()  # or its error
        end = EndTransaction(marker.committed, marker.coordinator_epoch)
        info = self._appender.append(
            partition,
            encode_marker(marker.producer_id, marker.producer_epoch, end, wall_ms),
            now_ms,
            wall_ms,
            internal=True,
            transaction_version=marker.transaction_version,
        )
        if partition.is_internal:
            self.on_marker(
                partition.key,
                marker.producer_id,
                marker.producer_epoch,
                now_ms,
                is_commit=marker.committed,
                offset=info.base_offset,
            )
        if not partition.is_acked(info.last_offset + 1, ACKS_ALL):
            place = len(writing.places) - 1
            writing.waiting.append(Waiting(place, partition, partition.leader_epoch, info.last_offset + 1))

    def _settled(self, writing: _Writing, item: Waiting, error: KafkaError | None) -> None:
        if error is not None:
            place = writing.places[item.index]
            results = writing.results[place.marker]
            name = item.partition.topic_partition
            results[place.result] = PartitionResult(name.topic, name.partition, error.code)

    def _answer(self, writing: _Writing) -> None:
        body: WriteTxnMarkersRequest = writing.request.body
        markers = tuple(
            WrittenMarker(marker.producer_id, tuple(results))
            for marker, results in zip(body.markers, writing.results, strict=True)
        )
        self._replies.reply(writing.request, WriteTxnMarkersResponse(markers))

    # --- producers --------------------------------------------------------------------------------------

    def _describe(self, request: Incoming) -> None:
        body: DescribeProducersRequest = request.body
        self._check_size(sum(len(topic.partitions) for topic in body.topics))
        found = [
            self._producers_of(topic.topic, index) for topic in body.topics for index in topic.partitions
        ]
        self._replies.reply(request, DescribeProducersResponse(tuple(found)))

    def _producers_of(self, topic: str, index: int) -> PartitionProducers:
        try:
            log = self._find(topic, index).leader_log(may_follow=True)
        except KafkaError as error:
            return PartitionProducers(topic, index, error.code, (), error.detail)
        active = tuple(
            ActiveProducer(
                each.producer_id,
                each.epoch,
                each.last_sequence,
                each.timestamp_ms,
                each.coordinator_epoch,
                each.transaction_first_offset,
            )
            for each in log.producers.states.all()
        )
        return PartitionProducers(topic, index, NO_ERROR, active)


def _check_marker(marker: TransactionMarker) -> None:
    """Errors: InvalidRequestError for values that do not fit into a batch."""
    fits = (
        0 <= marker.producer_id <= INT64_MAX
        and 0 <= marker.producer_epoch <= INT16_MAX
        and -INT32_MAX <= marker.coordinator_epoch <= INT32_MAX
    )
    if not fits:
        raise InvalidRequestError(
            f"a marker of producer {marker.producer_id} in epoch {marker.producer_epoch},"
            f" of a coordinator in epoch {marker.coordinator_epoch}"
        )
