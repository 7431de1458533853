"""Splitting a batch that was too large."""

from producer_rig import ProducerRig, values_of


def test_parts_hold_all_records_in_order_within_the_limit() -> None:
    """Ten records of 100 bytes into parts of 350: three each."""
    rig = ProducerRig(max_batch_bytes=100_000, batch_bytes=100_000)
    values = [b"%d" % number * 100 for number in range(10)]
    for value in values:
        rig.put(value)
    (send,) = rig.step()
    parts = rig._split(send.batches[0], 400)
    assert [part.count for part in parts] == [3, 3, 3, 1]
    assert all(part.size_bytes <= 400 for part in parts)
    assert not any(part.is_open for part in parts)
    rebuilt: list[bytes | None] = []
    for part in parts:
        assert part.builder is not None
        part.data = part.builder.build()
        rebuilt += values_of(type(send)(0, 0, (part,), ()))[0]
    assert rebuilt == values


def test_a_record_above_the_limit_is_alone() -> None:
    """It cannot be split; its neighbours can still be stored."""
    rig = ProducerRig(max_batch_bytes=100_000, batch_bytes=100_000)
    for value in (b"a", b"x" * 1000, b"b"):
        rig.put(value)
    (send,) = rig.step()
    assert [part.count for part in rig._split(send.batches[0], 200)] == [1, 1, 1]
