"""Splits ranges for more tasks, and limits offsets by rate, in the proportions of Spark's connector. Pure.

Source: Spark KafkaOffsetRangeCalculator.scala, KafkaMicroBatchStream.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.model import TopicPartition
    from .offsets import Offsets
    from .ranges import OffsetRange

_UNKNOWN_BYTES = 1024  # assumed bytes of a row without data


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Non-empty ranges, none longer than `max_records`, and about `min_partitions` of them: large ranges are
    split in proportion to their size, those small enough for one task stay whole.

    Rounding may give one less or a few more than `min_partitions`.
    """
    whole = [each for each in ranges if each.size > 0]
    if max_records is not None:
        whole = [part for each in whole for part in divided(each, -(-each.size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(each.size for each in whole)
    counts = [_share(each.size, total, min_partitions) for each in whole]
    large = [each for each, count in zip(whole, counts, strict=True) if count > 1]
    large_total = sum(each.size for each in large)
    left = max(min_partitions - (len(whole) - len(large)), 1)
    found: list[OffsetRange] = []
    for each, count in zip(whole, counts, strict=True):
        found += divided(each, 1 if count == 1 else _share(each.size, large_total, left))
    return found


def divided(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """A range in `parts` parts of even size, or one per offset; the last ones are longer by one."""
    found, start, left = [], whole.start, whole.size
    parts = min(parts, whole.size)
    for number in range(parts):
        size = left // (parts - number)
        left -= size
        found.append(whole._replace(start=start, end=start + size))
        start += size
    return found


def _share(size: int, total: int, parts: int) -> int:
    # rounded to the nearest integer, halves up
    return max((2 * size * parts + total) // (2 * total), 1)


def rate_limited(limit: int, starts: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
    """Ends about `limit` offsets after their starts, distributed over partitions in proportion to their new
    offsets; a partition with new offsets gets at least one. Ends without a start are unchanged."""
    sizes = {tp: end - starts[tp] for tp, end in ends.items() if tp in starts and end > starts[tp]}
    total = sum(sizes.values())
    if not total:
        return dict(ends)
    found = dict(ends)
    for tp, size in sizes.items():
        share = max(limit * size // total, 1)
        found[tp] = min(ends[tp], starts[tp] + share)
    return found


def offsets_within(
    limit_bytes: int,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    sizes: Mapping[TopicPartition, tuple[int, int]],
) -> int:
    """The approximate number of offsets in between with `limit_bytes` bytes, at least one. `sizes`: (bytes,
    offsets) of whole logs; the average row size of the partition is assumed, or that of all partitions if
    unknown."""
    known_bytes, known_offsets = (sum(each[side] for each in sizes.values()) for side in (0, 1))
    expected_bytes = 0
    for tp, end in ends.items():
        size_bytes, offsets = sizes.get(tp, (known_bytes, known_offsets))
        new = max(end - starts.get(tp, 0), 0)
        expected_bytes += -(-new * (size_bytes if offsets else _UNKNOWN_BYTES) // max(offsets, 1))
    total = new_offsets(starts, ends)
    return total if expected_bytes <= limit_bytes else max(total * limit_bytes // expected_bytes, 1)


def new_offsets(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """The number of offsets in between, over all partitions."""
    return sum(max(end - starts.get(tp, 0), 0) for tp, end in ends.items())
