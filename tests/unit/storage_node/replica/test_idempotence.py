"""Retried batches: one copy, the same offset on any leader, acknowledged as the first attempt."""

import pytest
from core_rig import CoreRig, FakeRequest
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import DeleteRecordsPartition, DeleteRecordsRequest
from headrace.protocol.messages.groups import TopicNamePartitions
from headrace.protocol.messages.transactions import TransactionMarker, WriteTxnMarkersRequest
from headrace.storage_node.log.verification import UNCHECKED
from log_rig import NOW, batch
from producer_oracle import check_producers, idempotent, transactional
from replica_rig import TOPIC, Replicas


def send(cluster: Replicas, *data: bytes, node: int | None = None, **facts: object) -> FakeRequest:
    rig = cluster.leader if node is None else cluster.nodes[node]
    return rig.produce(TOPIC, *data, timeout_ms=500, **facts)  # type: ignore[arg-type]


def test_retries_are_appended_once(rig: CoreRig) -> None:
    """Scenario 38: five batches in flight, each sent several times."""
    topic_id = rig.topic()
    for _ in range(3):
        answers = [rig.produce(topic_id, idempotent(9, number)).first for number in range(5)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, n) for n in range(5)]
    assert rig.core.counters.produced_batches == 5
    codes = [rig.produce(topic_id, idempotent(9, number)).first.error_code for number in (6, 5, 6)]
    assert codes == [errors.OutOfOrderSequenceNumberError.code, 0, 0]


@pytest.mark.parametrize("acks", [1, -1])
def test_retry_waits_for_acks(rig: CoreRig, acks: int) -> None:
    """Uncommitted records are not acknowledged to a retry either."""
    topic_id = rig.topic(durability="fsync")
    first = rig.produce(topic_id, idempotent(9, 0), acks=acks)
    again = rig.produce(topic_id, idempotent(9, 0), acks=acks)
    assert not first.is_answered
    assert not again.is_answered
    rig.flush()
    assert first.first.base_offset == again.first.base_offset == 0
    assert rig.produce(topic_id, idempotent(9, 0), acks=acks).first.base_offset == 0, "at once"


def test_new_leader_detects_a_retry() -> None:
    """Scenario 39: the response was lost with the old leader."""
    cluster = Replicas.settled(min_isr=2)
    first = send(cluster, idempotent(9, 0, 2))
    cluster.settle()
    assert first.first.base_offset == 0
    send(cluster, idempotent(9, 2))
    cluster.settle()  # the followers have the batch; the producer gets no response
    cluster.crash(1)
    cluster.publish()
    cluster.fence(1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.settle()
    again = send(cluster, idempotent(9, 2))
    following = send(cluster, idempotent(9, 3))
    cluster.settle()
    assert (again.first.base_offset, following.first.base_offset) == (2, 3)
    assert send(cluster, idempotent(9, 5)).first.error_code == errors.OutOfOrderSequenceNumberError.code
    assert cluster.end(2) == cluster.end(3) == 4
    for node in (2, 3):
        check_producers(cluster.partition(node).log)


def test_truncated_batch_is_appended_again() -> None:
    """The producer state was truncated, too."""
    cluster = Replicas.settled(min_isr=2)
    send(cluster, idempotent(9, 0))
    cluster.settle()
    cluster.isolate(1)
    lost = send(cluster, idempotent(9, 1), node=1)
    cluster.change(leader=2, isr=(2, 3))
    again = send(cluster, idempotent(9, 1, 2))
    cluster.settle()
    cluster.heal()
    cluster.settle()
    cluster.pass_time(1_000)
    assert lost.first.error_code != 0
    assert again.first.base_offset == 1
    for node in (1, 2, 3):
        check_producers(cluster.partition(node).log)
        assert cluster.partition(node).log.producers.states.get(9).last_sequence == 2
    assert cluster.registration.isr == (1, 2, 3)


@pytest.mark.parametrize("power", [None, "none", 1])
def test_restarted_replica_restores_producer_state(power: str | int | None) -> None:
    """From its snapshots and batches, and from the records that it fetches."""
    cluster = Replicas.settled(min_isr=2, segment_bytes=str(1 << 20))
    for number in range(4):
        send(cluster, idempotent(9, number))
        cluster.settle()
    files = cluster.crash(3, power)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    send(cluster, idempotent(9, 4))
    cluster.settle()
    cluster.restart(3, files)
    cluster.settle()
    cluster.pass_time(1_000)
    cluster.change(leader=3)
    cluster.settle()
    again = send(cluster, idempotent(9, 4))
    following = send(cluster, idempotent(9, 5))
    cluster.settle()
    assert (again.first.base_offset, following.first.base_offset) == (4, 5)


@pytest.mark.parametrize("power", [None, "none"])
@pytest.mark.parametrize("start", [2, 3, 4])
def test_new_replica_fetches_producer_state_of_deleted_records(start: int, power: str | None) -> None:
    """All records of a producer may be deleted while its response is in flight: the replica detects a retry,
    also after a crash."""
    cluster = Replicas.settled(min_isr=2)
    send(cluster, idempotent(8, 0))
    send(cluster, idempotent(9, 0))
    last = send(cluster, idempotent(9, 1, 2))
    cluster.settle()
    assert last.first.base_offset == 2
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    deletion = DeleteRecordsRequest(1_000, (DeleteRecordsPartition(TOPIC, 0, start),))
    deleted = cluster.leader.ask(registry.DELETE_RECORDS, deletion)
    cluster.settle()
    assert deleted.first.low_watermark == start
    cluster.restart(3, FakeFiles())
    cluster.settle()
    cluster.pass_time(3_000)
    assert cluster.registration.isr == (1, 2, 3)
    files = cluster.crash(3, power)
    cluster.restart(3, files)
    cluster.settle()
    cluster.pass_time(3_000)
    cluster.change(leader=3)
    cluster.settle()
    assert cluster.partition(3).log.log_start_offset == start
    batches = (idempotent(8, 0), idempotent(9, 1, 2), idempotent(9, 3))
    answers = [send(cluster, each) for each in batches]
    cluster.settle()
    assert [each.first.base_offset for each in answers] == [0, 2, 4]


def test_replica_without_producer_state_is_not_in_sync() -> None:
    """It fetches the state first, and again after a full disk."""
    cluster = Replicas.settled(min_isr=2)
    send(cluster, idempotent(9, 0))
    cluster.settle()
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    deletion = DeleteRecordsRequest(1_000, (DeleteRecordsPartition(TOPIC, 0, -1),))
    cluster.leader.ask(registry.DELETE_RECORDS, deletion)
    cluster.settle()
    cluster.restart(3, FakeFiles())
    full = cluster.nodes[3]
    for _ in range(100):
        partition = cluster.partition(3)
        if partition is not None and partition.log is not None and partition.log.log_start_offset == 1:
            break
        cluster.step()
    full.files.capacity_bytes = full.files.used_bytes()
    cluster.settle()
    cluster.pass_time(1_000)
    assert cluster.registration.isr == (1, 2)
    assert cluster.partition(3).log.producers.states.is_empty
    full.files.capacity_bytes = None
    full.tick()
    cluster.pass_time(3_000)
    assert cluster.registration.isr == (1, 2, 3)
    assert cluster.partition(3).log.producers.states.get(9).last_sequence == 0


def test_retry_below_min_isr_is_refused() -> None:
    cluster = Replicas.settled(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
    send(cluster, idempotent(9, 0))
    cluster.settle()
    for node in (2, 3):
        cluster.cut.add((node, 1))
        cluster.break_link(node, 1)
    waiting = send(cluster, idempotent(9, 1))
    again = send(cluster, idempotent(9, 1))
    cluster.pass_time(3_000)
    assert {waiting.first.error_code, again.first.error_code} <= {errors.RequestTimedOutError.code, 20}
    assert send(cluster, idempotent(9, 0)).first.error_code == errors.NotEnoughReplicasError.code


def test_transaction_continues_on_the_new_leader() -> None:
    """It is open there, its marker ends it, and old producer epochs are fenced."""
    cluster = Replicas.settled(min_isr=2)
    log = cluster.partition(1).log
    log.append_as_leader(transactional(7, 0), leader_epoch=0, wall_ms=NOW, guard=UNCHECKED)
    send(cluster, batch(1))
    cluster.settle()
    cluster.crash(1)
    cluster.publish()
    cluster.fence(1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.settle()
    log = cluster.partition(2).log
    assert (log.last_stable_offset, cluster.watermark(2)) == (0, 2)
    marker = TransactionMarker(7, 1, False, (TopicNamePartitions("t", (0,)),), 0)
    marked = cluster.leader.ask(registry.WRITE_TXN_MARKERS, WriteTxnMarkersRequest((marker,)))
    assert not marked.is_answered, "the marker waits for the other replica"
    assert log.last_stable_offset == 0
    cluster.settle()
    assert marked.answer.markers[0].results[0].error_code == 0
    for node in (2, 3):
        log = cluster.partition(node).log
        cluster.pass_time(100)
        assert log.last_stable_offset == 3
        assert log.reader.aborted_between(0, 3) == ((7, 0),)
        check_producers(log)
    late = send(cluster, transactional(7, 1), transactional_id="x")
    assert late.first.error_code == errors.InvalidProducerEpochError.code
