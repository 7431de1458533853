"""One shard in its runtime: load, decide, append, apply, answer, and the end."""

from typing import Any

import pytest
from coordinator_rig import CoordinatorRig, Counter, batch_of, marker_of
from headrace.coordinators.assembly import CODEC
from headrace.coordinators.runtime.hosted_shard import REPLAY_STEP, RecordCodec
from headrace.coordinators.runtime.ports import Outcome, ProducerIdAndEpoch, Record
from headrace.protocol import errors
from headrace.protocol.messages.groups import HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.group_records import OffsetCommitKey
from headrace.protocol.records.header import read_batch_header


@pytest.fixture
def rig() -> CoordinatorRig:
    """A led partition with an empty log."""
    rig = CoordinatorRig()
    rig.lead()
    return rig


def late() -> CoordinatorRig:
    """As `rig`, where nothing is committed but by `commit`."""
    rig = CoordinatorRig()
    rig.host.commits_at_once = False
    rig.lead()
    return rig


# --- load ---------------------------------------------------------------------------------------------------


def test_empty_log_is_loaded_at_once(rig: CoordinatorRig) -> None:
    """Nothing is read, and requests are served."""
    assert rig.shard.is_loaded
    assert not rig.host.reads
    assert rig.set(5).answer == HeartbeatResponse(0, "5")
    assert rig.shard.numbers == {"g": 5}


def test_log_is_replayed_in_pieces() -> None:
    """Up to the log end offset, also records appended during the load; the shard is notified once."""
    rig = CoordinatorRig()
    for number in range(4):
        rig.host.put(0, batch_of(("g", number), (f"h{number}", 1)))
    rig.lead()
    refused = rig.set(9)
    assert isinstance(refused.answer, errors.CoordinatorLoadInProgressError)
    rig.host.finish_read(batches=3)
    assert rig.shard.numbers["g"] == 2
    rig.host.put(0, batch_of(("h0", None)))
    rig.host.finish_read(batches=1)
    assert not rig.shard.is_loaded
    rig.host.finish_read()
    assert rig.shard.is_loaded
    assert rig.shard.numbers == {"g": 3, "h1": 1, "h2": 1, "h3": 1}
    assert rig.host.news == ["__consumer_offsets-0: coordinator loaded, 9 records in 0 ms"]


def test_long_piece_is_replayed_in_steps() -> None:
    """No more than REPLAY_STEP records are replayed in one event: other requests are handled in between."""
    rig = CoordinatorRig()
    rig.host.put(0, batch_of(*((f"g{i}", i) for i in range(2 * REPLAY_STEP + 5))))
    rig.lead()
    rig.host.finish_read()
    assert len(rig.shard.numbers) == REPLAY_STEP
    assert rig.all.next_deadline_ms() == rig.host.now_ms
    rig.all.expire(rig.host.at())
    assert len(rig.shard.numbers) == 2 * REPLAY_STEP
    assert not rig.shard.is_loaded
    rig.all.expire(rig.host.at())
    assert rig.shard.is_loaded


def test_transactions_are_replayed_with_their_markers() -> None:
    """Records contain their producer id; markers end pending transactions."""
    rig = CoordinatorRig()
    rig.host.put(0, batch_of(("a", 1), producer_id=7))
    rig.host.put(0, batch_of(("b", 2), producer_id=8))
    rig.host.put(0, marker_of(7, is_commit=True))
    rig.host.put(0, marker_of(8, is_commit=False))
    rig.lead()
    rig.load()
    assert rig.shard.numbers == {"a": 1}
    assert rig.shard.ended == [(2, True), (3, False)]


def test_records_of_unknown_types_are_skipped_and_logged() -> None:
    """A newer version wrote them."""
    rig = CoordinatorRig()
    builder = active_codec().builder(max_bytes=1000)
    builder.append(1, b"\x70\x00what", b"ever")
    rig.host.put(0, builder.build())
    rig.host.put(0, batch_of(("g", 1)))
    rig.lead()
    rig.load()
    assert rig.shard.numbers == {"g": 1}
    assert rig.host.notes == [
        "__consumer_offsets-0: skipped 1 records of unknown types, written by a newer version"
    ]


def test_corrupt_log_fails_only_its_shard() -> None:
    """Requests get the reason, none is decided on partial state, and the next epoch loads again."""
    rig = CoordinatorRig()
    rig.host.put(0, batch_of(("g", 1)))
    rig.lead()
    rig.host.finish_read(error=errors.CorruptMessageError("the batch at offset 0: a wrong CRC"))
    answer = rig.set(1).answer
    assert isinstance(answer, errors.CoordinatorNotAvailableError)
    assert "wrong CRC" in answer.detail
    assert rig.host.notes == [
        "coordinator unavailable until the next leader epoch: loading __consumer_offsets-0 failed: the"
        " batch at offset 0: a wrong CRC"
    ]
    rig.all.metadata_changed(rig.host.image, None, rig.host.at())
    assert rig.shard.seen == []
    rig.leave()
    rig.lead(epoch=1)
    rig.load()
    assert rig.shard.numbers == {"g": 1}


def test_bit_flip_after_a_clean_shutdown_is_found() -> None:
    """A cleanly closed log is not scanned at the start: the load checks the CRC."""
    rig = CoordinatorRig()
    rig.host.put(0, batch_of(("g", 1)))
    batch = rig.host.logs[0].batches[0]
    assert batch.count(b"g") == 1
    rig.host.logs[0].batches[0] = batch.replace(b"g", b"h")
    rig.lead()
    rig.load()
    assert isinstance(rig.set(1).answer, errors.CoordinatorNotAvailableError)
    assert "offset 0 is corrupt: CRC" in rig.host.notes[0]


def test_undecodable_record_is_reported_with_its_offset() -> None:
    rig = CoordinatorRig()
    builder = active_codec().builder(max_bytes=1000)
    builder.append(1, b"\x00\x01\x00", b"")
    rig.host.put(0, batch_of(("g", 1)))
    rig.host.put(0, builder.build())
    rig.lead()
    rig.load()
    assert isinstance(rig.set(1).answer, errors.CoordinatorNotAvailableError)
    assert "offset 1" in rig.host.notes[0]


def test_record_that_the_codec_cannot_decode_fails_only_its_shard() -> None:
    """The codec runs on a thread, whose unknown errors end the node."""
    broken = RecordCodec(CODEC.encode, lambda _key, _value: 1 / 0)  # type: ignore[arg-type, return-value]
    rig = CoordinatorRig(codec=broken)
    rig.host.put(0, batch_of(("g", 1)))
    rig.lead()
    rig.load()
    assert isinstance(rig.set(1).answer, errors.CoordinatorNotAvailableError)
    assert "offset 0 cannot be decoded: ZeroDivisionError" in rig.host.notes[0]


def test_exception_in_replay_fails_only_its_shard() -> None:
    """Else it would end every node that leads the partition in turn."""

    class Choking(Counter):
        def replay(self, record: Record, offset: int, producer: ProducerIdAndEpoch) -> None:
            raise RuntimeError("what is that?")

    rig = CoordinatorRig(make=Choking)
    rig.host.put(0, batch_of(("g", 1)))
    rig.lead()
    rig.load()
    assert isinstance(rig.set(1).answer, errors.CoordinatorNotAvailableError)
    assert "what is that?" in rig.host.notes[0]


def test_load_of_an_older_epoch_is_dropped() -> None:
    rig = CoordinatorRig()
    rig.host.put(0, batch_of(("g", 1)))
    rig.lead(epoch=1)
    old = rig.shard
    rig.leave()
    assert isinstance(rig.set(1).answer, errors.NotCoordinatorError)
    rig.lead(epoch=2)
    rig.host.finish_read()
    assert not old.is_loaded
    assert old.numbers == {}
    rig.host.finish_read()
    assert rig.shard is not old
    assert rig.shard.numbers == {"g": 1}


def test_responses_after_a_load_wait_for_loaded_records() -> None:
    """The log of a new leader may reach beyond the high watermark."""
    rig = late()
    rig.leave()
    rig.host.put(0, batch_of(("g", 1)))
    rig.lead(epoch=1)
    rig.load()
    asked = rig.describe("g")
    assert asked.is_waiting
    rig.commit()
    assert asked.answer.groups[0].group_state == "1"


# --- append, apply, answer ----------------------------------------------------------------------------------


def test_records_of_an_outcome_are_one_batch_with_the_wall_time(rig: CoordinatorRig) -> None:
    class Pairs(Counter):
        def _set(self, body: Any, token: Any) -> Outcome:
            outcome = super()._set(body, token)
            outcome.records.append(Record(OffsetCommitKey("other", "t", 0), None))
            return outcome

    rig = CoordinatorRig(make=Pairs)
    rig.lead()
    rig.set(3)
    (batch,) = rig.host.logs[0].batches
    records = active_codec().decode(batch)
    assert len(records) == 2
    assert {record.timestamp for record in records} == {rig.host.at().wall_ms}
    assert records[1].value is None
    assert not read_batch_header(batch).is_transactional


def test_stamp_makes_the_batch_transactional() -> None:
    """It counts only after a commit marker."""

    class Stamped(Counter):
        def _set(self, body: Any, token: Any) -> Outcome:
            outcome = super()._set(body, token)
            outcome.producer = ProducerIdAndEpoch(11, 2)
            return outcome

    rig = CoordinatorRig(make=Stamped)
    rig.lead()
    rig.set(3)
    header = read_batch_header(rig.host.logs[0].batches[0])
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (11, 2, True)
    assert rig.shard.numbers == {}
    rig.host.put(0, marker_of(11, is_commit=True))
    rig.all.ended_transaction((b"o" * 16, 0), 11, 2, is_commit=True, offset=1)
    assert rig.shard.numbers == {"g": 3}
    assert rig.set(4).answer == HeartbeatResponse(0, "4")  # behind the marker


def test_responses_are_sent_in_order_once_committed() -> None:
    """Also those that only read uncommitted state."""
    rig = late()
    first, shown, second = rig.set(1), rig.describe("g"), rig.set(2)
    assert rig.shard.numbers == {"g": 2}
    assert [r.is_waiting for r in (first, shown, second)] == [True, True, True]
    rig.commit(1)
    assert first.answer == HeartbeatResponse(0, "1")
    assert shown.answer.groups[0].group_state == "1"
    assert second.is_waiting
    rig.commit(2)
    assert second.answer == HeartbeatResponse(0, "2")


def test_no_response_overtakes_a_waiting_one() -> None:
    """The high watermark has advanced, but the shard is not notified yet."""
    rig = late()
    first = rig.set(1)
    rig.host.logs[0].high_watermark = rig.host.logs[0].end
    shown = rig.describe("g")
    assert [r.is_waiting for r in (first, shown)] == [True, True]
    rig.commit()
    assert [r.is_waiting for r in (first, shown)] == [False, False]


def test_response_without_state_does_not_wait() -> None:
    """`waits=False` is for those."""

    class Hasty(Counter):
        def handle(self, api: Any, body: Any, token: Any, now: Any) -> Outcome:
            outcome = super().handle(api, body, token, now)
            outcome.answers = [answer._replace(waits=False) for answer in outcome.answers]
            return outcome

    rig = CoordinatorRig(make=Hasty)
    rig.host.commits_at_once = False
    rig.lead()
    assert rig.set(1).answer == HeartbeatResponse(0, "1")


def test_response_of_a_late_commit_is_a_timeout() -> None:
    """The record may still be committed, and its state stays."""
    rig = late()
    first = rig.set(1)
    rig.pass_time(3_000)
    second = rig.set(2)
    rig.pass_time(1_999)
    assert first.is_waiting
    rig.pass_time(1)
    assert isinstance(first.answer, errors.CoordinatorNotAvailableError)
    assert second.is_waiting
    rig.commit()
    assert second.answer == HeartbeatResponse(0, "2")
    rig.pass_time(10_000)
    assert rig.describe("g").answer.groups[0].group_state == "2"


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (errors.NotEnoughReplicasError("too few"), errors.CoordinatorNotAvailableError),
        (errors.MessageTooLargeError("too large"), errors.UnknownServerError),
    ],
)
def test_refused_append_changes_no_state(error: errors.KafkaError, seen: type[errors.KafkaError]) -> None:
    """The request, and every parked request of the decision, gets Kafka's error."""
    rig = CoordinatorRig()
    rig.lead()
    parked = rig.park()
    rig.host.refuses = error
    answers = [rig.set(1).answer, parked.answer]
    assert [type(answer) for answer in answers] == [seen, seen]
    assert answers[0].detail == error.detail
    assert rig.shard.numbers == {}
    rig.host.refuses = None
    assert rig.set(2).answer == HeartbeatResponse(0, "2")


def test_shard_is_notified_of_a_refused_append() -> None:
    """It answers itself the requests that need another error."""

    class Undoing(Counter):
        def _set(self, body: Any, token: Any) -> Outcome:
            parked = self.parked.get(body.group_id)
            outcome = super()._set(body, token)

            def undo(error: errors.KafkaError, now: Any) -> Outcome:
                assert isinstance(error, errors.NotEnoughReplicasError)
                undone = Outcome()
                undone.answer(parked, LeaveGroupResponse(99))
                return undone

            outcome.on_failed = undo
            return outcome

    rig = CoordinatorRig(make=Undoing)
    rig.lead()
    parked = rig.park()
    rig.host.refuses = errors.NotEnoughReplicasError("too few")
    assert isinstance(rig.set(1).answer, errors.CoordinatorNotAvailableError)
    assert parked.answer == LeaveGroupResponse(99)


def test_records_larger_than_a_batch_are_refused(rig: CoordinatorRig) -> None:
    """By max.message.bytes of the partition, and by the widths of their fields."""
    rig.host.max_bytes = 200
    assert isinstance(rig.set(1, text="x" * 300).answer, errors.UnknownServerError)
    rig.host.max_bytes = 1 << 20
    assert isinstance(rig.set(1 << 70).answer, errors.InvalidRequestError)
    assert rig.host.logs[0].end == 0
    assert rig.shard.numbers == {}


@pytest.mark.parametrize(
    "producer", [ProducerIdAndEpoch(11, 1 << 15), ProducerIdAndEpoch(1 << 63, 0), ProducerIdAndEpoch(-1, 2)]
)
def test_invalid_stamp_is_refused(producer: ProducerIdAndEpoch) -> None:
    """As a record that cannot be encoded."""

    class Stamped(Counter):
        def _set(self, body: Any, token: Any) -> Outcome:
            outcome = super()._set(body, token)
            outcome.producer = producer
            return outcome

    rig = CoordinatorRig(make=Stamped)
    rig.lead()
    assert isinstance(rig.set(3).answer, errors.InvalidRequestError)
    assert rig.host.logs[0].batches == []


def test_error_of_a_handler_is_returned_at_once(rig: CoordinatorRig) -> None:
    class Strict(Counter):
        def handle(self, api: Any, body: Any, token: Any, now: Any) -> Outcome:
            raise errors.InvalidRecordError("never")

    rig = CoordinatorRig(make=Strict)
    rig.lead()
    assert isinstance(rig.set(1).answer, errors.InvalidRecordError)
    assert rig.all.status()["waiting_requests"] == 0


# --- timers, questions, the end -----------------------------------------------------------------------------


def test_timers_fire_at_their_deadline(rig: CoordinatorRig) -> None:
    """A timer that is set again replaces the earlier one."""
    first = rig.join()
    rig.pass_time(5)
    second = rig.join()
    rig.pass_time(9)
    assert first.is_waiting
    assert second.is_waiting
    rig.pass_time(1)
    assert second.answer == JoinGroupResponse(0)
    assert first.is_waiting  # what the counter forgot is its own business


def test_timer_cancelled_by_another_does_not_fire(rig: CoordinatorRig) -> None:
    """Both are due at the same time."""
    fired = []
    timers = rig.shard.context.timers

    def first(now: Any) -> Outcome:
        fired.append("first")
        timers.cancel("b")
        return Outcome()

    timers.set("a", rig.host.now_ms + 5, first)
    timers.set("b", rig.host.now_ms + 5, first)
    assert timers.deadline_of("b") == rig.host.now_ms + 5
    rig.pass_time(100)
    assert fired == ["first"]
    assert timers.deadline_of("b") is None


def test_responses_of_other_servers_are_decided_on(rig: CoordinatorRig) -> None:
    """Errors too."""
    one, other = rig.sync(), rig.sync()
    ((node, _, _, timeout_ms, answered), (_, _, _, _, failed)) = rig.host.asked
    assert (node, timeout_ms) == (2, 500)
    answered("yes", rig.host.at())
    failed(errors.NetworkError("gone"), rig.host.at())
    assert one.answer.error_detail == "'yes'"
    assert "gone" in other.answer.error_detail


def test_end_of_leadership_answers_all_requests() -> None:
    """With NOT_COORDINATOR; later timers and responses have no effect."""
    rig = late()
    waiting = [rig.set(1), rig.park(), rig.join(), rig.sync(), rig.describe("g")]
    answered = rig.host.asked[0][4]
    old = rig.shard
    rig.leave()
    assert [type(request.answer) for request in waiting[:4]] == [errors.NotCoordinatorError] * 4
    assert waiting[4].answer.groups[0].error_code == errors.NotCoordinatorError.code
    assert old.is_closed
    answered("late", rig.host.at())
    rig.pass_time(100_000)
    assert rig.all.next_deadline_ms() is None
    rig.all.committed((b"o" * 16, 0), rig.host.at())
    status = rig.all.status()
    assert (status["waiting_requests"], status["shards"]) == (0, {})
    assert isinstance(rig.set(1).answer, errors.NotCoordinatorError)


def test_closed_connection_drops_its_requests(rig: CoordinatorRig) -> None:
    """Its responses are not sent; shards hear of every connection."""
    mine, others = rig.park("a", session=5), rig.park("b", session=6)
    rig.all.connection_gone(5, rig.host.at())
    rig.all.connection_gone(99, rig.host.at())
    assert mine.answer is None
    assert others.is_waiting
    assert rig.shard.gone == [5, 99]
    rig.set(1, "a")
    rig.set(1, "b")
    assert others.answer == LeaveGroupResponse(0)
    assert rig.all.status()["waiting_requests"] == 0


def test_waiting_requests_are_bounded() -> None:
    """Further ones are refused at once."""
    rig = CoordinatorRig(**{"purgatory.max.requests": 3})
    rig.lead()
    waiting = [rig.park(str(i)) for i in range(3)]
    assert isinstance(rig.park("x").answer, errors.ThrottlingQuotaExceededError)
    assert isinstance(rig.set(1, "0").answer, errors.ThrottlingQuotaExceededError)
    rig.all.connection_gone(waiting[0].peer.session, rig.host.at())
    assert rig.set(1, "1").answer == HeartbeatResponse(0, "1")


def test_metadata_changes_reach_loaded_shards(rig: CoordinatorRig) -> None:
    rig.all.metadata_changed(rig.host.image, None, rig.host.at())
    assert rig.shard.seen == [None]


def test_tokens_identify_clients(rig: CoordinatorRig) -> None:
    """The shard names members by them."""
    rig.park(session=8)
    (token,) = rig.shard.parked.values()
    assert (token.session, token.client_id, token.client_host) == (8, "test", "10.0.0.9")


def test_written_records_are_read_again(rig: CoordinatorRig) -> None:
    """By the same codec."""
    rig.set(7)
    rig.leave()
    rig.lead(epoch=1)
    rig.load()
    assert rig.shard.numbers == {"g": 7}
