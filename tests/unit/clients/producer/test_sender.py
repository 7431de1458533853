"""Which batches are sent when, and how responses are handled."""

from random import Random

import pytest
from headrace.clients.producer.accumulator import LEARNED_LIMIT_MS
from headrace.clients.producer.effects import MemoryFreed, RefreshMetadata, Resolve, TakeHint
from headrace.protocol import errors
from headrace.protocol.messages.data import ProduceResponse
from producer_rig import ProducerRig, values_of, view_of


def test_batches_for_one_node_share_a_request() -> None:
    """Partitions 0 and 2 are led by node 0, 1 by node 1: two requests."""
    rig = ProducerRig(0, 1, 0)
    for partition in range(3):
        rig.put(b"%d" % partition, partition)
    sends = {send.node_id: values_of(send) for send in rig.step()}
    assert sends == {0: [[b"0"], [b"2"]], 1: [[b"1"]]}


def test_success_resolves_with_the_offset() -> None:
    """The memory is free again."""
    rig = ProducerRig()
    rig.put(b"a")
    (send,) = rig.step()
    rig.ok(send, 42)
    (resolved,) = rig.resolved
    assert (resolved.base_offset, resolved.error) == (42, None)
    assert MemoryFreed() in rig.effects
    assert rig.sender.counters.records_sent == 1


def test_retry_is_sent_before_later_batches() -> None:
    """Batch 1 fails; 2 and 3 wait during the backoff, and are stored in order."""
    rig = ProducerRig()
    rig.put(b"1")
    (first,) = rig.step()
    rig.put(b"2")
    rig.refuse(first, errors.NotEnoughReplicasError.code)
    rig.put(b"3")
    assert rig.step() == [], "backing off"
    assert rig.step(70) == []
    (again,) = rig.step(60)
    assert values_of(again) == [[b"1"]]
    assert rig.step(1000) == [], "muted while it is under way"
    rig.ok(again)
    (rest,) = rig.step()
    assert values_of(rest) == [[b"2", b"3"]]


def test_without_retries_a_partition_is_muted_too() -> None:
    """retries=0: a request could overtake another while a connection opens."""
    rig = ProducerRig(retries=0)
    rig.put(b"1")
    (first,) = rig.step()
    rig.put(b"2")
    assert rig.step() == []
    rig.refuse(first, errors.RequestTimedOutError.code)
    assert isinstance(rig.resolved[0].error, errors.RequestTimedOutError)
    (second,) = rig.step()
    rig.ok(second)
    assert rig.accumulator.used_bytes == 0


def test_a_node_has_at_most_max_in_flight_requests() -> None:
    """Two at a time; the third partition waits for a response."""
    rig = ProducerRig(0, 0, 0, max_in_flight=2)
    sends = []
    for partition in range(3):
        rig.put(b"x", partition)
        sends += rig.step()
    assert len(sends) == 2
    rig.ok(sends[0])
    assert len(rig.step()) == 1


def test_request_size_is_bounded() -> None:
    """Three batches of 900 bytes and max.request.size of 2000: two requests."""
    rig = ProducerRig(0, 0, 0, max_request_bytes=2000, linger_ms=0)
    for partition in range(3):
        rig.put(b"x" * 800, partition)
    assert sorted(len(send.batches) for send in rig.step()) == [1, 2]


def test_missing_leader_causes_a_refresh() -> None:
    """With a leader in the new view the batch is sent."""
    rig = ProducerRig(-1)
    rig.put(b"x")
    assert rig.step() == []
    assert RefreshMetadata() in rig.effects
    rig.view = view_of(1, epoch=1)
    (send,) = rig.step()
    assert send.node_id == 1
    assert send.targets[0].leader_epoch == 1


def test_a_moved_leader_is_followed() -> None:
    """NOT_LEADER with a hint: the metadata is refreshed, the batch retried at the hinted leader."""
    rig = ProducerRig(0)
    rig.put(b"x")
    (send,) = rig.step()
    rig.refuse(send, errors.NotLeaderOrFollowerError.code, leader_id=2, leader_epoch=7)
    assert TakeHint("t", 0, 2, 7) in rig.effects
    assert RefreshMetadata() in rig.effects
    rig.view = rig.view.with_leader("t", 0, 2, 7)
    (again,) = rig.step(200)
    assert (again.node_id, again.targets[0].leader_epoch) == (2, 7)


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7, 13, 19, 56, 74, 75, 89, 100])
def test_retriable_errors_are_retried(code: int) -> None:
    """None of these fails a record before its deadline."""
    rig = ProducerRig()
    rig.put(b"x")
    (send,) = rig.step()
    rig.refuse(send, code)
    assert rig.resolved == []
    (again,) = rig.step(200)
    rig.ok(again)
    assert rig.resolved[0].error is None


@pytest.mark.parametrize("code", [10, 17, 21, 32, 35, 42, 76, 87, -1])
def test_other_errors_fail_only_their_batch(code: int) -> None:
    """The record fails with the server's error; later batches are sent."""
    rig = ProducerRig()
    rig.put(b"bad")
    (send,) = rig.step()
    rig.refuse(send, code, error_detail="because")
    assert rig.resolved[0].error is not None
    assert getattr(rig.resolved[0].error, "code", None) == code
    assert "because" in str(rig.resolved[0].error)
    rig.put(b"good")
    (after,) = rig.step()
    rig.ok(after)
    assert rig.resolved[1].error is None


def test_each_batch_of_a_request_has_its_own_outcome() -> None:
    """The first one of two fails, the second is stored."""
    rig = ProducerRig(0, 0)
    rig.put(b"a", 0)
    rig.put(b"b", 1)
    (send,) = rig.step()
    rig.refuse(send, 0, errors.InvalidRecordError.code)
    assert [type(resolved.error) for resolved in rig.resolved] == [type(None), errors.InvalidRecordError]


def test_retries_are_bounded() -> None:
    """retries=2: three attempts, then the last error."""
    rig = ProducerRig(retries=2)
    rig.put(b"x")
    for _ in range(3):
        (send,) = rig.step(2000)
        rig.lose(send, errors.NetworkError("broken"))
    assert isinstance(rig.resolved[0].error, errors.NetworkError)
    assert send.batches[0].attempts == 3


def test_backoff_grows_with_each_attempt() -> None:
    """About 100, 200, 400 ms, by `next_due_ms`."""
    rig = ProducerRig()
    rig.put(b"x")
    waits = []
    for _ in range(4):
        (send,) = rig.step()
        rig.refuse(send, errors.NotEnoughReplicasError.code)
        due_ms = rig.sender.next_due_ms()
        assert due_ms is not None
        waits.append(due_ms - rig.now_ms)
        rig.now_ms = due_ms
    assert [
        80 <= waits[0] <= 120,
        160 <= waits[1] <= 240,
        320 <= waits[2] <= 480,
        640 <= waits[3] <= 960,
    ] == [True] * 4


def test_batch_expires_at_its_deadline() -> None:
    """No leader for 10 s: DeliveryTimeoutError, and the memory is free."""
    rig = ProducerRig(-1)
    rig.put(b"x")
    rig.step()
    assert rig.sender.next_due_ms() is not None
    rig.step(9_999)
    assert rig.resolved == []
    rig.step(1)
    assert isinstance(rig.resolved[0].error, errors.DeliveryTimeoutError)
    assert rig.accumulator.used_bytes == 0


def test_timeout_has_the_last_error() -> None:
    """As text and cause."""
    rig = ProducerRig()
    rig.put(b"x")
    (send,) = rig.step()
    rig.lose(send, errors.NetworkError("cable cut"))
    rig.view = view_of(-1, epoch=1)
    rig.step(10_000)
    error = rig.resolved[0].error
    assert isinstance(error, errors.DeliveryTimeoutError)
    assert "cable cut" in str(error)
    assert isinstance(error.__cause__, errors.NetworkError)


def test_timeout_without_an_attempt_has_the_reason() -> None:
    """No leader in the metadata; no response to a request; an earlier batch; a failed refresh."""
    rig = ProducerRig(-1, 0, 0)
    for partition in (0, 1):
        rig.put(b"x", partition)
    rig.step()
    rig.put(b"y", 1)
    refused = errors.NetworkError("node0:9000 refused the connection")
    rig.now_ms = 10_000
    effects = rig.sender.poll(rig.view, rig.now_ms, refused)
    texts = [str(effect.error) for effect in effects if isinstance(effect, Resolve)]
    assert "t-0: not acknowledged within 10000 ms and 0 attempts; the leader is unknown" in texts[0]
    assert "names no leader of the partition; the metadata request failed: " in texts[0]
    assert "node0:9000 refused the connection" in texts[0]
    assert "t-1: not acknowledged within 10000 ms and 1 attempts; node 0 has not responded" in texts[1]
    assert "0 attempts; an earlier batch of the partition is not acknowledged" in texts[2]
    gone = rig.view.without_topics(("t",))
    rig.put(b"z", 2)
    rig.sender.poll(gone, rig.now_ms)
    assert rig.sender.oldest_cause().startswith("t-1 waits: ")
    (lost,) = [e for e in rig.sender.poll(gone, rig.now_ms + 10_000) if isinstance(e, Resolve)]
    assert "topic 't' is not in the metadata" in str(lost.error)


@pytest.mark.parametrize("how", ["success", "failure", "refusal"])
def test_batch_that_expires_in_flight_keeps_its_partition_muted(how: str) -> None:
    """The next batch waits until the old request has ended in any way."""
    rig = ProducerRig()
    rig.put(b"old")
    (send,) = rig.step()
    rig.step(10_000)
    assert isinstance(rig.resolved[0].error, errors.DeliveryTimeoutError)
    rig.put(b"new")
    assert rig.step() == []
    assert rig.sender.next_due_ms() == rig.now_ms + 10_000, "an expired batch must not keep waking the sender"
    if how == "success":
        rig.ok(send)
    elif how == "failure":
        rig.lose(send, errors.NetworkError("late"))
    else:
        rig.refuse(send, 7)
    assert len(rig.resolved) == 1, "a batch is resolved once"
    (after,) = rig.step()
    assert values_of(after) == [[b"new"]]


@pytest.mark.parametrize("code", [errors.MessageTooLargeError.code, errors.RecordBatchTooLargeError.code])
def test_too_large_batch_is_split(code: int) -> None:
    """8 records of 500 bytes in one batch: after the error smaller batches, in order, also later on."""
    rig = ProducerRig()
    rig.put(b"first")
    (first,) = rig.step()
    values = [b"%d" % number * 500 for number in range(8)]
    for value in values:
        rig.put(value)
    rig.ok(first)
    (large,) = rig.step()
    assert large.batches[0].count == 8
    rig.refuse(large, code)
    sent: list[bytes | None] = []
    while sends := rig.step():
        assert len(sends[0].batches[0].data or b"") <= large.batches[0].size_bytes // 2
        sent += values_of(sends[0])[0]
        rig.ok(sends[0])
    assert sent == values
    for value in values:
        rig.put(value)
    (later,) = rig.step()
    assert later.batches[0].size_bytes <= large.batches[0].size_bytes // 2
    assert rig.sender.counters.batches_split == 1


def test_a_single_record_that_is_too_large_fails() -> None:
    """It cannot be split."""
    rig = ProducerRig()
    rig.put(b"x" * 900)
    (send,) = rig.step()
    rig.refuse(send, errors.MessageTooLargeError.code)
    assert isinstance(rig.resolved[0].error, errors.MessageTooLargeError)


def test_parts_keep_the_deadline_of_the_whole() -> None:
    """Created at 0, split at 5 s: the parts expire at 10 s."""
    rig = ProducerRig()
    rig.put(b"x" * 300)
    rig.put(b"y" * 300)
    (send,) = rig.step()
    rig.now_ms = 5000
    rig.refuse(send, errors.MessageTooLargeError.code)
    rig.view = view_of(-1, epoch=1)
    rig.step()
    rig.step(5000)
    assert [type(resolved.error) for resolved in rig.resolved] == [errors.DeliveryTimeoutError] * 2


def test_acks_0_is_done_when_sent() -> None:
    """Without response and offset."""
    rig = ProducerRig(acks=0)
    rig.put(b"x")
    (send,) = rig.step()
    rig._sends(rig.sender.on_response(send.request_id, None, 0))
    assert (rig.resolved[0].base_offset, rig.resolved[0].error) == (-1, None)


def test_response_with_a_wrong_count_fails_its_batches() -> None:
    """Two batches, one part in the response: neither is taken as acknowledged."""
    rig = ProducerRig(0, 0)
    rig.put(b"a", 0)
    rig.put(b"b", 1)
    (send,) = rig.step()
    rig._sends(rig.sender.on_response(send.request_id, ProduceResponse(()), 0))
    assert all(isinstance(resolved.error, errors.CorruptMessageError) for resolved in rig.resolved)
    assert len(rig.resolved) == 2


def test_abort_fails_every_batch_once() -> None:
    """Queued and in flight; a late response changes nothing."""
    rig = ProducerRig()
    rig.put(b"a")
    (send,) = rig.step()
    rig.put(b"b")
    rig._sends(rig.sender.abort(errors.ClosedError("closed")))
    assert [type(resolved.error) for resolved in rig.resolved] == [errors.ClosedError] * 2
    rig.ok(send)
    assert len(rig.resolved) == 2


def test_parts_of_a_split_batch_do_not_hold_up_older_deadlines() -> None:
    """Partition 0 has no leader and waits since 0 ms, partition 1 is split at 5,000 ms and then fails on: the
    older batch expires at its own deadline."""
    rig = ProducerRig(-1, 0, delivery_timeout_ms=10_000)
    rig.put(b"old", 0)
    rig.step(5000)
    for _ in range(4):
        rig.put(b"x" * 100, 1)
    (whole,) = rig.step()
    rig.refuse(whole, errors.MessageTooLargeError.code)
    assert rig.sender.next_due_ms() is not None
    rig.step(4999)
    assert not rig.resolved
    rig.step(1)
    assert [effect.batch.queue.partition for effect in rig.resolved] == [0]


def test_learned_size_limit_expires() -> None:
    """max.message.bytes was raised meanwhile: batches grow to their full size again."""
    rig = ProducerRig(0, batch_bytes=2000, delivery_timeout_ms=10_000_000)
    for _ in range(8):
        rig.put(b"x" * 100)
    (whole,) = rig.step()
    rig.refuse(whole, errors.MessageTooLargeError.code)
    while sends := rig.step():
        rig.ok(sends[0])
    limit = rig.topic.max_batch_bytes
    assert limit == whole.batches[0].size_bytes // 2
    for elapsed_ms, parts in ((LEARNED_LIMIT_MS - 1, 3), (1, 1)):
        rig.now_ms += elapsed_ms
        for _ in range(8):
            rig.put(b"x" * 100)
        sizes = []
        while sends := rig.step():
            sizes.append(len(sends[0].batches[0].data))
            rig.ok(sends[0])
        assert len(sizes) == parts
    assert rig.accumulator.used_bytes == 0


@pytest.mark.parametrize("limit", [70, 200, 333, 1000])
def test_splitting_always_ends(limit: int) -> None:
    """The topic takes `limit` bytes; records of all sizes are stored, or rejected as single ones."""
    rig = ProducerRig(0, batch_bytes=5000, max_batch_bytes=20_000)
    random = Random(limit)
    for _ in range(100):
        rig.put(b"x" * random.choice([0, 1, 10, 100, 300]))
    rounds = 0
    while sends := rig.step():
        rounds += 1
        assert rounds < 1000
        for send in sends:
            too_large = len(send.batches[0].data) > limit
            rig.refuse(send, errors.MessageTooLargeError.code) if too_large else rig.ok(send)
    assert rig.accumulator.used_bytes == 0
    assert not rig.accumulator.live
    refused = [effect.batch.count for effect in rig.resolved if effect.error is not None]
    assert all(count == 1 for count in refused)
    assert sum(effect.batch.count for effect in rig.resolved) == 100


def failed_over(rig: ProducerRig, attempts: int) -> None:
    """A batch whose leader, of epoch 0, is gone, after so many attempts."""
    rig.put(b"1")
    (send,) = rig.step()
    for _ in range(attempts - 1):
        rig.lose(send, errors.NetworkError("gone"))
        (send,) = rig.step(2000)
    rig.lose(send, errors.NetworkError("gone"))
    rig.effects.clear()


def test_a_new_leader_ends_the_backoff() -> None:
    """The backoff is a second; a new leader gets the batch at once, without one it waits."""
    rig = ProducerRig(delivery_timeout_ms=100_000)
    failed_over(rig, attempts=6)
    assert rig.step(200) == []
    rig.view = view_of(1, epoch=1)
    (send,) = rig.step()
    assert (send.node_id, send.targets[0].leader_epoch) == (1, 1)
    rig.refuse(send, errors.NotLeaderOrFollowerError.code)
    assert rig.step(200) == [], "this leader is not ready: its epoch is no news any more"


def test_no_refresh_after_the_batch_has_its_outcome() -> None:
    """The old leader took it in the end, or it failed: no refresh is pending."""
    rig = ProducerRig(delivery_timeout_ms=5_000)
    failed_over(rig, attempts=1)
    (send,) = rig.step(150)
    rig.ok(send)
    assert rig.sender.next_due_ms() is None
    failed_over(rig, attempts=1)
    rig.step(6_000)
    rig.step()
    assert rig.sender.next_due_ms() is None


def test_request_timeout_causes_a_refresh() -> None:
    """The leader may have been replaced without knowing it."""
    rig = ProducerRig()
    rig.put(b"1")
    (send,) = rig.step()
    rig.refuse(send, errors.RequestTimedOutError.code)
    assert RefreshMetadata() in rig.effects


def test_abort_does_not_count_expired_batches_again() -> None:
    """They have failed before."""
    rig = ProducerRig(delivery_timeout_ms=100)
    rig.put(b"under way")
    rig.step()
    rig.step(200)
    rig.put(b"waits")
    assert rig.sender.counters.records_failed == 1
    rig._sends(rig.sender.abort(errors.ClosedError("over")))
    assert rig.sender.counters.records_failed == 2
    assert [type(resolve.error) for resolve in rig.resolved] == [
        errors.DeliveryTimeoutError,
        errors.ClosedError,
    ]
