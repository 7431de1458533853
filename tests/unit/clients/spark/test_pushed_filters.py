"""Pushed filters of Spark, compared with their meaning row by row; fake classes replace Spark's."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from headrace.clients.pipeline.ranges import OffsetRange
from headrace.clients.spark.pushed_filters import Pushed, pushed
from hypothesis import given
from hypothesis import strategies as st

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Binary:
    attribute: tuple[str, ...]
    value: Any


class EqualTo(Binary): ...


class EqualNullSafe(Binary): ...


class GreaterThan(Binary): ...


class GreaterThanOrEqual(Binary): ...


class LessThan(Binary): ...


class LessThanOrEqual(Binary): ...


class In(Binary): ...


class StringStartsWith(Binary): ...


class StringEndsWith(Binary): ...


class StringContains(Binary): ...


@dataclass(frozen=True)
class IsNotNull:
    attribute: tuple[str, ...]


@dataclass(frozen=True)
class Not:
    child: Any


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    value: bytes | None


MEANING = {
    EqualTo: lambda mine, given: mine == given,
    EqualNullSafe: lambda mine, given: mine == given,
    GreaterThan: lambda mine, given: mine > given,
    GreaterThanOrEqual: lambda mine, given: mine >= given,
    LessThan: lambda mine, given: mine < given,
    LessThanOrEqual: lambda mine, given: mine <= given,
    In: lambda mine, given: mine in given,
    StringStartsWith: lambda mine, given: mine.startswith(given),
    StringEndsWith: lambda mine, given: mine.endswith(given),
    StringContains: lambda mine, given: given in mine,
}


def holds(wanted: Any, row: Row) -> bool:
    """As in SQL: a comparison with null does not hold."""
    if isinstance(wanted, Not):
        return not holds(wanted.child, row)
    mine = getattr(row, wanted.attribute[0])
    if isinstance(wanted, IsNotNull):
        return mine is not None
    if mine is None:
        return False
    return bool(MEANING[type(wanted)](mine, wanted.value))


def takes(taken: Pushed, row: Row) -> bool:
    """Whether a read returns the row."""
    filters = taken.filters
    if not taken.has_topic(row.topic):
        return False
    at = OffsetRange(row.topic, row.partition, row.offset, row.offset + 1)
    if filters.cut(at) is None:
        return False
    if filters.timestamp.is_all:
        return True
    return row.timestamp is not None and filters.timestamp.has(
        (row.timestamp - EPOCH) // timedelta(microseconds=1)
    )


def around(values: st.SearchStrategy[Any], *kinds: type) -> st.SearchStrategy[Any]:
    return st.sampled_from(kinds).flatmap(
        lambda kind: (
            st.lists(values, max_size=3).map(lambda some: (kind, tuple(some)))
            if kind is In
            else values.map(lambda one: (kind, one))
        )
    )


TOPICS = st.sampled_from(["a", "ab", "b", "abc"])
TIMES = st.integers(-5, 5).map(lambda us: EPOCH + timedelta(days=20_000, microseconds=us))
ORDER = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In)
PLAIN = st.one_of(
    st.tuples(
        st.just("topic"),
        around(
            TOPICS | st.just(""), EqualTo, In, GreaterThan, StringStartsWith, StringEndsWith, StringContains
        ),
    ),
    st.tuples(st.just("partition"), around(st.integers(-1, 3), *ORDER)),
    st.tuples(st.just("offset"), around(st.integers(-1, 9), *ORDER)),
    st.tuples(st.just("timestamp"), around(TIMES, *ORDER)),
    st.tuples(st.just("value"), around(st.sampled_from([b"", b"v"]), EqualTo, In)),
).map(lambda found: found[1][0]((found[0],), found[1][1]))
FILTERS = st.one_of(PLAIN, PLAIN.map(Not), st.sampled_from(Row._fields).map(lambda name: IsNotNull((name,))))
ROWS = st.builds(
    Row, TOPICS, st.integers(0, 2), st.integers(0, 8), st.none() | TIMES, st.none() | st.just(b"v")
)


@given(st.lists(FILTERS, max_size=4), st.lists(ROWS, max_size=20))
def test_pushed_and_remaining_filters_select_the_right_rows(filters: list[Any], rows: list[Row]) -> None:
    """Spark applies the filters that are not accepted."""
    taken, left = pushed(filters)
    assert all(any(each is other for other in filters) for each in left)
    found = [row for row in rows if takes(taken, row) and all(holds(each, row) for each in left)]
    assert found == [row for row in rows if all(holds(each, row) for each in filters)]


@given(st.lists(PLAIN.filter(lambda each: each.attribute[0] in ("partition", "offset", "timestamp"))))
def test_filters_on_partition_and_offset_are_accepted(filters: list[Any]) -> None:
    """Every operator."""
    assert pushed(filters)[1] == []


def test_unknown_filters_are_left_to_spark() -> None:
    """Struct fields, values of other types, times without a zone, filters of later versions."""
    left: list[Any] = [
        EqualTo(("headers", "key"), "k"),
        EqualTo(("offset",), 1.5),
        EqualTo(("offset",), True),
        EqualTo(("partition",), None),
        In(("offset",), (1, None)),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001
        GreaterThan(("timestampType",), 0),
        EqualTo(("topic",), b"t"),
        IsNotNull(("timestamp",)),
        IsNotNull(("value",)),
        object(),
    ]
    taken, found = pushed(left)
    assert found == left
    assert taken == Pushed()
