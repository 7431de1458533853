"""What a stream has planned: which batch reads what, and the record that keeps it."""

from __future__ import annotations

import pytest
from headrace.clients.pipeline.plans import KEPT, Planned, Plans, decoded, encoded, within
from headrace.clients.pipeline.ranges import Plan
from headrace.protocol.errors import ConfigError, CorruptMessageError, DataLossError
from headrace.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def plan(start: int, end: int, topic_id: bytes = b"id") -> Plan:
    return Plan((), {T0: start}, {T0: end}, topic_ids={"t": topic_id})


def planned(*ends: int) -> Plans:
    """From 0, batches 0, 1, ... with these ends."""
    plans = Plans.beginning({T0: 0})
    for batch, end in enumerate(ends):
        plans = plans.and_then(batch, plan(plans.ends[T0], end))
    return plans


def test_a_batch_that_runs_again_has_the_same_offsets() -> None:
    """A new one starts where the last one ended; numbers may be left out."""
    plans = planned(10, 25)
    assert plans.of(1) == Planned(1, {T0: 10}, {T0: 25})
    assert plans.of(2) is None
    assert plans.ends == {T0: 25}
    later = plans.and_then(7, plan(25, 30))
    assert later.of(7) == Planned(7, {T0: 25}, {T0: 30})
    assert later.of(8) is None


def test_only_the_last_batches_are_kept_and_an_older_checkpoint_is_refused() -> None:
    """It would read, in silence, what was read before or nothing."""
    plans = planned(*range(1, 8))
    assert [each.batch for each in plans.batches] == [6 - back for back in reversed(range(KEPT))]
    with pytest.raises(ConfigError, match="batch 2 is asked for, and batch 6 is planned already"):
        plans.of(2)
    with pytest.raises(ConfigError, match="copy of an earlier time"):
        planned(10).and_then(5, plan(10, 11)).of(3)


def test_a_topic_with_another_id_is_told() -> None:
    """Of those that were read before; a new one is nothing to tell."""
    plans = planned(10)
    assert plans.recreated(plan(10, 20)) == []
    assert plans.recreated(plan(10, 20, b"other")) == ["t"]
    with pytest.raises(DataLossError, match="topic t was created again since batch 0"):
        plans.check_same_topics(plan(10, 20, b"other"))
    assert Plans.beginning({}).recreated(plan(0, 1)) == []
    # from then on it is the one that is known
    assert plans.and_then(1, plan(0, 5, b"other")).recreated(plan(5, 6, b"other")) == []


def test_plans_are_read_as_they_were_written() -> None:
    """Those of a stream without partitions too."""
    for plans in (planned(1, 2, 3, 4), Plans.beginning({}), Plans.beginning({T0: 3, T1: 0})):
        assert decoded(encoded(plans)) == plans


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"form":2,"batches":[],"topics":{}}',
        b'{"form":1,"batches":[],"topics":{}}',
        b'{"form":1,"batches":[[0,"{}"]],"topics":{}}',
        b'{"form":1,"batches":[[0,"x","{}"]],"topics":{}}',
        b'{"form":1,"batches":[[0,"{}","{}"]],"topics":{"t":"zz"}}',
        b'{"form":1,"batches":[[0,"{}","{}"]],"topics":{"t":1}}',
    ],
)
def test_what_is_no_plans_is_an_error(value: bytes) -> None:
    """With what it is."""
    with pytest.raises(CorruptMessageError):
        decoded(value)


def test_ends_do_not_pass_a_bound() -> None:
    """A partition that came after the bound is none of it."""
    assert within({T0: 10, T1: 5}, None) == {T0: 10, T1: 5}
    assert within({T0: 10, T1: 5}, {T0: 7}) == {T0: 7}
    assert within({T0: 10}, {T0: 70, T1: 3}) == {T0: 10}
