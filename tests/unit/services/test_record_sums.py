"""Checksums that compare the records sent with those read."""

from headrace.services.record_sums import RecordSum

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v1"), (None, b"v2"), (b"", b""), (b"k", None)]


def sum_of(records: list[tuple[bytes | None, bytes | None]]) -> RecordSum:
    total = RecordSum()
    for key, value in records:
        total.add(key, value)
    return total


def test_sum_is_independent_of_order() -> None:
    """Partitions are read in parallel."""
    assert sum_of(RECORDS) == sum_of(RECORDS[::-1])


def test_sums_of_partitions_add_up() -> None:
    """To the sum of the topic."""
    assert sum_of(RECORDS[:1]) + sum_of(RECORDS[1:]) == sum_of(RECORDS)


def test_lost_and_repeated_records_change_the_sum() -> None:
    """Even with an equal count; a pair of repeats does not cancel out."""
    assert sum_of([*RECORDS[:3], RECORDS[0]]) != sum_of(RECORDS)
    assert sum_of([*RECORDS, RECORDS[0], RECORDS[0]]).checksum != sum_of(RECORDS).checksum


def test_border_of_key_and_value_counts() -> None:
    """And null is not empty."""
    sums = [sum_of([pair]).checksum for pair in [(b"ab", b"c"), (b"a", b"bc"), (None, b"abc"), (b"", b"abc")]]
    assert len(set(sums)) == 4


def test_the_checksum_does_not_change_between_versions() -> None:
    """A known value: the two sides may be different processes."""
    assert str(sum_of([(b"k", b"v")])) == "1 records, checksum 5d7249051619f480"
