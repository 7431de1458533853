"""Rows of lag and their trends."""

from headrace.clients.admin.group_types import GroupDescription, GroupState, GroupType
from headrace.clients.admin.lag_types import ConsumerGroupLag, ConsumerLag
from headrace.protocol.model import TopicPartition
from headrace.services.lag_view import Trends, duration_text, group_row, partition_lines, summary

GROUP = GroupDescription("g", GroupType.CLASSIC, GroupState.EMPTY, "consumer", "", 1, ())
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def lag(**parts: ConsumerLag) -> ConsumerGroupLag:
    return ConsumerGroupLag(GROUP, {FIRST: parts["first"], SECOND: parts["second"]})


def test_unknown_lag_is_no_number() -> None:
    """A partition without a commit does not count for the group."""
    found = lag(first=ConsumerLag(5, 0, 9, 4, 90.0), second=ConsumerLag(None))
    row = group_row(found)
    assert (row["lag"], row["seconds"]) == (4, 90.0)
    assert [part["lag"] for part in row["partitions"]] == [4, None]
    assert (summary(row)["partitions"], summary(row)["seconds"]) == (2, "1.5 min")
    assert [line["seconds"] for line in partition_lines(row)] == ["1.5 min", None]


def test_trend_is_that_between_two_looks() -> None:
    """Rates of each partition, and their sums; a falling lag has a time until it is none."""
    trends = Trends()
    before = lag(first=ConsumerLag(10, 0, 100, 90, 5.0), second=ConsumerLag(0, 0, 20, 20, 5.0))
    (row,) = trends.rows_of([before], 100.0)
    assert (row["trend_s"], row["catch_up"]) == (None, None)
    after = lag(first=ConsumerLag(50, 0, 120, 70, 5.0), second=ConsumerLag(0, 0, 26, 26, 9.0))
    (row,) = trends.rows_of([after], 102.0)
    first, second = row["partitions"]
    assert (first["consumed_s"], first["produced_s"], first["trend_s"], first["catch_up"]) == (20, 10, -10, 7)
    assert (second["consumed_s"], second["produced_s"], second["trend_s"]) == (0, 3, 3)
    assert second["catch_up"] is None
    assert (row["consumed_s"], row["produced_s"], row["trend_s"]) == (20, 13, -7)
    assert row["catch_up"] == round(96 / 7, 1)
    assert summary(row)["catch_up"] == "13.7 s"


def test_partition_whose_leader_did_not_answer_has_no_trend() -> None:
    """Neither then nor at the next look."""
    trends = Trends()
    known, unknown = ConsumerLag(10, 0, 100, 90, 5.0), ConsumerLag(10)
    caught_up = ConsumerLag(100, 0, 100, 0, 0.0)
    trends.rows_of([lag(first=known, second=caught_up)], 1.0)
    trends.rows_of([lag(first=unknown, second=caught_up)], 2.0)
    (row,) = trends.rows_of([lag(first=known, second=caught_up)], 3.0)
    first, second = row["partitions"]
    assert (first["trend_s"], second["trend_s"], second["catch_up"]) == (None, 0, 0)


def test_durations_have_one_unit() -> None:
    texts = [duration_text(seconds) for seconds in (0.04, 59.94, 90, 5_400, 200_000)]
    assert texts == ["0.0 s", "59.9 s", "1.5 min", "1.5 h", "2.3 d"]
