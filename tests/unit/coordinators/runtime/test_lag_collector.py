"""The rounds in which a node counts the lag of its groups: requests to leaders, kept and dropped counts."""

from typing import Any

import pytest
from coordinator_rig import TOPIC_ID, WALL_SHIFT_MS, CoordinatorRig
from headrace.coordinators.runtime.lag_collector import FIRST_ROUND_MS, STEP_OFFSETS
from headrace.coordinators.runtime.lag_figures import LagFigures
from headrace.protocol.errors import NetworkError
from headrace.protocol.messages.lag import (
    CountRecordsPartition,
    CountRecordsPartitionResponse,
    CountRecordsRequest,
    CountRecordsResponse,
    RecordCount,
)
from headrace.protocol.messages.registry import COUNT_RECORDS
from headrace.protocol.metadata.image import PartitionRegistration, TopicImage
from headrace.protocol.model import TopicPartition
from headrace.runtime.telemetry.coordinator_table import (
    LAG,
    LAG_LEFT_OUT,
    LAG_SECONDS,
    LAG_SECONDS_MAX,
    LAG_SUM,
)
from headrace.runtime.telemetry.samples import Samples

READ_ID, INTERVAL_MS = b"t" * 16, 1_000
LEADER = 2


@pytest.fixture
def rig() -> CoordinatorRig:
    """Groups of the test commit in partition t-0, which node 2 leads."""
    made = CoordinatorRig(**{"group.lag.interval.ms": INTERVAL_MS})
    put_topic(made)
    made.lead()
    return made


def put_topic(rig: CoordinatorRig, leader: int = LEADER) -> None:
    part = PartitionRegistration((LEADER,), (LEADER,), leader, 0, 0)
    rig.host.image.topics["t"] = TopicImage("t", READ_ID, (part,))


def asked(rig: CoordinatorRig) -> list[Any]:
    """The pending CountRecords requests."""
    return [each for each in rig.host.asked if each[1] is COUNT_RECORDS]


def answer(rig: CoordinatorRig, end: int = 10) -> int:
    """Answer the pending requests: each offset below `end` has a record, of 2 s before; the number."""
    pending = asked(rig)
    for each in pending:
        rig.host.asked.remove(each)
        _, _, body, _, answered = each
        wall_ms = rig.host.now_ms + WALL_SHIFT_MS
        parts = tuple(
            CountRecordsPartitionResponse(
                0, 0, end, tuple(RecordCount(max(end - at, 0), wall_ms - 2_000) for at in part.offsets)
            )
            for part in body.partitions
        )
        answered(CountRecordsResponse(parts, wall_ms), rig.host.at())
    return len(pending)


def lags(rig: CoordinatorRig) -> Any:
    return rig.all.status()["consumer_lag"]


def test_leaders_are_asked_once_per_interval(rig: CoordinatorRig) -> None:
    """One request for all groups; the figures are those of the last round."""
    rig.set(3, "slow")
    rig.set(9, "fast")
    rig.pass_time(INTERVAL_MS - 1)
    assert not asked(rig)
    rig.pass_time(1)
    ((node_id, _, body, _, _),) = asked(rig)
    assert node_id == LEADER
    assert body == CountRecordsRequest((CountRecordsPartition(READ_ID, 0, (3, 9)),))
    assert lags(rig) == {}
    rig.pass_time(10 * INTERVAL_MS)
    assert answer(rig) == 1, "the next round begins after the end of this one"
    assert lags(rig) == {"slow": {"t-0": 7}, "fast": {"t-0": 1}}
    rig.set(10, "slow")
    rig.pass_time(INTERVAL_MS)
    answer(rig)
    assert lags(rig) == {"slow": {"t-0": 0}, "fast": {"t-0": 1}}


def test_many_groups_take_several_requests(rig: CoordinatorRig) -> None:
    """One after the other: a round never has more than one request at a leader."""
    count = 8 * STEP_OFFSETS + 5
    for number in range(count):
        rig.set(1, f"g{number}")
    rig.pass_time(INTERVAL_MS)
    sizes = []
    while pending := asked(rig):
        ((_, _, body, _, _),) = pending
        sizes.append(sum(len(part.offsets) for part in body.partitions))
        assert lags(rig) == {}
        answer(rig)
    assert sizes == [STEP_OFFSETS] * 8 + [5]
    assert rig.all.lag_figures.left_out == 2 * (count - 2_000)


def test_unanswered_partitions_are_left_out_of_a_round(rig: CoordinatorRig) -> None:
    """An error, or no leader; the rounds go on."""
    rig.set(3)
    rig.pass_time(INTERVAL_MS)
    answer(rig)
    assert lags(rig) == {"g": {"t-0": 7}}
    rig.pass_time(INTERVAL_MS)
    ((_, _, _, _, answered),) = asked(rig)
    rig.host.asked.clear()
    answered(NetworkError("gone"), rig.host.at())
    assert lags(rig) == {}
    put_topic(rig, leader=-1)
    rig.pass_time(2 * INTERVAL_MS)
    assert not asked(rig)
    put_topic(rig)
    rig.pass_time(2 * INTERVAL_MS)
    assert answer(rig) == 1
    assert lags(rig) == {"g": {"t-0": 7}}


def test_groups_of_another_coordinator_are_dropped(rig: CoordinatorRig) -> None:
    """At once, and also if they were being counted when leadership moved."""
    rig.set(3)
    rig.pass_time(INTERVAL_MS)
    answer(rig)
    rig.pass_time(INTERVAL_MS)
    rig.all.resigned((TOPIC_ID, 0))
    assert lags(rig) == {}
    answer(rig)
    assert lags(rig) == {}
    rig.pass_time(5 * INTERVAL_MS)
    assert not asked(rig)
    rig.lead(epoch=1)
    rig.load()
    rig.set(3)
    rig.pass_time(INTERVAL_MS)
    answer(rig)
    assert lags(rig) == {"g": {"t-0": 7}}


def test_first_round_of_a_new_coordinator_comes_soon() -> None:
    """Groups that moved are not without figures for an interval."""
    rig = CoordinatorRig(partitions=2, **{"group.lag.interval.ms": 60_000})
    put_topic(rig)
    rig.lead(0)
    for number in range(10):  # some of them are in this partition
        rig.set(3, f"g{number}")
    rig.pass_time(FIRST_ROUND_MS)
    assert answer(rig) == 1
    rig.pass_time(10_000)
    assert not asked(rig)
    rig.lead(1)
    rig.pass_time(FIRST_ROUND_MS)
    assert answer(rig) == 1
    rig.pass_time(59_999)
    assert not asked(rig)
    rig.pass_time(1)
    assert len(asked(rig)) == 1


def test_interval_zero_counts_nothing() -> None:
    rig = CoordinatorRig(**{"group.lag.interval.ms": 0})
    put_topic(rig)
    rig.lead()
    rig.set(3)
    rig.pass_time(60_000)
    assert not asked(rig)


def test_figures_are_those_with_the_largest_lag() -> None:
    """Of groups and of partitions, each up to the limit; the sum and the largest age of each group."""
    figures = LagFigures(2)
    key = (TOPIC_ID, 0)
    for name, lag in (("a", 5), ("b", 1), ("c", 9), ("d", 0)):
        figures.add(key, name, {TopicPartition("t", 0): (lag, lag * 1.0), TopicPartition("t", 1): (0, 0.5)})
    assert sorted(figures.groups) == [(5, 5.0, "a", key), (9, 9.0, "c", key)]
    assert sorted(figures.partitions) == [(5, 5.0, "a", "t", 0, key), (9, 9.0, "c", "t", 0, key)]
    assert figures.left_out == 2 + 6
    samples = Samples()
    assert len(list(figures.pieces(samples))) == 0
    samples.check()
    assert samples.get(LAG, "c", "t", "0") == 9
    assert samples.get(LAG_SECONDS, "a", "t", "0") == 5.0
    assert (samples.get(LAG_SUM, "c"), samples.get(LAG_SECONDS_MAX, "c")) == (9, 9.0)
    assert samples.get(LAG_LEFT_OUT) == 8
    figures.drop(key)
    assert figures.groups == figures.partitions == []
