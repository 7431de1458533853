"""A node core with a transaction coordinator that the test scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core_rig import CoreRig, FakeRequest
from fake_files import FakeFiles
from headrace.protocol.errors import NO_ERROR, KafkaError
from headrace.protocol.messages import registry, transactions
from headrace.protocol.messages.groups import PartitionResult, TopicNamePartitions
from headrace.protocol.metadata.records import FormatRecord, RegisterBrokerRecord, UnfenceBrokerRecord
from headrace.protocol.records.header import Buffer
from headrace.storage_node.effects import AskPeer
from log_rig import batch
from node_rig import WALL_MS

ID = "my-transactions"


class TransactionRig(CoreRig):
    """One topic `t` of two partitions, led here, and the partitions of `__transaction_state`."""

    def __init__(
        self,
        files: FakeFiles | None = None,
        *,
        has_coordinator: bool = True,
        before: TransactionRig | None = None,
        **config: Any,
    ) -> None:
        """`before`: the earlier process, whose disk and metadata are used."""
        if before is not None:
            super().__init__(files, records=before.records, **config)
            self.topic_id, self.state_id = before.topic_id, before.state_id
            return
        records: list[Any] = [FormatRecord("c")]
        for node in (1, 2):
            records.append(RegisterBrokerRecord(node, bytes([node]) * 16, "h", node, None, (), node))
            records.append(UnfenceBrokerRecord(node, node))
        super().__init__(files, records=records, **config)
        self.topic_id = self.topic(partitions=2)
        self.state_id = b""
        if has_coordinator:
            self.state_id = self.topic("__transaction_state", 2, leader=2, replicas=(2,))

    # --- the coordinator --------------------------------------------------------------------------------

    def asked(self) -> list[AskPeer]:
        """The requests to coordinators since the last call."""
        found = self.pop(AskPeer)
        assert all(effect.api is registry.ADD_PARTITIONS_TO_TXN for effect in found)
        return found

    def answer(
        self, question: AskPeer, *, codes: dict[int, int] | None = None, of_all: int = NO_ERROR
    ) -> None:
        """Answer with an error code per partition of `t`, or one for the transaction."""
        (asked,) = question.body.transactions
        results = tuple(
            PartitionResult(topic.topic, index, (codes or {}).get(index, NO_ERROR))
            for topic in asked.topics
            for index in topic.partitions
        )
        added = transactions.AddedPartitions(asked.transactional_id, of_all, () if of_all else results)
        question.answered(transactions.AddPartitionsToTxnResponse((added,)), self.now_ms, WALL_MS)
        self.check()

    def no_answer(self, question: AskPeer, error: KafkaError) -> None:
        question.answered(error, self.now_ms, WALL_MS)
        self.check()

    # --- producers and readers --------------------------------------------------------------------------

    def send(self, *data: Buffer, partition: int = 0, **facts: Any) -> FakeRequest:
        """Produce batches of the transactional id to one partition of `t`."""
        return self.produce(
            self.topic_id, *data, partition=partition, transactional_id=facts.pop("id", ID), **facts
        )

    def write(self, producer_id: int, sequence: int, *, epoch: int = 0, partition: int = 0) -> FakeRequest:
        """Produce one batch in a transaction; verification succeeds at once."""
        request = self.send(transactional(producer_id, sequence, epoch=epoch), partition=partition)
        for question in self.asked():
            self.answer(question)
        assert request.first.error_code == NO_ERROR, request.first
        return request

    def mark(
        self,
        producer_id: int,
        epoch: int,
        *,
        committed: bool = True,
        topics: Sequence[tuple[str, tuple[int, ...]]] = (("t", (0,)),),
        coordinator_epoch: int = 0,
        version: int = 2,
    ) -> FakeRequest:
        """Write one marker."""
        named = tuple(TopicNamePartitions(*topic) for topic in topics)
        marker = transactions.TransactionMarker(
            producer_id, epoch, committed, named, coordinator_epoch, version
        )
        return self.ask(registry.WRITE_TXN_MARKERS, transactions.WriteTxnMarkersRequest((marker,)))

    def describe(self, *topics: tuple[str, tuple[int, ...]]) -> FakeRequest:
        named = tuple(TopicNamePartitions(*topic) for topic in topics)
        return self.ask(registry.DESCRIBE_PRODUCERS, transactions.DescribeProducersRequest(named))


def codes_of(request: FakeRequest) -> list[list[int]]:
    """The error codes of each marker's partitions."""
    return [[result.error_code for result in marker.results] for marker in request.answer.markers]


def transactional(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0) -> bytes:
    return batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )
