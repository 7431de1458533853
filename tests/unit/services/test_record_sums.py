"""The sums that compare what went in with what came out."""

from headrace.services.record_sums import RecordSum

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v1"), (None, b"v2"), (b"", b""), (b"k", None)]


def sum_of(records: list[tuple[bytes | None, bytes | None]]) -> RecordSum:
    total = RecordSum()
    for key, value in records:
        total.add(key, value)
    return total


def test_order_does_not_matter() -> None:
    """Partitions are read in parallel; the sum is the same."""
    assert sum_of(RECORDS) == sum_of(RECORDS[::-1])


def test_parts_add_up() -> None:
    """The total is the sum of the partitions."""
    assert sum_of(RECORDS[:1]) + sum_of(RECORDS[1:]) == sum_of(RECORDS)


def test_a_lost_and_a_repeated_record_are_seen() -> None:
    """Even with the right count: one lost, another twice. A pair of repeats does not cancel out."""
    assert sum_of([*RECORDS[:3], RECORDS[0]]) != sum_of(RECORDS)
    assert sum_of([*RECORDS, RECORDS[0], RECORDS[0]]).checksum != sum_of(RECORDS).checksum


def test_key_and_value_are_told_apart() -> None:
    """The border between key and value counts, and null is not empty."""
    sums = [sum_of([pair]).checksum for pair in [(b"ab", b"c"), (b"a", b"bc"), (None, b"abc"), (b"", b"abc")]]
    assert len(set(sums)) == 4


def test_the_checksum_does_not_change_between_versions() -> None:
    """A known value: the two sides may be different processes."""
    assert str(sum_of([(b"k", b"v")])) == "1 records, checksum 5d7249051619f480"
