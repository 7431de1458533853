"""The plans of a stream: the offsets of each batch, and the record that stores them."""

import pytest
from headrace.clients.pipeline.offsets import Position
from headrace.clients.pipeline.plans import KEPT, Planned, Plans, decoded, encoded, within
from headrace.clients.pipeline.ranges import Plan
from headrace.protocol.errors import ConfigError, CorruptMessageError
from headrace.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int, topic_id: bytes = b"id") -> Position:
    return Position({T0: offset}, {"t": topic_id})


def plan(start: int, end: int) -> Plan:
    return Plan((), at(start), at(end))


def planned(*ends: int) -> Plans:
    """From 0, with these ends of the batches 0, 1, ..."""
    plans = Plans.beginning(at(0))
    for batch, end in enumerate(ends):
        plans = plans.and_then(batch, plan(plans.ends[T0], end))
    return plans


def test_repeated_batch_has_the_same_offsets() -> None:
    """A new one starts at the end of the last one; ids may be left out."""
    plans = planned(10, 25)
    assert plans.of(1) == Planned(1, {T0: 10}, {T0: 25})
    assert plans.of(2) is None
    assert plans.ends == {T0: 25}
    later = plans.and_then(7, plan(25, 30))
    assert later.of(7) == Planned(7, {T0: 25}, {T0: 30})
    assert later.of(8) is None


def test_only_the_last_batches_are_kept_and_an_older_checkpoint_is_refused() -> None:
    """It would read records twice or none, without an error."""
    plans = planned(*range(1, 8))
    assert [each.batch for each in plans.batches] == [6 - back for back in reversed(range(KEPT))]
    with pytest.raises(ConfigError, match="batch 2 was requested, but batch 6 is already planned"):
        plans.of(2)


def test_repeated_id_of_an_empty_batch() -> None:
    """An engine that lost its last checkpoint files may use the id again."""
    plans = planned(10).and_then(5, plan(10, 11))
    assert plans.of(3) == Planned(3, at(10), at(10))
    assert plans.of(0) == Planned(0, at(0), at(10))
    assert plans.of(6) is None


def test_plans_round_trip() -> None:
    """Also of a stream without partitions."""
    for plans in (
        planned(1, 2, 3, 4),
        Plans.beginning(Position()),
        Plans.beginning(Position({T0: 3, T1: 0})),
    ):
        again = decoded(encoded(plans))
        assert again == plans
        assert [each.ends.topic_ids for each in again.batches] == [
            each.ends.topic_ids for each in plans.batches
        ]


def test_plans_of_earlier_releases_are_read() -> None:
    """With topic ids beside all batches."""
    value = b'{"form":1,"batches":[[0,"{}","{\\"t\\":{\\"0\\":5}}"]],"topics":{"t":"6964"}}'
    plans = decoded(value)
    assert plans.batches == (Planned(0, Position(), Position({T0: 5})),)
    assert plans.ends.topic_ids == {"t": b"id"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"form":3,"batches":[],"topics":{}}',
        b'{"form":2,"batches":[]}',
        b'{"form":2,"batches":[[0,"{}","{}"],[1]]}',
        b'{"form":1,"batches":[],"topics":{}}',
        b'{"form":1,"batches":[[0,"{}"]],"topics":{}}',
        b'{"form":1,"batches":[[0,"x","{}"]],"topics":{}}',
        b'{"form":1,"batches":[[0,"{}","{}"]],"topics":{"t":"zz"}}',
        b'{"form":1,"batches":[[0,"{}","{}"]],"topics":{"t":1}}',
    ],
)
def test_invalid_plans_are_errors(value: bytes) -> None:
    """The error has the text."""
    with pytest.raises(CorruptMessageError):
        decoded(value)


def test_ends_do_not_pass_a_bound() -> None:
    """A partition added after the bound is left out, and so is a recreated topic."""
    both = Position({T0: 10, T1: 5}, {"t": b"id"})
    assert within(both, None) is both
    assert within(both, at(7)) == {T0: 7}
    assert within(both, at(7)).topic_ids == {"t": b"id"}
    assert within(both, Position({T0: 70, T1: 3})) == {T0: 10, T1: 3}
    assert within(both, at(7, b"other")) == {}
