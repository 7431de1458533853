"""Comparison of the batches of replicas."""

import pytest
from headrace.protocol.records.codec import pick_codec
from headrace.services.replica_comparison import BatchSum, batch_sums, compare


def sums(*spans: tuple[int, int], crc: int = 7, records: int = 2, epoch: int = 1) -> list[BatchSum]:
    return [BatchSum(first, last, epoch, crc + first, records, False) for first, last in spans]


def test_equal_replicas_are_compared_up_to_the_shorter_one() -> None:
    """The rest is compared with the next responses."""
    step = compare({1: sums((0, 1), (2, 3), (4, 5)), 2: sums((0, 1), (2, 3))}, is_compacted=False)
    assert (step.next_offset, step.batches, step.mismatch) == (4, 2, None)


@pytest.mark.parametrize(
    "other",
    [
        sums((0, 1), (2, 3), crc=8),
        sums((0, 1), (2, 3), epoch=2),
        sums((0, 3)),
        sums((0, 1), (3, 3)),
    ],
    ids=["crc", "epoch", "boundary", "gap"],
)
def test_different_replicas_are_found(other: list[BatchSum]) -> None:
    """The first offset that differs, with the batches of each replica there."""
    step = compare({1: sums((0, 1), (2, 3)), 2: other}, is_compacted=False)
    assert step.mismatch is not None
    assert step.mismatch.batches.keys() == {1, 2}
    assert step.mismatch.offset in (0, 2)


def test_compacted_batches_are_compared_only_where_all_have_all_records() -> None:
    mine = sums((0, 9), records=4) + sums((10, 19))
    other = sums((10, 19))
    assert compare({1: mine, 2: other}, is_compacted=False).mismatch is not None
    step = compare({1: mine, 2: other}, is_compacted=True)
    assert (step.batches, step.mismatch) == (1, None)
    assert compare({1: mine, 2: sums((10, 19), crc=9)}, is_compacted=True).mismatch is not None


def test_sums_are_of_the_bytes_not_of_the_stored_crc() -> None:
    """A flipped bit in a record is found although the batch's header is unchanged."""
    builder = pick_codec("python").builder(max_bytes=1 << 20)
    builder.append(0, None, b"value")
    batch = bytes(builder.build())
    damaged = batch[:-1] + bytes([batch[-1] ^ 1])
    (good,) = batch_sums([batch])
    (bad,) = batch_sums([damaged])
    assert good.crc != bad.crc
    assert not good.has_delete_horizon
