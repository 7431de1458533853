"""Waiting for the verification of transactional batches: timeouts and changes of the coordinator."""

import pytest
from core_rig import FakeRequest
from headrace.protocol import errors
from headrace.protocol.metadata.records import PartitionChangeRecord
from headrace.storage_node.effects import AskPeer
from transaction_rig import TransactionRig, transactional


class Rig(TransactionRig):
    def begin(self, sequence: int = 0, *, timeout_ms: int = 1_000, adds: bool = True) -> FakeRequest:
        """A batch of producer 7."""
        return self.send(transactional(7, sequence), timeout_ms=timeout_ms, adds_partitions=adds)

    def coordinated_by(self, node: int) -> None:
        for index in (0, 1):
            self.metadata(PartitionChangeRecord(self.state_id, index, leader=node))

    def question(self) -> AskPeer:
        (question,) = self.asked()
        return question


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_verification_times_out_with_the_request(rig: Rig) -> None:
    """Nothing is appended; a later response is ignored."""
    request = rig.begin(timeout_ms=1_000)
    question = rig.question()
    assert question.timeout_ms == 1_000
    rig.pass_time(999)
    assert not request.is_answered
    rig.pass_time(1)
    assert request.first.error_code == errors.NotEnoughReplicasError.code
    rig.answer(question)
    assert rig.values(rig.topic_id) == []
    rig.begin()
    rig.answer(rig.question())
    assert len(rig.values(rig.topic_id)) == 1


def test_waiting_batch_is_copied(rig: Rig) -> None:
    """The listener reads the next request into the same bytearray."""
    came = bytearray(transactional(7, 0))
    request = rig.send(memoryview(came).toreadonly(), timeout_ms=1_000, adds_partitions=True)
    came[:] = bytes(len(came))
    rig.answer(rig.question())
    assert request.first.error_code == errors.NO_ERROR
    assert len(rig.values(rig.topic_id)) == 1


def test_one_timeout_covers_verification_and_acks() -> None:
    rig = Rig()
    rig.configure("t", "durability", "fsync")
    request = rig.begin(timeout_ms=1_000)
    rig.pass_time(700)
    rig.answer(rig.question())
    rig.pass_time(299)
    assert not request.is_answered
    rig.pass_time(1)
    assert request.first.error_code == errors.RequestTimedOutError.code


def test_batches_of_one_verification_time_out_separately(rig: Rig) -> None:
    """The others get the response, in their order."""
    first, second, third = (
        rig.begin(number, timeout_ms=timeout_ms) for number, timeout_ms in enumerate((1_000, 500, 2_000))
    )
    question = rig.question()
    rig.pass_time(500)
    assert second.first.error_code == errors.NotEnoughReplicasError.code
    assert not first.is_answered
    rig.pass_time(500)
    assert first.first.error_code == errors.NotEnoughReplicasError.code
    assert not third.is_answered
    rig.answer(question)
    assert third.is_answered


def test_new_coordinator_gets_the_request_at_once(rig: Rig) -> None:
    """A response of the previous one is ignored."""
    request = rig.begin()
    old = rig.question()
    rig.coordinated_by(1)
    new = rig.question()
    assert (old.node_id, new.node_id) == (2, 1)
    assert new.body == old.body
    rig.no_answer(old, errors.RequestTimedOutError("it stood still"))
    assert not request.is_answered
    rig.answer(new)
    assert request.first.error_code == errors.NO_ERROR


def test_verification_waits_for_a_coordinator(rig: Rig) -> None:
    """Until metadata has one, or the timeout."""
    request = rig.begin()
    rig.asked()
    rig.coordinated_by(-1)
    rig.topic("other")
    assert not rig.asked()
    rig.coordinated_by(1)
    assert rig.question().node_id == 1
    rig.topic("another")
    assert not rig.asked()
    rig.coordinated_by(-1)
    rig.pass_time(1_000)
    assert request.first.error_code == errors.NotEnoughReplicasError.code


def test_new_coordinator_ends_the_backoff(rig: Rig) -> None:
    """CONCURRENT_TRANSACTIONS of the previous one; one request to the next."""
    request = rig.begin()
    rig.answer(rig.question(), of_all=errors.ConcurrentTransactionsError.code)
    assert not rig.asked()
    rig.coordinated_by(1)
    question = rig.question()
    rig.pass_time(100)
    assert not rig.asked()
    rig.answer(question)
    assert request.first.error_code == errors.NO_ERROR


def test_backoff_ends_at_the_timeout(rig: Rig) -> None:
    """The producer gets an error in time."""
    request = rig.begin(timeout_ms=10)
    rig.answer(rig.question(), of_all=errors.ConcurrentTransactionsError.code)
    rig.pass_time(10)
    assert request.is_answered
    rig.pass_time(1_000)
    assert not rig.asked()


def test_appended_batch_without_space_in_purgatory_times_out() -> None:
    """A marker filled purgatory during the verification: the batch is appended, its outcome unknown."""
    rig = Rig(purgatory_max_requests=1)
    rig.configure("t", "durability", "fsync")
    request = rig.begin()
    question = rig.question()
    assert not rig.mark(8, 0, topics=(("t", (1,)),)).is_answered
    rig.answer(question)
    assert request.error is None
    assert request.first.error_code == errors.RequestTimedOutError.code
    rig.flush()
    rig.flush()
    assert len(rig.values(rig.topic_id)) == 1
