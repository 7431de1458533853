"""Batches under construction: full, ready, expired, and their memory."""

import itertools
from typing import Any

import pytest
from headrace.clients.producer.accumulator import FIRST_CHARGE_BYTES
from producer_rig import ProducerRig, view_of


def test_batch_is_ready_after_linger() -> None:
    """Two records within 5 ms make one batch; a ms earlier no queue is ready."""
    rig = ProducerRig(linger_ms=5)
    rig.put(b"a")
    assert rig.accumulator.needs_wake, "the sender must learn of the timer"
    assert rig.sender.next_due_ms() == 5
    assert rig.step(4) == []
    rig.put(b"b")
    (send,) = rig.step(1)
    assert send.batches[0].count == 2


def test_full_batch_is_ready_at_once() -> None:
    """batch.size is reached: no linger, and the sender is woken."""
    rig = ProducerRig(linger_ms=1000)
    rig.step()
    rig.put(b"x" * 400)
    rig.step()
    assert not rig.accumulator.needs_wake
    rig.put(b"x" * 700)
    assert rig.accumulator.needs_wake
    (send,) = rig.step()
    assert send.batches[0].count == 2


def test_open_batch_of_a_muted_partition_grows_past_batch_size() -> None:
    """batch.size is 1000, but while one batch is in flight the next one takes 5000 bytes."""
    rig = ProducerRig()
    rig.put(b"first")
    (first,) = rig.step()
    for _ in range(10):
        rig.put(b"x" * 500)
    assert rig.step() == [], "the partition is muted"
    rig.ok(first)
    (second,) = rig.step()
    assert second.batches[0].count == 10
    assert second.batches[0].size_bytes > 5000


def test_a_batch_never_grows_past_its_maximum() -> None:
    """10,000 bytes at most: the 21st record of 500 starts another batch."""
    rig = ProducerRig()
    rig.put(b"first")
    (first,) = rig.step()
    for _ in range(21):
        rig.put(b"x" * 500)
    rig.ok(first)
    (second,) = rig.step()
    assert second.batches[0].size_bytes <= 10_000
    rig.ok(second)
    (third,) = rig.step()
    assert second.batches[0].count + third.batches[0].count == 21


def test_record_larger_than_a_batch_has_its_own() -> None:
    """The first record of a batch is always appended."""
    rig = ProducerRig()
    rig.put(b"small")
    rig.put(b"x" * 20_000)
    (first,) = rig.step()
    rig.ok(first)
    (second,) = rig.step()
    assert (first.batches[0].count, second.batches[0].count) == (1, 1)


def test_memory_is_charged_by_doubling_and_given_back() -> None:
    """A new batch costs 4 KiB or batch.size if that is less, a grown one up to
    twice its size while it is open, a closed one its size, a done one nothing."""
    rig = ProducerRig(batch_bytes=64 * 1024, max_batch_bytes=1 << 20, linger_ms=1000)
    rig.put(b"x")
    assert rig.accumulator.used_bytes == FIRST_CHARGE_BYTES
    rig.put(b"x" * 5000)
    assert 10_000 < rig.accumulator.used_bytes < 10_400, "twice what it holds"
    rig.put(b"x" * 20_000)
    assert 50_000 < rig.accumulator.used_bytes < 51_000
    rig.accumulator.check()
    (send,) = rig.step(1000)
    assert rig.accumulator.used_bytes == send.batches[0].size_bytes, "a batch in flight counts as used memory"
    rig.ok(send)
    assert rig.accumulator.used_bytes == 0


def test_long_run_fills_a_batch_at_once() -> None:
    """100 values of 1000 bytes into a batch of 64 KiB: 65 are appended in one run, not 4, 4, 8, ..."""
    rig = ProducerRig(batch_bytes=64 * 1024, max_batch_bytes=1 << 20, linger_ms=1000)
    assert rig.put_run([b"x" * 1000] * 100) == 65
    rig.accumulator.check()
    (send,) = rig.step()
    assert send.batches[0].count == 65


def test_long_run_of_small_records_is_charged_twice_its_size() -> None:
    """100 values of 50 bytes are not charged as a full batch once they are there, and nor is a run that
    finds no room in the buffer to be charged so."""
    rig = ProducerRig(batch_bytes=64 * 1024, max_batch_bytes=1 << 20, linger_ms=1000)
    assert rig.put_run([b"x" * 50] * 100) == 100
    assert 10_000 < rig.accumulator.used_bytes < 13_000
    rig.accumulator.check()
    rig = ProducerRig(buffer_bytes=5000, batch_bytes=64 * 1024, linger_ms=1000)
    assert rig.put_run([b"x" * 1000] * 100) == 4
    rig.accumulator.check()


def test_leaders_are_cached_by_view() -> None:
    """Partition 1 loses its leader, then has one again: the sticky choice follows."""
    rig = ProducerRig(0, 0)
    rig.step()
    found = rig.accumulator.spread("t")
    assert found is not None
    assert sorted(found[1]) == [0, 1]
    for leader, led in ((-1, [0]), (0, [0, 1])):
        rig.view = view_of(0, leader, epoch=rig.view.metadata_offset)
        rig.step()
        found = rig.accumulator.spread("t")
        assert found is not None
        assert set(found[1]) - {found[1][0]} <= set(led)
        assert set(led) <= set(found[1])


def test_full_buffer_opens_no_batch() -> None:
    """5000 bytes of buffer: the batch that fills it is sealed and sent, then memory is free again."""
    rig = ProducerRig(buffer_bytes=5000, batch_bytes=4000, linger_ms=10_000)
    while rig.put(b"x" * 1000):
        assert rig.accumulator.used_bytes < 7000, "the bound does not hold"
    (send,) = rig.step()
    assert not rig.put(b"y")
    rig.ok(send)
    assert rig.put(b"y")


def test_caller_that_waits_for_memory_ends_lingering() -> None:
    """Partition 1 would linger for 10 s."""
    rig = ProducerRig(0, 0, linger_ms=10_000)
    rig.put(b"x", 1)
    assert rig.step() == []
    rig.accumulator.waiting_for_memory += 1
    rig.accumulator.touch(rig.topic.queues[1], rig.now_ms)
    assert len(rig.step()) == 1


def test_flush_ends_lingering_of_existing_batches() -> None:
    """Both partitions are ready at once; later batches linger again."""
    rig = ProducerRig(0, 0, linger_ms=1000)
    rig.put(b"a", 0)
    rig.put(b"b", 1)
    assert len(rig.accumulator.flush(rig.now_ms)) == 2
    (send,) = rig.step()
    assert len(send.batches) == 2
    rig.ok(send)
    rig.put(b"c", 0)
    assert rig.step() == []


def test_flush_includes_muted_partitions() -> None:
    """The second batch of a partition is sent after the response for the first one, without linger."""
    rig = ProducerRig(linger_ms=1000)
    rig.put(b"a")
    rig.accumulator.flush(0)
    (first,) = rig.step()
    rig.put(b"b")
    rig.accumulator.flush(0)
    assert rig.step() == []
    rig.ok(first)
    assert len(rig.step()) == 1


def test_sticky_moves_when_a_batch_is_full() -> None:
    """Records without keys fill partition after partition, each with about batch.size bytes."""
    rig = ProducerRig(0, 0, 0, 0, linger_ms=1000)
    seen = []
    for _ in range(40):
        queue = rig.accumulator.sticky_queue(rig.topic)
        seen.append(queue.partition)
        rig.put(b"x" * 300, queue.partition)
    changes = sum(before != after for before, after in itertools.pairwise(seen))
    assert 6 <= changes <= 13, seen
    assert len(set(seen)) == 4


def test_sticky_counts_small_batches_too() -> None:
    """Linger seals each batch after 100 bytes: the choice moves after about ten of them, not after one."""
    rig = ProducerRig(0, 0, 0, 0)
    stays: list[int] = []
    for number in range(60):
        queue = rig.accumulator.sticky_queue(rig.topic)
        rig.put(b"%040d" % number, queue.partition)
        stays.append(queue.partition)
        for send in rig.step():
            rig.ok(send)
    changes = sum(before != after for before, after in itertools.pairwise(stays))
    assert 2 <= changes <= 8, stays


def test_sticky_avoids_partitions_without_a_leader() -> None:
    """No record without a key waits for partition 1."""
    rig = ProducerRig(0, -1, 0)
    rig.step()
    for _ in range(100):
        queue = rig.accumulator.sticky_queue(rig.topic)
        assert queue.partition != 1
        rig.put(b"x" * 600, queue.partition)


def test_new_partitions_keep_existing_queues() -> None:
    """The queues and their batches stay."""
    rig = ProducerRig()
    rig.put(b"x")
    topic = rig.accumulator.set_topic("t", 3)
    assert topic is rig.topic
    assert len(topic.queues) == 3
    assert topic.queues[0].batches


def test_topic_recreated_with_fewer_partitions() -> None:
    """New records go to existing partitions; batches of deleted partitions keep their deadlines."""
    rig = ProducerRig(0, 0, 0, delivery_timeout_ms=1000)
    rig.put(b"lost", 2)
    rig.view = view_of(0)
    rig.accumulator.set_topic("t", 1)
    for _ in range(50):
        queue = rig.accumulator.sticky_queue(rig.topic)
        assert queue.partition == 0
        rig.put(b"x" * 900, queue.partition)
    for _ in range(100):
        for send in rig.step():
            rig.ok(send)
    assert len(rig.accumulator.live) == 1
    rig.step(1000)
    assert rig.resolved[-1].error is not None
    assert rig.accumulator.used_bytes == 0


def test_rejected_first_record_leaves_no_empty_batch() -> None:
    """A batch without records could never be built."""
    rig = ProducerRig(linger_ms=100)
    rig.accumulator.open_batch(rig.topic.queues[0], 0)
    rig.accumulator.drop_if_empty(rig.topic.queues[0])
    rig.accumulator.check()
    assert rig.accumulator.used_bytes == 0
    assert rig.step(1000) == []


def test_a_run_of_values_stops_at_thresholds() -> None:
    """`append_run` fills the open batch and gives the next position; no value is lost or appended twice."""
    rig = ProducerRig(linger_ms=1000, batch_bytes=5000, max_batch_bytes=8000)
    queue, values, start = rig.topic.queues[0], [b"%03d" % number * 30 for number in range(200)], 0
    while start < len(values):
        if queue.open is None:
            rig.accumulator.open_batch(queue, 0)

        def join(builder: Any, position: int, stop_bytes: int) -> int:
            return builder.append_values(0, values, position, stop_bytes)

        count = queue.open.builder.count
        first, end = rig.accumulator.append_run(queue, join, start, len(values))
        assert first == count
        assert end >= start
        start = end
    rig.accumulator.check()
    sent: list[bytes | None] = []
    rig.accumulator.flush(0)
    while sends := rig.step():
        from producer_rig import values_of

        sent += values_of(sends[0])[0]
        rig.ok(sends[0])
    assert sent == values


def test_close_all_removes_every_batch() -> None:
    """Queued, open and in flight; all memory is free."""
    rig = ProducerRig(0, 0)
    rig.put(b"a", 0)
    rig.step()
    rig.put(b"b", 1)
    assert len(rig.accumulator.close_all()) == 2
    assert rig.accumulator.used_bytes == 0
    assert rig.sender.next_due_ms() is None


class _Log:
    """Lanes, a slot and a builder that record their calls in order."""

    def __init__(self, builder: Any = None) -> None:
        self.events: list[str] = []
        self.builder = builder

    def add_lane(self, _: str) -> Any:
        return self

    def add_slot(self) -> Any:
        return self

    def set_count(self, partition_count: int) -> None:
        self.events.append(f"count {partition_count}")

    def stick_to(self, partition: int) -> None:
        self.events.append(f"stick to {partition}")

    def open(self, _: Any, __: Any, limit_bytes: int) -> None:
        self.events.append(f"open {limit_bytes}")

    def close(self) -> None:
        self.events.append("close")

    def __getattr__(self, name: str) -> Any:
        self.events.append(name)
        return getattr(self.builder, name)


def logged(**facts: Any) -> tuple[ProducerRig, _Log, _Log]:
    rig, lanes = ProducerRig(**facts), _Log()
    builder = _Log(rig._builder(10_000))
    builder.events = lanes.events
    rig.accumulator._lanes = lanes
    rig.accumulator._new_builder = lambda _: builder
    del rig.accumulator.topics["t"]
    rig.topic = rig.accumulator.set_topic("t", 1)
    return rig, lanes, builder


@pytest.mark.parametrize("how", ["take_first", "expired", "close_all", "append_run"])
def test_slot_is_closed_before_the_count_is_read(how: str) -> None:
    """A record that joined later would have no outcome, or that of another record."""
    rig, lanes, _ = logged(linger_ms=0)
    queue, accumulator = rig.topic.queues[0], rig.accumulator
    rig.put(b"a")
    assert "open 1000" in lanes.events
    lanes.events.clear()
    if how == "append_run":
        accumulator.append_run(queue, lambda *_: 1, 0, 1)
    else:
        arguments = {"take_first": (queue,), "expired": (1 << 60,), "close_all": ()}[how]
        getattr(accumulator, how)(*arguments)
    assert lanes.events[0] == "close"
    assert "count" in lanes.events


def test_slot_is_open_up_to_the_charged_bytes() -> None:
    """From the first record on, and up to each new charge; not once the batch is full."""
    rig, lanes, _ = logged(linger_ms=1000, batch_bytes=10_000, max_batch_bytes=10_000)
    shared = []
    for _ in range(9):
        rig.put(b"x" * 1000)
        shared += [event for event in lanes.events if event.startswith("open")]
        lanes.events.clear()
    assert shared == ["open 4096", "open 8194", "open 10000"]


def test_fewer_partitions_move_the_sticky_choice() -> None:
    """A topic that was recreated: its lane has no sticky partition until the next choice."""
    rig, lanes, _ = logged()
    rig.accumulator.set_topic("t", 3)
    rig.topic.sticky.partition = 2
    lanes.events.clear()
    rig.accumulator.set_topic("t", 1)
    assert lanes.events == ["stick to -1", "count 1"]


def test_sealing_a_batch_wakes_callers_that_wait_for_memory() -> None:
    """An open batch is charged more than its size, a sealed one exactly its size."""
    rig = ProducerRig(linger_ms=1000, batch_bytes=10_000, max_batch_bytes=10_000)
    rig.put(b"x" * 6000)
    rig.step()
    used_bytes = rig.accumulator.used_bytes
    rig.accumulator.waiting_for_memory = 1
    rig.accumulator.needs_wake = False
    queue = rig.topic.queues[0]
    queue.is_muted = True  # closing it makes nothing ready
    rig.accumulator._seal(queue.open)
    assert rig.accumulator.used_bytes < used_bytes
    assert rig.accumulator.needs_wake


def test_has_grown_is_set_by_new_charges() -> None:
    """With a new batch and each new charge, not for every record."""
    rig = ProducerRig(linger_ms=1000, batch_bytes=10_000, max_batch_bytes=10_000)
    paused = []
    for _ in range(9):
        rig.accumulator.has_grown = False
        rig.put(b"x" * 1000)
        paused.append(rig.accumulator.has_grown)
    assert [number for number, grown in enumerate(paused) if grown] == [0, 3, 8]
