"""Division of ranges and limits, compared with brute force over random plans."""

import math
from fractions import Fraction

from headrace.clients.pipeline.ranges import OffsetRange
from headrace.clients.pipeline.splitting import divided, new_offsets, offsets_within, rate_limited, split
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.integers(0, 2000), min_size=1, max_size=12)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", number, 10 * number, 10 * number + size) for number, size in enumerate(sizes)]


def offsets_in(ranges: list[OffsetRange]) -> list[tuple[int, int]]:
    return sorted((each.partition, offset) for each in ranges for offset in range(each.start, each.end))


@given(SIZES, st.none() | st.integers(1, 60), st.none() | st.integers(1, 500))
def test_every_offset_is_in_one_range(sizes: list[int], least: int | None, most: int | None) -> None:
    """No range is empty or above the limit."""
    whole = ranges_of(sizes)
    cut = split(whole, least, most)
    assert offsets_in(cut) == offsets_in(whole)
    assert all(each.size > 0 for each in cut)
    if most is not None:
        assert all(each.size <= most for each in cut)


def test_more_parts_than_offsets() -> None:
    """One range for each offset."""
    (whole,) = ranges_of([3])
    assert [each.size for each in split([whole], 2**31 - 1, None)] == [1, 1, 1]


@given(SIZES, st.integers(1, 60))
def test_parts_per_range_are_sparks(sizes: list[int], least: int) -> None:
    """Ranges whose rounded share is one stay whole; the other ranges divide the rest in proportion."""
    whole = [each for each in ranges_of(sizes) if each.size]

    def parts(size: int, total: int, count: int) -> int:
        return max(math.floor(Fraction(size * count, total) + Fraction(1, 2)), 1)

    expected: list[int] = []
    if len(whole) >= least:
        expected = [1] * len(whole)
    else:
        total = sum(each.size for each in whole)
        small = [parts(each.size, total, least) == 1 for each in whole]
        rest = sum(each.size for each, is_small in zip(whole, small, strict=True) if not is_small)
        left = max(least - sum(small), 1)
        expected = [
            1 if is_small else parts(each.size, rest, left)
            for each, is_small in zip(whole, small, strict=True)
        ]
    cut = split(whole, least, None)
    found = [sum(part.partition == each.partition for part in cut) for each in whole]
    # a range of fewer offsets than parts has as many as it has offsets
    assert found == [min(count, each.size) for count, each in zip(expected, whole, strict=True)]


def test_large_partition_gets_the_additional_tasks() -> None:
    """Beside small ones."""
    cut = split(ranges_of([1000, 10, 10]), 6, None)
    assert [each.size for each in cut] == [250, 250, 250, 250, 10, 10]


@given(st.integers(1, 300), st.integers(1, 40))
def test_parts_are_even(size: int, parts: int) -> None:
    """Sizes differ by one at most, the larger ones last, and the parts are adjacent."""
    cut = divided(OffsetRange("t", 0, 5, 5 + size), parts)
    sizes = [each.size for each in cut]
    assert len(cut) == min(parts, size)
    assert max(sizes) - min(sizes) <= 1
    assert [each.end for each in cut[:-1]] == [each.start for each in cut[1:]]
    assert (cut[0].start, cut[-1].end) == (5, 5 + size)


@given(SIZES, st.integers(1, 5000))
def test_limit_is_divided_in_proportion(sizes: list[int], limit: int) -> None:
    """Never past the end, and at least one record for each partition that has some."""
    tps = [TopicPartition("t", number) for number in range(len(sizes))]
    starts = dict.fromkeys(tps, 100)
    ends = {tp: 100 + size for tp, size in zip(tps, sizes, strict=True)}
    found = rate_limited(limit, starts, ends)
    total = sum(sizes)
    for tp, size in zip(tps, sizes, strict=True):
        share = found[tp] - 100
        assert 0 <= share <= size
        if size:
            exact = Fraction(limit * size, total)
            assert share == min(size, max(math.floor(exact), 1))
    assert new_offsets(starts, found) <= max(limit, 0) + len(sizes)
    if limit >= total:
        assert found == ends


def test_partitions_without_a_start_keep_their_end() -> None:
    """The planner finds their start or reports the loss."""
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    assert rate_limited(1, {one: 0}, {one: 10, other: 7}) == {one: 1, other: 7}
    assert rate_limited(1, {one: 10}, {one: 10}) == {one: 10}


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 300)), min_size=1, max_size=6),
    st.integers(1, 10**6),
)
def test_byte_limit_uses_the_average_record_size(logs: list[tuple[int, int]], limit: int) -> None:
    """All if they fit; else divided like a limit of records, one at least."""
    tps = [TopicPartition("t", number) for number in range(len(logs))]
    starts = dict.fromkeys(tps, 100)
    ends = {tp: 100 + new for tp, (new, _) in zip(tps, logs, strict=True)}
    sizes = {tp: (1000 * row_bytes, 1000) for tp, (_, row_bytes) in zip(tps, logs, strict=True)}
    total, total_bytes = sum(new for new, _ in logs), sum(new * row_bytes for new, row_bytes in logs)
    found = offsets_within(limit, starts, ends, sizes)
    assert found == (total if total_bytes <= limit else max(total * limit // total_bytes, 1))


def test_log_without_a_size_uses_the_average_of_the_others() -> None:
    """Bounded also if no size is known."""
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    ends = {one: 100, other: 100}
    assert offsets_within(1000, {}, ends, {one: (2000, 100)}) == 200 * 1000 // 4000
    assert offsets_within(10_240, {}, ends, {one: (0, 0)}) == 10
    assert offsets_within(10**9, {}, ends, {}) == 200
