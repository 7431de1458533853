"""The values that are sent, and the checksum that a reader must find."""

import zlib

import pytest
from headrace.benchmarks import payload
from headrace.benchmarks.loops.produce import chunks


@pytest.mark.parametrize("size", [100, 1000, 10_000, 100_000])
@pytest.mark.parametrize("is_json", [False, True])
def test_values_have_their_size_and_differ(size: int, is_json: bool) -> None:
    """No value occurs twice."""
    values = payload.pool(size, is_json=is_json)
    assert {len(value) for value in values} == {size}
    assert len(set(values)) == len(values) > 80
    assert values == payload.pool(size, is_json=is_json)


def test_rows_compress_and_random_values_do_not() -> None:
    """About 4:1."""
    random, rows = b"".join(payload.pool(1000)[:100]), b"".join(payload.pool(1000, is_json=True)[:100])
    assert len(zlib.compress(random)) > 0.99 * len(random)
    assert 0.1 * len(rows) < len(zlib.compress(rows)) < 0.5 * len(rows)


@pytest.mark.parametrize("count", [0, 1, 7, 10, 25])
def test_checksum_is_that_of_the_sent_values(count: int) -> None:
    """With those of the warm-up."""
    values = tuple(bytes([number]) * 10 for number in range(10))
    sent = [value for chunk in chunks(values, count) for value in chunk]
    assert len(sent) == count
    assert payload.checksum_of(values, count) == sum(map(zlib.crc32, sent))
    whole = payload.expected(values, count)
    assert whole.count == count + payload.WARM_RECORDS
    assert whole.checksum == payload.checksum_of(values, count) + payload.checksum_of(
        values, payload.WARM_RECORDS
    )
