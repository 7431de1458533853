"""Tests of stream/task/restoration.py."""

from __future__ import annotations

from headrace.protocol.model import TopicPartition
from headrace.stream.task.restoration import Restoration
from headrace.stream.testing.topics import StoredRecord

LOG = TopicPartition("app-s-changelog", 3)
SOURCE = TopicPartition("input", 3)


class FakeStore:
    """Remembers the offsets that were restored."""

    def __init__(self, committed: int | None = None) -> None:
        self.committed = committed
        self.restored: list[int] = []

    def committed_offset(self) -> int | None:
        return self.committed

    def restore(self, records: list[StoredRecord]) -> None:
        self.restored += [record.offset for record in records]


def records(*offsets: int) -> list[StoredRecord]:
    return [StoredRecord("", 3, offset, 0, b"k", b"v") for offset in offsets]


def restoration(store: FakeStore, topic: str = LOG.topic) -> Restoration:
    return Restoration(3, {"s": store, "not logged": FakeStore()}, {"s": topic}, ["input"], 1000)


def test_restoring_starts_at_the_offset_of_the_store() -> None:
    """At the beginning without one; stores without changelog have nothing to restore."""
    assert restoration(FakeStore(40)).changelogs[LOG].position == 40
    assert restoration(FakeStore()).changelogs[LOG].position == 0
    assert list(restoration(FakeStore()).changelogs) == [LOG]


def test_positions_decide_when_it_is_done() -> None:
    """The last offsets may be transaction markers, or compacted away: no record comes for them."""
    store = FakeStore()
    one = restoration(store)
    assert not one.is_done, "the end is not known"
    one.use_ends({LOG: 10}, {})
    one.apply(LOG, records(0, 4), position=5)
    assert (one.is_done, one.remaining) == (False, 5)
    one.apply(LOG, [], position=10)
    assert one.is_done
    assert store.restored == [0, 4]


def test_the_position_does_not_pass_the_end() -> None:
    """Records behind it are not restored: those of the next owner of the task, if this one has lost it."""
    store = FakeStore()
    one = restoration(store)
    one.use_ends({LOG: 2}, {})
    one.apply(LOG, records(0, 1, 2, 3), position=4)
    assert store.restored == [0, 1]
    assert (one.is_done, one.changelogs[LOG].position) == (True, 2)


def test_a_deleted_start_moves_the_position() -> None:
    """A changelog of a window store loses its oldest segments."""
    one = restoration(FakeStore())
    one.use_ends({LOG: 10}, {})
    one.use_start(LOG, 10)
    assert one.is_done


def test_an_input_topic_is_restored_up_to_the_committed_offset() -> None:
    """The records behind it are input."""
    store = FakeStore()
    one = restoration(store, "input")
    one.use_ends({SOURCE: 10}, {SOURCE: 2})
    one.apply(SOURCE, records(0, 1, 2, 3), position=4)
    assert store.restored == [0, 1]
    assert one.is_done


def test_records_without_key_are_no_state() -> None:
    """An input topic that serves as changelog of a table may have some; the position moves past them."""
    store = FakeStore()
    one = restoration(store, "input")
    one.use_ends({SOURCE: 3}, {SOURCE: 3})
    unkeyed = StoredRecord("", 3, 1, 0, None, b"v")
    one.apply(SOURCE, [*records(0), unkeyed, *records(2)], position=3)
    assert (store.restored, one.is_done) == ([0, 2], True)


def test_an_input_topic_without_commit_is_not_restored() -> None:
    """A new application."""
    one = restoration(FakeStore(), "input")
    one.use_ends({SOURCE: 10}, {SOURCE: None})
    assert one.is_done


def test_the_time_left_is_estimated() -> None:
    """From the offsets so far; not before the first."""
    one = restoration(FakeStore())
    one.use_ends({LOG: 100}, {})
    assert one.eta_ms(1500) is None
    one.apply(LOG, records(0), position=25)
    assert one.eta_ms(1500) == 1500
