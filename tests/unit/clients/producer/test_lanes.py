"""Lanes: records appended without the lock, which are encoded and charged like others."""

import inspect
from random import Random
from typing import Any

import pytest
from headrace.clients.producer.delivery_io import Delivery
from headrace.clients.producer.lanes import LockedLanes, new_lanes
from headrace.clients.sync.producer_io import Producer
from headrace.protocol.records._batch import CompiledLanes
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.hashing import murmur2

COMPILED = pick_codec("compiled")
DELIVERY = Delivery("t", 0, None)


def lanes_of(
    *limits: int, max_record_bytes: int = 1000, ignore_keys: bool = False, first: Any = 7
) -> tuple[Any, list[Any], Any]:
    """Lanes of topic "t" with one open slot for each limit, their builders, and the lane."""
    lanes = CompiledLanes(max_record_bytes, ignore_keys)
    lane, builders = lanes.add_lane("t"), []
    for limit in limits:
        slot, builder = lane.add_slot(), COMPILED.builder(max_bytes=10_000)
        builder.append(first, None, b"first", ())
        slot.open(builder, DELIVERY, limit)
        builders.append(builder)
    lane.set_count(len(limits))
    return lanes, builders, lane


def test_python_codec_takes_the_lock_for_every_record() -> None:
    """`bind` gives the slow `send` itself."""
    lanes = new_lanes(pick_codec("python"), 1000, False)
    assert isinstance(lanes, LockedLanes)
    lane = lanes.add_lane("t")
    lane.add_slot().open(pick_codec("python").builder(max_bytes=100), DELIVERY, 100)
    lane.add_slot().close()
    lane.set_count(2)
    lane.stick_to(1)
    assert lanes.bind(print) is print
    assert lanes.try_send("t", b"v", None, 0) is None
    lanes.close()


def test_a_record_is_encoded_as_by_the_builder() -> None:
    """The same bytes as by `append` at the same time."""
    random = Random(1)
    lanes, (builder,), _ = lanes_of(9000, max_record_bytes=9000)
    facts = []
    for _ in range(150):
        key = random.choice([None, b"", random.randbytes(random.randrange(200))])
        value = random.choice([None, b"", random.randbytes(random.randrange(200))])
        future = lanes.try_send("t", value, key, 0)
        if future is None:
            break
        facts.append((future._timestamp, key, value))
        assert (future.delivery, future._index) == (DELIVERY, len(facts))
        assert future._key_size == (-1 if key is None else len(key))
        assert future._value_size == (-1 if value is None else len(value))
    twin = pick_codec("python").builder(max_bytes=10_000)
    twin.append(7, None, b"first", ())
    for timestamp, key, value in facts:
        twin.append(timestamp, key, value, ())
    assert len(facts) > 50
    assert builder.size_bytes == twin.size_bytes <= 9000
    assert builder.build() == twin.build()


def test_the_limit_is_kept_to_the_byte() -> None:
    """A record that would exceed it takes the lock; one that fits exactly joins."""
    probe, (builder,), _ = lanes_of(10_000)
    before = builder.size_bytes
    assert probe.try_send("t", b"x" * 50, b"k", 0) is not None
    added = builder.size_bytes - before
    for short, joins in [(0, True), (1, False)]:
        lanes, (builder,), _ = lanes_of(before + added - short)
        assert (lanes.try_send("t", b"x" * 50, b"k", 0) is not None) == joins
        assert builder.count == 1 + joins
    # the builder's own limit holds too
    lanes, (builder,), _ = lanes_of(10**12, max_record_bytes=10**12)
    assert lanes.try_send("t", b"x" * 10_000, None, 0) is None


def test_keys_choose_the_partition() -> None:
    """murmur2 of the key, modulo the partition count."""
    lanes, builders, lane = lanes_of(*[10_000] * 7)
    lane.set_count(5)
    random = Random(2)
    for _ in range(300):
        key = random.randbytes(random.randrange(20))
        before = [builder.count for builder in builders]
        assert lanes.try_send("t", b"v", key, None) is not None
        grown = [number for number, builder in enumerate(builders) if builder.count > before[number]]
        assert grown == [(murmur2(key) & 0x7FFFFFFF) % 5]


def test_records_without_keys_join_the_sticky_partition() -> None:
    """None joins without a sticky partition; keys too when they are ignored."""
    lanes, builders, lane = lanes_of(10_000, 10_000, ignore_keys=True)
    assert lanes.try_send("t", b"v", None, None) is None
    lane.stick_to(1)
    assert lanes.try_send("t", b"v", None, None) is not None
    assert lanes.try_send("t", b"v", b"key", None) is not None
    assert [builder.count for builder in builders] == [1, 3]
    for nowhere in (-1, 2, 99):
        lane.stick_to(nowhere)
        assert lanes.try_send("t", b"v", None, None) is None


class _Sub(bytes):
    pass


@pytest.mark.parametrize(
    ("topic", "value", "key", "partition"),
    [
        ("u", b"v", None, 0),
        (b"t", b"v", None, 0),
        ("t", "text", None, 0),
        ("t", bytearray(b"v"), None, 0),
        ("t", _Sub(b"v"), None, 0),
        ("t", b"v", "text", 0),
        ("t", b"v", _Sub(b"k"), None),
        ("t", b"v", None, -1),
        ("t", b"v", None, 1),
        ("t", b"v", None, 1 << 70),
        ("t", b"v", None, True),
        ("t", b"v", None, "0"),
        ("t", b"v" * 600, b"k" * 500, 0),
        (["t"], b"v", None, 0),
    ],
)
def test_other_records_take_the_lock(topic: Any, value: Any, key: Any, partition: Any) -> None:
    """No record is added, and `send` passes every argument on unchanged."""
    lanes, (builder,), lane = lanes_of(10_000)
    lane.stick_to(0)
    seen: list[Any] = []
    send = lanes.bind(lambda *given, **named: seen.append((given, named)))
    send(topic, value, key=key, partition=partition)
    rest = {"key": key, "partition": partition, "timestamp": None, "headers": ()}
    assert seen == [((topic, value), rest)]
    assert builder.count == 1


def test_given_timestamps_are_encoded_as_by_the_builder() -> None:
    """Earlier and later ones than that of the first record."""
    lanes, (builder,), _ = lanes_of(10_000, first=1000)
    send = lanes.bind(lambda *_, **_named: pytest.fail("the record took the lock"))
    twin = pick_codec("python").builder(max_bytes=10_000)
    twin.append(1000, None, b"first", ())
    for timestamp in (1000, 0, 999, 1_700_000_000_000, 2**62):
        future = send("t", b"v", key=b"k", partition=0, timestamp=timestamp)
        assert future._timestamp == timestamp
        twin.append(timestamp, b"k", b"v", ())
    assert builder.build() == twin.build()


def test_records_with_other_timestamps_or_headers_take_the_lock() -> None:
    """Both are rare; the same without a value."""
    lanes, (builder,), lane = lanes_of(10_000)
    lane.stick_to(0)
    seen: list[Any] = []
    send = lanes.bind(lambda *_, **named: seen.append(named))
    for timestamp in (-1, 1 << 70, True, 5.0, "5"):
        send("t", b"v", timestamp=timestamp)
    assert len(seen) == 5
    seen.clear()
    send("t", b"v", timestamp=-5)
    send("t", b"v", headers=[("a", b"b")])
    send("t", b"v", headers={})
    assert (len(seen), builder.count) == (3, 1)
    send("t")
    assert (len(seen), builder.count) == (3, 2)
    with pytest.raises(TypeError):
        send()
    with pytest.raises(TypeError):
        send("t", b"v", b"k")
    with pytest.raises(TypeError):
        send("t", nonsense=1)


def test_closed_slot_takes_no_record() -> None:
    """Nor does any slot after the lanes were closed."""
    lanes, (builder,), lane = lanes_of(10_000)
    slot = lane.add_slot()
    lane.set_count(2)
    slot.close()
    assert lanes.try_send("t", b"v", None, 1) is None
    lanes.close()
    assert lanes.try_send("t", b"v", None, 0) is None
    assert builder.count == 1


def test_a_slot_is_for_a_batch_with_records() -> None:
    """An empty batch has no base timestamp, and a built one takes no records."""
    slot = CompiledLanes(1000, False).add_lane("t").add_slot()
    builder = COMPILED.builder(max_bytes=100)
    with pytest.raises(ValueError, match="with records"):
        slot.open(builder, DELIVERY, 100)
    builder.append(1, None, b"v", ())
    builder.build()
    with pytest.raises(ValueError, match="not built"):
        slot.open(builder, DELIVERY, 100)
    with pytest.raises(TypeError):
        slot.open(None, DELIVERY, 100)


def test_counts_stay_within_the_slots() -> None:
    """No missing slot is indexed."""
    lane = CompiledLanes(1000, False).add_lane("t")
    lane.add_slot()
    for count in (-1, 2):
        with pytest.raises(ValueError, match="slots"):
            lane.set_count(count)


@pytest.mark.parametrize("first", [-1, 0, (1 << 63) - 1])
def test_any_base_timestamp_is_valid(first: int) -> None:
    """A batch that began with an old or future timestamp takes records of now."""
    lanes, (builder,), _ = lanes_of(10_000, first=first)
    future = lanes.try_send("t", b"v", None, 0)
    records = COMPILED.decode(builder.build())
    assert [record.timestamp for record in records] == [first, future._timestamp]


def test_compiled_send_has_the_same_parameters() -> None:
    """Names and defaults, as `help` and editors show them."""
    lanes, _, _ = lanes_of()
    compiled, readable = inspect.signature(lanes.bind(print)), inspect.signature(Producer.send)
    facts = [(p.name, p.kind, p.default) for p in compiled.parameters.values()]
    assert facts == [(p.name, p.kind, p.default) for p in readable.parameters.values()][1:]


@pytest.mark.parametrize("partition", [None, 1])
def test_run_is_appended_like_single_records(partition: int | None) -> None:
    """The same bytes in each batch, and the place of each record, up to the first that does not fit."""
    random = Random(3)
    keys = [random.randbytes(random.randrange(1, 30)) for _ in range(400)]
    values = [random.choice([None, random.randbytes(random.randrange(50))]) for _ in keys]
    timestamps = [random.randrange(2**40) for _ in keys]
    one_by_one, expected, _ = lanes_of(4000, 5000, 6000)
    together, builders, _ = lanes_of(4000, 5000, 6000)
    send = one_by_one.bind(lambda *_args, **_facts: None)
    places = []
    for key, value, timestamp in list(zip(keys, values, timestamps, strict=True))[3:]:
        future = send("t", value, key=key, partition=partition, timestamp=timestamp)
        if future is None:
            break
        places.append(future._index)
    deliveries, firsts, numbers = together.append_run("t", keys, values, timestamps, partition, 3)
    assert 20 < len(numbers) == len(places) < 397
    assert deliveries == [DELIVERY] * (3 if partition is None else 1)
    following = list(firsts)
    for number, index in zip(numbers, places, strict=True):
        assert following[number] == index
        following[number] += 1
    assert [one.build() for one in builders] == [one.build() for one in expected]


def test_the_records_of_a_run_belong_to_different_deliveries() -> None:
    """Each partition has its own."""
    lanes, builders = CompiledLanes(1000, False), [COMPILED.builder(max_bytes=1000) for _ in range(2)]
    lane, own = lanes.add_lane("t"), [Delivery("t", 0, None), Delivery("t", 1, None)]
    for builder, delivery in zip(builders, own, strict=True):
        builder.append(7, None, b"first", ())
        lane.add_slot().open(builder, delivery, 1000)
    lane.set_count(2)
    keys: list[bytes | None] = [b"%d" % number for number in range(10)]
    deliveries, firsts, numbers = lanes.append_run("t", keys, keys, [8] * 10, None, 0)
    partitions = [(murmur2(key or b"") & 0x7FFFFFFF) % 2 for key in keys]
    assert [deliveries[number] for number in numbers] == [own[partition] for partition in partitions]
    assert list(firsts) == [1, 1]


@pytest.mark.parametrize(
    ("key", "value", "timestamp"),
    [
        (b"k", _Sub(b"v"), 8),
        (_Sub(b"k"), b"v", 8),
        (None, b"v", 8),
        (b"k", b"v", -1),
        (b"k", b"v", 2**63),
        (b"k", b"v", 8.0),
        (b"k", b"x" * 1000, 8),
    ],
)
def test_a_run_ends_before_a_record_that_needs_the_lock(key: Any, value: Any, timestamp: Any) -> None:
    """The records before it have joined."""
    lanes, (builder,), _ = lanes_of(10_000)
    _, _, numbers = lanes.append_run("t", [b"a", key, b"b"], [b"1", value, b"2"], [8, timestamp, 8], None, 0)
    assert list(numbers) == [0]
    assert builder.count == 2


def test_run_without_an_open_batch_is_not_appended() -> None:
    """An unknown topic or partition, a closed slot, keys that are ignored; lists of different lengths."""
    lanes, (builder,), lane = lanes_of(10_000)
    run: Any = ([b"a"], [b"1"], [8])
    assert lanes.append_run("u", *run, None, 0) == ([], (), ())
    for partition in (-1, 1):
        assert lanes.append_run("t", *run, partition, 0) == ([], (), ())
    lane.set_count(0)
    assert lanes.append_run("t", *run, None, 0) == ([], (), ())
    assert LockedLanes().append_run("t", *run, None, 0) == ([], (), ())
    ignoring, _, _ = lanes_of(10_000, ignore_keys=True)
    assert ignoring.append_run("t", *run, None, 0) == ([], (), ())
    closed = CompiledLanes(1000, False)
    slots = closed.add_lane("t")
    slots.add_slot()
    slots.set_count(1)
    assert list(closed.append_run("t", *run, None, 0)[2]) == []
    assert builder.count == 1
    for wrong in (([b"a"], [], [8], 0), ([b"a"], [b"1"], [], 0), ([b"a"], [b"1"], [8], 2)):
        with pytest.raises(ValueError, match="keys"):
            lanes.append_run("t", *wrong[:3], None, wrong[3])
