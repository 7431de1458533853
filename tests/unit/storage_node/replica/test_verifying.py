"""Producers wait for verification as long as they wanted, and not for a coordinator of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import (
    NO_ERROR,
    ConcurrentTransactionsError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from headrace.protocol.metadata.records import PartitionChangeRecord
from transaction_rig import TransactionRig, transactional

if TYPE_CHECKING:
    from core_rig import FakeRequest
    from headrace.storage_node.effects import AskPeer


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


def test_a_producer_waits_as_long_as_it_wanted(rig: Rig) -> None:
    """Then it hears that nothing was written; an answer that comes later finds nobody."""
    request = rig.begin(timeout_ms=1_000)
    question = rig.question()
    assert question.timeout_ms == 1_000
    rig.pass_time(999)
    assert not request.is_answered
    rig.pass_time(1)
    assert request.first.error_code == NotEnoughReplicasError.code
    rig.answer(question)
    assert rig.values(rig.topic_id) == []
    rig.begin()
    rig.answer(rig.question())
    assert len(rig.values(rig.topic_id)) == 1


def test_what_waits_does_not_lie_in_memory_that_is_used_again(rig: Rig) -> None:
    """A listener reads the next request into the bytearray that this one came in."""
    came = bytearray(transactional(7, 0))
    request = rig.send(memoryview(came).toreadonly(), timeout_ms=1_000, adds_partitions=True)
    came[:] = bytes(len(came))
    rig.answer(rig.question())
    assert request.first.error_code == NO_ERROR
    assert len(rig.values(rig.topic_id)) == 1


def test_the_wait_for_replicas_is_a_part_of_it() -> None:
    """One timeout for all of a request."""
    rig = Rig()
    rig.configure("t", "durability", "fsync")
    request = rig.begin(timeout_ms=1_000)
    rig.pass_time(700)
    rig.answer(rig.question())
    rig.pass_time(299)
    assert not request.is_answered
    rig.pass_time(1)
    assert request.first.error_code == RequestTimedOutError.code


def test_each_of_those_who_share_a_question_has_its_own_time(rig: Rig) -> None:
    """Who came later may give up earlier; the others still get the answer, in their order."""
    first, second, third = (
        rig.begin(number, timeout_ms=timeout_ms) for number, timeout_ms in enumerate((1_000, 500, 2_000))
    )
    question = rig.question()
    rig.pass_time(500)
    assert second.first.error_code == NotEnoughReplicasError.code
    assert not first.is_answered
    rig.pass_time(500)
    assert first.first.error_code == NotEnoughReplicasError.code
    assert not third.is_answered
    rig.answer(question)
    assert third.is_answered


def test_another_coordinator_is_asked_at_once(rig: Rig) -> None:
    """The one before may stand still for ever. What it says is not heard any more."""
    request = rig.begin()
    old = rig.question()
    rig.coordinated_by(1)
    new = rig.question()
    assert (old.node_id, new.node_id) == (2, 1)
    assert new.body == old.body
    rig.no_answer(old, RequestTimedOutError("it stood still"))
    assert not request.is_answered
    rig.answer(new)
    assert request.first.error_code == NO_ERROR


def test_while_nobody_coordinates_it_waits(rig: Rig) -> None:
    """For metadata that name somebody, other news, or the end of its time."""
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
    assert request.first.error_code == NotEnoughReplicasError.code


def test_a_pause_ends_with_the_coordinator(rig: Rig) -> None:
    """The transaction before is ending, as one said; the next one is asked at once, and only once."""
    request = rig.begin()
    rig.answer(rig.question(), of_all=ConcurrentTransactionsError.code)
    assert not rig.asked()
    rig.coordinated_by(1)
    question = rig.question()
    rig.pass_time(100)
    assert not rig.asked()
    rig.answer(question)
    assert request.first.error_code == NO_ERROR


def test_a_pause_does_not_outlast_the_producer(rig: Rig) -> None:
    """It hears of the end of its own time."""
    request = rig.begin(timeout_ms=10)
    rig.answer(rig.question(), of_all=ConcurrentTransactionsError.code)
    rig.pass_time(10)
    assert request.is_answered
    rig.pass_time(1_000)
    assert not rig.asked()


def test_what_was_appended_is_never_told_to_be_refused() -> None:
    """A marker has taken the last place to wait while the coordinator was asked: whether the batch is safe is
    not known, as after any timeout, and it is read when it is."""
    rig = Rig(purgatory_max_requests=1)
    rig.configure("t", "durability", "fsync")
    request = rig.begin()
    question = rig.question()
    assert not rig.mark(8, 0, topics=(("t", (1,)),)).is_answered
    rig.answer(question)
    assert request.error is None
    assert request.first.error_code == RequestTimedOutError.code
    rig.flush()
    rig.flush()
    assert len(rig.values(rig.topic_id)) == 1
