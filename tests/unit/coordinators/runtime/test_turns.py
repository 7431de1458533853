"""What is asked of a shard within one turn of the loop is decided in order, and written at once."""

from typing import Any

import pytest
from coordinator_rig import CoordinatorRig, Counter, Peer, Request, batch_of
from headrace.coordinators.runtime.ports import Outcome, ProducerIdAndEpoch
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import DescribeGroupsRequest, HeartbeatRequest, HeartbeatResponse
from headrace.protocol.records.header import read_batch_header


@pytest.fixture
def rig() -> CoordinatorRig:
    """A led partition with an empty log."""
    rig = CoordinatorRig()
    rig.lead()
    return rig


def setting(number: int, group: str = "g", text: str = "") -> tuple[Any, Any]:
    return registry.HEARTBEAT, HeartbeatRequest(group, number, text)


READING = (registry.DESCRIBE_GROUPS, DescribeGroupsRequest(("g",)))


def counts(rig: CoordinatorRig) -> list[int]:
    """Of the records of each batch."""
    return [read_batch_header(batch).record_count for batch in rig.host.logs[0].batches]


def test_decisions_of_a_turn_are_one_batch(rig: CoordinatorRig) -> None:
    """Each request has its own response; the records are in the order of decisions."""
    requests = rig.ask_together(*(setting(number, f"g{number}") for number in range(5)))
    assert [request.answer for request in requests] == [HeartbeatResponse(0, str(n)) for n in range(5)]
    assert counts(rig) == [5]
    state = dict(rig.shard.numbers)
    rig.leave()
    rig.lead(epoch=1)
    rig.load()
    assert rig.shard.numbers == state == {f"g{number}": number for number in range(5)}


def test_each_decision_sees_the_earlier_ones(rig: CoordinatorRig) -> None:
    """No response is sent before all of them are committed."""
    rig.host.commits_at_once = False
    first, shown, second = rig.ask_together(setting(1), READING, setting(2))
    assert first.is_waiting
    assert shown.is_waiting
    rig.commit()
    assert shown.answer.groups[0].group_state == "1"
    assert (first.answer, second.answer) == (HeartbeatResponse(0, "1"), HeartbeatResponse(0, "2"))
    assert rig.shard.numbers == {"g": 2}


def test_full_batch_starts_another_one(rig: CoordinatorRig) -> None:
    """A record that no batch holds is refused alone."""
    rig.host.max_bytes = 400
    texts = ["x" * 60] * 6
    texts[3] = "x" * 500
    requests = rig.ask_together(*(setting(n, f"g{n}", text) for n, text in enumerate(texts)))
    refused = requests.pop(3)
    assert not isinstance(refused.answer, HeartbeatResponse)
    assert all(isinstance(request.answer, HeartbeatResponse) for request in requests)
    assert all(len(batch) <= 400 for batch in rig.host.logs[0].batches)
    assert sum(counts(rig)) == 5
    assert rig.shard.numbers == {f"g{n}": n for n in (0, 1, 2, 4, 5)}


def test_record_that_cannot_be_encoded_is_refused_alone(rig: CoordinatorRig) -> None:
    first, bad, last = rig.ask_together(setting(1), setting(1 << 70), setting(3))
    assert isinstance(bad.answer, errors.InvalidRequestError)
    assert (first.answer, last.answer) == (HeartbeatResponse(0, "1"), HeartbeatResponse(0, "3"))
    assert rig.shard.numbers == {"g": 3}


def test_isr_below_the_minimum_refuses_each_write(rig: CoordinatorRig) -> None:
    """No record is applied; a read gets its response."""
    rig.set(1)
    rig.host.refuses = errors.NotEnoughReplicasError("too few")
    first, shown, second = rig.ask_together(setting(2), READING, setting(3))
    assert isinstance(first.answer, errors.CoordinatorNotAvailableError)
    assert isinstance(second.answer, errors.CoordinatorNotAvailableError)
    assert shown.answer.groups[0].group_state == "1"
    assert rig.shard.numbers == {"g": 1}


def test_failed_append_reloads_the_shard(rig: CoordinatorRig) -> None:
    """Its state is ahead of its log: all requests are answered with NOT_COORDINATOR, and the log is read."""
    rig.set(1)
    rig.host.append_error = errors.KafkaStorageError("full")
    first, shown, second = rig.ask_together(setting(2), READING, setting(3))
    rig.host.append_error = None
    assert isinstance(first.answer, errors.NotCoordinatorError)
    assert isinstance(second.answer, errors.NotCoordinatorError)
    assert shown.answer.groups[0].error_code == errors.NotCoordinatorError.code
    rig.load()
    assert rig.shard.numbers == {"g": 1}
    assert rig.set(4).answer == HeartbeatResponse(0, "4")
    assert "loading the coordinator again" in rig.host.notes[0]


def test_transactional_batches_are_not_joined() -> None:
    """They keep their place in the order."""

    class Stamping(Counter):
        def handle(self, api: Any, body: Any, token: Any, now: Any) -> Outcome:
            outcome = super().handle(api, body, token, now)
            if body.member_id == "in a transaction":
                outcome.producer = ProducerIdAndEpoch(7, 0)
            return outcome

    rig = CoordinatorRig(make=Stamping)
    rig.lead()
    rig.ask_together(setting(1), setting(2), setting(3, text="in a transaction"), setting(4), setting(5))
    assert counts(rig) == [2, 1, 2]
    assert [read_batch_header(batch).producer_id for batch in rig.host.logs[0].batches] == [-1, 7, -1]
    assert (rig.shard.numbers, rig.shard.pending) == ({"g": 5}, {7: {"g": 3}})


def test_one_no_op_record_per_turn(rig: CoordinatorRig) -> None:
    """Also where other records are appended."""
    rig.host.has_lease = False
    rig.ask_together(READING, READING, setting(1), READING)
    assert counts(rig) == [2]


def handed_over(rig: CoordinatorRig, session: int = 5) -> Request:
    """A request whose turn is not over."""
    request = Request(Peer(session), *setting(1))
    rig.all.handle(request, rig.host.at())
    assert request.is_waiting
    return request


def test_shard_that_lost_its_partition_within_the_turn_decides_no_request(rig: CoordinatorRig) -> None:
    """Every request fails with NOT_COORDINATOR; in the next epoch none of the state is left."""
    request = handed_over(rig)
    rig.leave()
    assert isinstance(request.answer, errors.NotCoordinatorError)
    rig.lead(epoch=1)
    rig.all.end_turn(rig.host.at())
    assert rig.host.logs[0].batches == []


def test_request_of_a_closed_connection_is_not_decided(rig: CoordinatorRig) -> None:
    """It was closed within the turn."""
    request = handed_over(rig)
    rig.all.connection_gone(5, rig.host.at())
    rig.all.end_turn(rig.host.at())
    assert request.answers == [None]
    assert rig.host.logs[0].batches == []


def test_joint_batch_follows_the_loaded_log(rig: CoordinatorRig) -> None:
    """Its offsets continue after the records that were read."""
    rig.leave()
    rig.host.put(0, batch_of(("a", 1), ("b", 2)))
    rig.lead(epoch=1)
    rig.load()
    rig.ask_together(setting(3, "c"), setting(4, "d"))
    assert rig.shard.numbers == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_requests_are_decided_before_due_timers(rig: CoordinatorRig) -> None:
    """A node that was stalled finds both at once."""
    joined = rig.join()
    rig.host.now_ms += 10
    request = handed_over(rig)
    rig.all.expire(rig.host.at())
    rig.settle()
    assert request.answer == HeartbeatResponse(0, "1")
    assert not joined.is_waiting
    rig.all.end_turn(rig.host.at())
    assert counts(rig) == [1]
