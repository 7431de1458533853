"""The default partitioner: murmur2 with keys, uniform sticky without."""

from collections import Counter
from random import Random

from headrace.clients.producer.partitioner import StickyChoice, murmur2_sticky, positive_hash


def test_the_default_partitioner() -> None:
    """By key; the empty key is a key."""
    assert murmur2_sticky("t", None, 3) is None
    assert murmur2_sticky("t", b"foobar", 3) == (-790332482 & 0x7FFFFFFF) % 3
    assert murmur2_sticky("t", b"", 3) is not None
    assert positive_hash(b"foobar") == -790332482 & 0x7FFFFFFF


def test_sticky_partition_changes_after_batch_size_bytes() -> None:
    """100 bytes: 99 do not suffice, one more does; bytes for other partitions do not count."""
    sticky = StickyChoice(100, Random(3))
    sticky.switch(4, [0, 1, 2, 3], None)
    other = (sticky.partition + 1) % 4
    assert not sticky.produced(sticky.partition, 99)
    assert not sticky.produced(other, 1000)
    assert sticky.produced(sticky.partition, 1)


def test_sticky_is_uniform_over_time() -> None:
    """10,000 stays on 4 partitions: each gets its quarter within 10 %."""
    sticky, random = StickyChoice(1, Random(4)), Counter[int]()
    for _ in range(10_000):
        random[sticky.switch(4, [0, 1, 2, 3], None)] += 1
    assert all(2250 < count < 2750 for count in random.values())


def test_adaptive_prefers_short_queues() -> None:
    """Queues of 0, 3 and 7: weights 8, 5 and 1 of 14 (KIP-794)."""
    sticky, chosen = StickyChoice(1, Random(5)), Counter[int]()
    for _ in range(14_000):
        chosen[sticky.switch(3, [0, 1, 2], [0, 3, 7])] += 1
    assert 7500 < chosen[0] < 8500
    assert 4600 < chosen[1] < 5400
    assert 800 < chosen[2] < 1200


def test_partitions_without_a_leader_are_left_out_while_others_have_one() -> None:
    """1 and 3 have leaders; without any leader each partition may be chosen."""
    sticky = StickyChoice(1, Random(6))
    assert {sticky.switch(4, [1, 3], [0, 0]) for _ in range(100)} == {1, 3}
    assert {sticky.switch(4, [], []) for _ in range(200)} == {0, 1, 2, 3}
