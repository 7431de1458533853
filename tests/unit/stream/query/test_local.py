"""Views and queries of the stores of one instance, over a thread's tasks and a cluster in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.clients.serdes import int64
from headrace.protocol.model import TopicPartition
from headrace.stream import (
    FailureReason,
    InvalidStorePartitionError,
    KeyQuery,
    KeysQuery,
    Position,
    PrefixQuery,
    RangeQuery,
    StoreMigratedError,
    StoreUnavailableError,
    TimestampedKeyQuery,
    UnknownStoreError,
    ValueAndTimestamp,
    VersionedKeyQuery,
    WindowKeyQuery,
    WrongStoreKindError,
)
from headrace.stream.query.views_io import ReadOnlyKeyValueStore
from headrace.stream.records import TaskId
from query_rig import QueryRig
from worker_rig import SOURCE

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (TopicPartition(SOURCE, number) for number in (0, 1))
TASK = TaskId(0, 0)


@pytest.fixture
def rig(tmp_path: Path) -> QueryRig:
    """Two tasks, which have counted a, a, b and c."""
    rig = QueryRig(tmp_path)
    rig.assign(FIRST, SECOND)
    rig.send("a", "a", "b")
    rig.send("c", partition=1)
    rig.work()
    return rig


def test_a_view_reads_all_tasks(rig: QueryRig) -> None:
    """Uncommitted values with at_least_once, by task and key; `partition` chooses one task."""
    view = rig.view()
    assert view.get("a") == ValueAndTimestamp(2, rig.now_ms)
    assert view.get("c").value == 1
    assert view.get("x") is None
    assert rig.view(values_only=True).get("a") == 2
    with view.all() as rows:
        assert [(key, found.value) for key, found in rows] == [("a", 2), ("b", 1), ("c", 1)]
    with rig.view(values_only=True).reverse_range("a", "b") as rows:
        assert list(rows) == [("b", 1), ("a", 2)]
    with view.prefix_scan(b"c") as rows:
        assert [key for key, _ in rows] == ["c"]
    assert view.approximate_num_entries() == 3
    one = rig.view(partition=1)
    assert (one.get("a"), one.get("c").value) == (None, 1)
    with pytest.raises(InvalidStorePartitionError, match="0 to 1"):
        rig.view(partition=2).get("a")


def test_committed_reads(rig: QueryRig) -> None:
    """They see a write when it is committed, and the position of the commit."""
    committed = rig.view(isolation="read_committed")
    assert committed.get("a") is None
    (found,) = rig.ask(KeyQuery("a"), partitions=[0], isolation="read_committed").partitions.values()
    assert (found.value, found.position) == (None, {FIRST: -1})
    rig.manager.commit()
    rig.send("a")
    rig.work()
    assert committed.get("a").value == 2
    assert rig.view().get("a").value == 3
    (found,) = rig.ask(KeyQuery("a"), partitions=[0], isolation="read_committed").partitions.values()
    assert (found.value, found.position) == (2, {FIRST: 2})
    with pytest.raises(ValueError, match="read_committed, read_uncommitted"):
        rig.view(isolation="serializable").get("a")


def test_the_isolation_of_exactly_once(tmp_path: Path) -> None:
    """The application's default; a query may ask for all writes."""
    rig = QueryRig(tmp_path, "read_committed", guarantee="exactly_once_v2")
    rig.assign(FIRST)
    rig.send("a")
    rig.work()
    assert rig.view().get("a") is None
    assert rig.view(isolation="read_uncommitted").get("a").value == 1
    rig.manager.commit()
    assert rig.view().get("a").value == 1


def test_unavailable_stores_raise_errors(rig: QueryRig) -> None:
    """Unknown names, other kinds, tasks that have left, and an instance that does not run."""
    with pytest.raises(UnknownStoreError, match="did you mean 'store'"):
        rig.view("stor")
    with pytest.raises(WrongStoreKindError, match="timestamped key-value store, not 'window'"):
        rig.view(kind="window")
    assert isinstance(rig.view(kind="key_value"), ReadOnlyKeyValueStore)
    view = rig.view()
    rig.revoke(FIRST)
    assert view.get("c").value == 1
    assert view.get("a") is None
    rig.revoke(SECOND)
    with pytest.raises(StoreMigratedError) as migrated:
        view.get("a")
    assert migrated.value.retriable
    rig.runs = False
    with pytest.raises(StoreUnavailableError, match="does not run"):
        view.get("a")


def test_a_store_that_is_being_restored_is_not_shown_as_complete(rig: QueryRig, tmp_path: Path) -> None:
    """Neither by a view nor to require_active; stale reads see what is there."""
    rig.manager.commit()
    other = QueryRig(tmp_path / "other")
    other.cluster.append(other.changelog.topic, b"a", int64.dumps(2), timestamp=1)
    other.assign(FIRST)
    with pytest.raises(StoreUnavailableError, match="not complete yet"):
        other.view().get("a")
    (found,) = other.ask(KeyQuery("a"), require_active=True).partitions.values()
    assert found.failure is FailureReason.NOT_ACTIVE
    assert other.view(stale=True).get("a") is None
    other.work()
    assert other.view().get("a").value == 2


def test_standbys_answer_stale_reads(rig: QueryRig) -> None:
    """A standby is not asked unless `stale`; a query says that it is not active, or not at a bound."""
    rig.revoke(FIRST, SECOND)
    rig.manager.use_roles((), [TASK], ())
    rig.manager.update_standbys(is_idle=True)
    with pytest.raises(StoreMigratedError):
        rig.view().get("a")
    assert rig.view(stale=True).get("a").value == 2
    (found,) = rig.ask(KeyQuery("a")).partitions.values()
    assert found.result() == 2
    (refused,) = rig.ask(KeyQuery("a"), require_active=True).partitions.values()
    assert refused.failure is FailureReason.NOT_ACTIVE
    with pytest.raises(StoreUnavailableError, match="NOT_ACTIVE"):
        refused.result()
    (behind,) = rig.ask(KeyQuery("a"), bound={FIRST: 0}).partitions.values()
    assert behind.failure is FailureReason.NOT_UP_TO_BOUND


def test_queries_by_partition(rig: QueryRig) -> None:
    """A result for each partition, with its position and the reason of a failure."""
    found = rig.ask(KeyQuery("a"))
    assert {number: each.value for number, each in found.partitions.items()} == {0: 2, 1: None}
    assert found.only_result().value == 2
    assert found.position == {FIRST: 2, SECOND: 0}
    assert rig.ask(TimestampedKeyQuery("c")).only_result().value == ValueAndTimestamp(1, rig.now_ms)
    assert rig.ask(KeysQuery(("b", "x", "a")), partitions=[0]).partitions[0].value == [1, None, 2]
    rows = rig.ask(RangeQuery(descending=True), partitions=[0]).only_result().value
    assert list(rows) == [("b", 1), ("a", 2)]
    assert list(rig.ask(PrefixQuery(b"c"), partitions=[1]).only_result().value) == [("c", 1)]
    failures = rig.ask(KeyQuery("a"), partitions=[0, 7]).partitions
    assert failures[7].failure is FailureReason.DOES_NOT_EXIST
    unknown = rig.ask(WindowKeyQuery("a")).partitions[0]
    assert unknown.failure is FailureReason.UNKNOWN_QUERY_TYPE
    assert "does not answer a WindowKeyQuery" in unknown.message
    assert rig.ask(VersionedKeyQuery("a")).partitions[0].failure is FailureReason.UNKNOWN_QUERY_TYPE
    bad_key = rig.ask(KeyQuery(5)).partitions[0]
    assert bad_key.failure is FailureReason.STORE_EXCEPTION
    ranges = rig.ask(RangeQuery())
    with pytest.raises(ValueError, match="2 partitions have a result"):
        ranges.only_result()
    rig.revoke(FIRST)
    assert rig.ask(KeyQuery("a"), partitions=[0]).partitions[0].failure is FailureReason.NOT_PRESENT


def test_position_bound_excludes_stores_behind_it(rig: QueryRig) -> None:
    """A store that has not seen the records says so, and answers once it has."""
    rig.send("a")
    bound = Position({FIRST: 3})
    behind = rig.ask(KeyQuery("a"), partitions=[0], bound=bound).partitions[0]
    assert behind.failure is FailureReason.NOT_UP_TO_BOUND
    assert behind.position == {FIRST: 2}
    other_task = rig.ask(KeyQuery("c"), partitions=[1], bound=bound).partitions[1]
    assert other_task.value == 1
    rig.work()
    reached = rig.ask(KeyQuery("a"), partitions=[0], bound=bound).partitions[0]
    assert (reached.value, reached.position) == (3, {FIRST: 3})


def test_a_committed_position_is_that_of_the_store(tmp_path: Path) -> None:
    """Offsets are committed before the store has the values: its disk is full for one commit."""
    rig = QueryRig(tmp_path, "read_committed", guarantee="exactly_once_v2")
    rig.assign(FIRST)
    rig.send("a")
    rig.work()
    rig.manager.commit()
    rig.send("a")
    rig.work()
    rig.full_disk(1)
    rig.manager.commit()
    assert rig.manager.commits.committed[FIRST].offset == 2
    behind = rig.ask(KeyQuery("a"), partitions=[0], bound={FIRST: 1}).partitions[0]
    assert behind.failure is FailureReason.NOT_UP_TO_BOUND
    rig.manager.commit()
    reached = rig.ask(KeyQuery("a"), partitions=[0], bound={FIRST: 1}).partitions[0]
    assert (reached.value, reached.position) == (2, {FIRST: 1})


def test_a_position_behind_a_restart(rig: QueryRig, tmp_path: Path) -> None:
    """A restored store has seen what was committed."""
    rig.manager.commit()
    rig.revoke(FIRST)
    rig.assign(FIRST)
    rig.work()
    assert rig.ask(KeyQuery("a"), partitions=[0], bound={FIRST: 2}).partitions[0].value == 2


def test_open_iterators_cause_a_warning(rig: QueryRig) -> None:
    """A warning, which is an error in tests, when the instance ends."""
    rows = rig.view().all()
    next(rows)
    with pytest.warns(ResourceWarning, match="3 iterators|2 iterators|1 iterators"):
        rig.stores.warn_of_leaks()
    rows.close()


def test_an_iterator_over_a_task_that_moves(rig: QueryRig) -> None:
    """It fails, and the stores can be closed and opened elsewhere meanwhile."""
    rig.send(*(f"w{number:04}" for number in range(500)))
    rig.work()
    with rig.view().all() as rows:
        next(rows)
        rig.revoke(FIRST)
        with pytest.raises(StoreMigratedError):
            list(rows)
