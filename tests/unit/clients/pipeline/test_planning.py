"""From options and responses to ranges: edges of each kind, new and deleted partitions, lost offsets."""

from datetime import UTC, datetime
from typing import Any

import pytest
from headrace.clients.pipeline import Filters, Loss, OffsetRange, read_options
from headrace.clients.pipeline.commits import COMMITS_TOPIC
from headrace.clients.pipeline.offsets import Position
from headrace.clients.pipeline.planning import (
    Logs,
    Place,
    agrees,
    places_of,
    plan_batch,
    plan_between,
    refuse_another_topic,
    settled,
    subscribed,
    times,
)
from headrace.clients.pipeline.ranges import CREATED_AGAIN
from headrace.clients.pipeline.source_options import Edge, Subscription
from headrace.protocol.errors import ConfigError, DataLossError, UnknownTopicOrPartitionError
from headrace.protocol.messages.data import MetadataResponse, NodeEndpoint, PartitionMetadata, TopicMetadata
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ID = b"i" * 16
PLACES = {tp: Place(ID, 1, 4, ("host1",)) for tp in (T0, T1, T2)}


def options(**given: Any) -> Any:
    return read_options({"subscribe": "t", **given})


def test_preferred_hosts_begin_with_the_leader() -> None:
    """Topics with an error have none; internal topics only if they were named."""
    parts = (PartitionMetadata(0, 2, 7, (1, 2, 3), (1, 2)),)
    answer = MetadataResponse(
        "c",
        0,
        5,
        (NodeEndpoint(1, "one", 1), NodeEndpoint(2, "two", 1)),
        (
            TopicMetadata(0, "t", ID, False, parts),
            TopicMetadata(3, "gone", b"", False, ()),
            TopicMetadata(0, "inner", ID, True, parts),
        ),
    )
    assert places_of(answer, with_internal=False) == {T0: Place(ID, 2, 7, ("two", "one"))}
    assert set(places_of(answer)) == {T0, TopicPartition("inner", 0)}


@pytest.mark.parametrize(
    "subscription",
    [Subscription(topics=("t", "ordres")), Subscription(partitions=(TopicPartition("ordres", 0),))],
)
def test_unknown_topic_error_suggests_the_nearest_one(subscription: Subscription) -> None:
    """As in all other clients."""
    with pytest.raises(UnknownTopicOrPartitionError, match=r"^no topic 'ordres'; did you mean 'orders'\?$"):
        subscribed(subscription, PLACES, known=("orders", "t"))


def test_subscriptions() -> None:
    """Topics by name, partitions by number, patterns by the whole name; named ones must exist."""
    more = {**PLACES, TopicPartition("tt", 0): PLACES[T0], TopicPartition(COMMITS_TOPIC, 0): PLACES[T0]}
    assert set(subscribed(Subscription(topics=("t",)), more)) == {T0, T1, T2}
    assert set(subscribed(Subscription(partitions=(T1,)), more)) == {T1}
    assert {tp.topic for tp in subscribed(Subscription(pattern="t+"), more)} == {"t", "tt"}
    assert {tp.topic for tp in subscribed(Subscription(pattern="t"), more)} == {"t"}
    assert {tp.topic for tp in subscribed(Subscription(pattern=".*"), more)} == {"t", "tt"}
    assert subscribed(Subscription(pattern="x"), more) == {}
    with pytest.raises(UnknownTopicOrPartitionError, match=r"^no topic 'u'$"):
        subscribed(Subscription(topics=("t", "u")), more)
    with pytest.raises(UnknownTopicOrPartitionError, match="t-9"):
        subscribed(Subscription(partitions=(T0, TopicPartition("t", 9))), more)
    assert set(subscribed(Subscription(topics=("t", "u")), more, is_lax=True)) == {T0, T1, T2}
    assert set(subscribed(Subscription(partitions=(T0, TopicPartition("t", 9))), more, is_lax=True)) == {T0}


def test_edges_resolve_to_offsets() -> None:
    """By offset, by -2 and -1, by timestamps, and after the last timestamp."""
    earliest, latest = logs = Logs({T0: 1, T1: 2}, {T0: 10, T1: 20})

    def settle(edge: Edge, by_time: dict[TopicPartition, int], *, or_latest: bool = False) -> Any:
        return settled(edge, by_time, logs, or_latest=or_latest)

    assert settle(Edge("o", offset=-2), {}) == earliest
    assert settle(Edge("o", offset=-1), {}) == latest
    assert settle(Edge("o", offsets={T0: -2, T1: 7}), {}) == {T0: 1, T1: 7}
    assert times(Edge("o", timestamp=5), latest) == {T0: 5, T1: 5}
    assert settle(Edge("o", timestamp=5), {T0: 3, T1: -1}, or_latest=True) == {T0: 3, T1: 20}
    with pytest.raises(ConfigError, match="t-1 has no record from that time"):
        settle(Edge("o", timestamp=5), {T0: 3, T1: -1})


def test_offsets_of_an_edge_must_name_all_partitions() -> None:
    """As in Spark; the error has the missing and the extra partitions."""
    assert times(Edge("o", timestamps={T0: 5, T1: 6}), [T0, T1]) == {T0: 5, T1: 6}
    assert times(Edge("o", offsets={T0: 5, T1: -1}), [T0, T1]) == {}
    with pytest.raises(ConfigError, match="missing: t-1; not read: t-2"):
        times(Edge("o", offsets={T0: 5, T2: 1}), [T0, T1])


def test_a_batch_has_the_ranges_between_its_edges() -> None:
    """With all facts for the task; empty ranges are left out."""
    plan = plan_batch(options(), {T0: 1, T1: 5}, {T0: 4, T1: 5}, Logs({T0: 1, T1: 0}, {T0: 9, T1: 5}), PLACES)
    assert plan.ranges == (OffsetRange("t", 0, 1, 4, ID, 4, 1, ("host1",)),)
    assert (plan.starts, plan.ends, plan.losses) == ({T0: 1, T1: 5}, {T0: 4, T1: 5}, ())


def test_start_behind_the_end_is_empty_inside_the_log() -> None:
    """As when records by time overlap; a start behind the log's end is a loss."""
    plan = plan_batch(options(), {T0: 6}, {T0: 4}, Logs({T0: 0}, {T0: 9}), PLACES)
    assert (plan.ranges, plan.losses) == ((), ())
    with pytest.raises(DataLossError, match="t-0"):
        plan_batch(options(), {T0: 12}, {T0: 9}, Logs({T0: 0}, {T0: 9}), PLACES)


def test_lost_offsets_are_errors_or_counted() -> None:
    """The error has the remedy; without failOnDataLoss the existing records are read."""
    lax = options(failOnDataLoss="false")
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        plan_batch(options(), {T0: 2}, {T0: 9}, Logs({T0: 5}, {T0: 9}), PLACES)
    plan = plan_batch(lax, {T0: 2}, {T0: 9}, Logs({T0: 5}, {T0: 9}), PLACES)
    assert [(each.start, each.end) for each in plan.ranges] == [(5, 9)]
    assert [(loss.tp, loss.start, loss.size) for loss in plan.losses] == [(T0, 2, 3)]
    with pytest.raises(DataLossError, match="log ends at 9 for readers"):
        plan_batch(options(), {T0: 2}, {T0: 11}, Logs({T0: 0}, {T0: 9}), PLACES)
    plan = plan_batch(lax, {T0: 2}, {T0: 11}, Logs({T0: 0}, {T0: 9}), PLACES)
    assert [(each.start, each.end) for each in plan.ranges] == [(2, 9)]


def test_partitions_added_and_deleted_between_micro_batches() -> None:
    """New ones are read from their start; deleted ones, and lost first records of new ones, are losses."""
    lax, both = options(failOnDataLoss="false"), Logs({T0: 0, T1: 0}, {T0: 3, T1: 2})
    plan = plan_between(options(), {T0: 1}, {T0: 3, T1: 2}, both, PLACES)
    assert [(each.partition, each.start, each.end) for each in plan.ranges] == [(0, 1, 3), (1, 0, 2)]
    assert plan.starts == {T0: 1, T1: 0}
    only_one = {T0: PLACES[T0]}
    for start, end, logs, lost in (
        ({T0: 1, T1: 4}, {T0: 3}, Logs({T0: 0}, {T0: 3}), Loss(T1, 4, 4, "the partition is deleted")),
        ({T0: 1, T1: 4}, {T0: 3, T1: 9}, Logs({T0: 0}, {T0: 3}), Loss(T1, 4, 9, "the partition is deleted")),
        ({}, {T0: 3}, Logs({T0: 1}, {T0: 3}), Loss(T0, 0, 1, "its log starts at 1 now")),
        ({T0: 1}, {T0: 3}, Logs({T0: 8}, {T0: 9}), Loss(T0, 1, 3, "its log starts at 8 now")),
        ({T0: 5}, {T0: 8}, Logs({T0: 0}, {T0: 6}), Loss(T0, 6, 8, "its log ends at 6 for readers")),
        ({T0: 5}, {T0: 8}, Logs({T0: 0}, {T0: 3}), Loss(T0, 5, 8, "its log ends at 3 now")),
        # it was cut off, and had grown again before this was planned
        ({T0: 5}, {T0: 3}, Logs({T0: 0}, {T0: 9}), Loss(T0, 5, 3, "its log ends at 3 now")),
    ):
        with pytest.raises(DataLossError, match=str(lost.tp)):
            plan_between(options(), start, end, logs, only_one)
        assert plan_between(lax, start, end, logs, only_one).losses == (lost,)


def test_recreated_topic_between_micro_batches() -> None:
    """An error; or the whole new topic, if the end is of it, and nothing, if the end is of the old one.
    Without an id the topic counts as the same."""
    lax, logs, old = options(failOnDataLoss="false"), Logs({T0: 0}, {T0: 20}), b"o" * 16
    places = {T0: PLACES[T0]}

    def between(wanted: Any, start: bytes | None, end: bytes | None) -> Any:
        sides = (
            Position({T0: offset}, {} if topic_id is None else {"t": topic_id})
            for offset, topic_id in ((5, start), (9, end))
        )
        return plan_between(wanted, *sides, logs, places)

    for start, end in ((old, ID), (old, None), (ID, old), (None, old), (old, old)):
        with pytest.raises(DataLossError, match=r"t-0: .* created again"):
            between(options(), start, end)
    for start, end, ranges, starts, ids, lost in (
        (old, ID, [(0, 9)], {T0: 0}, ID, Loss(T0, 5, 5, CREATED_AGAIN)),
        (old, None, [(0, 9)], {T0: 0}, ID, Loss(T0, 5, 5, CREATED_AGAIN)),
        (ID, old, [], {T0: 5}, old, Loss(T0, 5, 9, CREATED_AGAIN)),
        (None, old, [], {T0: 5}, old, Loss(T0, 5, 9, CREATED_AGAIN)),
    ):
        plan = between(lax, start, end)
        assert [(each.start, each.end, each.topic_id) for each in plan.ranges] == [(*r, ID) for r in ranges]
        assert (plan.starts, plan.ends, plan.losses) == (starts, {T0: 9}, (lost,))
        assert plan.ends.topic_ids == {"t": ids}
    for start, end in ((ID, ID), (None, ID), (ID, None), (None, None)):
        plan = between(options(), start, end)
        assert [(each.start, each.end) for each in plan.ranges] == [(5, 9)]
        assert plan.ends.topic_ids == {"t": ID}


def test_response_of_a_node_with_stale_metadata() -> None:
    """It lacks a partition, or has a topic under an unexpected id."""
    assert agrees(PLACES, Position({T0: 3}, {"t": ID}))
    assert agrees(PLACES, Position({T0: 3}))
    assert agrees({}, Position())
    assert not agrees(PLACES, Position({T0: 3}, {"t": b"o" * 16}))
    assert not agrees({T0: PLACES[T0]}, Position({T0: 3, T1: 3}))


def test_stream_task_fails_for_a_recreated_topic() -> None:
    """Other losses are tolerated."""
    refuse_another_topic(Loss(T0, 3, 5, "its log starts at 5 now"))
    with pytest.raises(DataLossError, match=r"t-0: 2 offsets .* The next plan reads the new topic"):
        refuse_another_topic(Loss(T0, 3, 5, CREATED_AGAIN))


OFFSETS = st.integers(0, 12)


@given(st.none() | OFFSETS, OFFSETS, OFFSETS, OFFSETS, st.booleans())
def test_each_planned_offset_is_read_or_lost(
    start: int | None, end: int, one: int, other: int, is_there: bool
) -> None:
    """Never both; only offsets inside the log are in a range."""
    earliest, latest = min(one, other), max(one, other)
    starts = {} if start is None else {T0: start}
    places = {T0: PLACES[T0]} if is_there else {}
    lax = options(failOnDataLoss="false")
    plan = plan_between(lax, starts, {T0: end}, Logs({T0: earliest}, {T0: latest}), places)
    read = [offset for each in plan.ranges for offset in range(each.start, each.end)]
    lost = [offset for each in plan.losses for offset in range(each.start, each.end)]
    assert sorted(read + lost) == list(range(start or 0, end))
    assert all(earliest <= offset < latest and is_there for offset in read)
    if plan.losses:
        with pytest.raises(DataLossError):
            plan_between(options(), starts, {T0: end}, Logs({T0: earliest}, {T0: latest}), places)


def test_limits_cut_the_ranges_of_a_plan() -> None:
    """minPartitions and maxRecordsPerPartition."""
    wanted = options(minPartitions="3", maxRecordsPerPartition="4")
    plan = plan_between(wanted, {T0: 0}, {T0: 10}, Logs({T0: 0}, {T0: 10}), PLACES)
    assert [(each.start, each.end) for each in plan.ranges] == [(0, 3), (3, 6), (6, 10)]


def test_filters_cut_ranges() -> None:
    """Bounds on offsets move the edges; an excluded partition has no range."""
    whole = OffsetRange("t", 1, 10, 20)
    cut = Filters.of([("offset", ">", 11), ("offset", "<=", 15)]).cut(whole)
    assert cut is not None
    assert (cut.start, cut.end) == (12, 16)
    assert Filters.of([("partition", "in", [0, 2])]).cut(whole) is None
    assert Filters.of([("partition", "=", 1), ("offset", "=", 25)]).cut(whole) is None
    cut = Filters.of([("offset", "in", [3, 18, 12, 40]), ("offset", "<", 30)]).cut(whole)
    assert cut is not None
    assert (cut.start, cut.end) == (12, 19)
    with pytest.raises(ValueError, match="partition, offset, timestamp"):
        Filters.of([("key", "=", 1)])
    with pytest.raises(TypeError, match="needs integers"):
        Filters.of([("offset", "=", "1")])


def test_times_are_exact_in_every_year() -> None:
    """Microseconds since 1970 have more digits than a float."""
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    for time, exact in (
        (last, 253_402_300_799_999_999),
        (datetime(1969, 12, 31, 23, 59, 59, 1, UTC), -999_999),
    ):
        bounds = Filters.of([("timestamp", "=", time)]).timestamp
        assert (bounds.low, bounds.high) == (exact, exact)


@pytest.mark.parametrize("operator", [">", ">=", "=", "<", "<=", "in"])
def test_bounds_fit_into_64_bits(operator: str) -> None:
    """As the columns that they are compared with: no row, or every row, is beyond them."""
    for number in (2**63 - 1, -(2**63)):
        bounds = Filters.of([("offset", operator, [number * 2] if operator == "in" else number * 2)]).offset
        assert bounds.low >= -(2**63)
        assert max(bounds.low, bounds.high) < 2**63
        assert bounds.has(5) is (operator in ("<", "<=") if number > 0 else operator in (">", ">="))
