"""Who may read on and begin, when the requests of all connections hold as much as they may."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.services.kafka_listener.memory import PEAK_ELEMENT_BYTES, RequestMemory

LIMIT = 1_000


@dataclass(eq=False)
class Somebody:
    """Fulfils Holder."""

    is_within_frame: bool = False
    is_idle: bool = True

    def go_on_reading(self) -> None:
        raise AssertionError("nobody is called from here")


def memory() -> RequestMemory:
    return RequestMemory(LIMIT)


def test_beyond_the_limit_nobody_reads_on_but_one_that_may_finish() -> None:
    """The first that asks within its frame; the next one when it has finished."""
    held, whole, first, second = memory(), Somebody(), Somebody(True), Somebody(True)
    assert held.count(first, LIMIT + 1, 0), "all others have to be told"
    assert not held.has_room(whole)
    assert held.has_room(first)
    assert not held.has_room(second)
    assert list(held.hungry) == [whole, second]
    assert held.is_in_the_way(first)
    first.is_within_frame = False
    assert not held.count(first, 0, 0)
    assert held.has_room(second)
    held.count(first, -1, 0)
    assert held.has_room(whole)
    assert not held.hungry


def test_frames_that_do_not_come_whole_get_half() -> None:
    """Who has begun one waits; requests that come at once are served beside them."""
    held, slow, other, quick = memory(), Somebody(True), Somebody(True), Somebody()
    assert not held.count(slow, LIMIT // 2, LIMIT // 2)
    assert held.has_room(other)
    assert held.count(slow, 1, 1)
    assert held.has_room(slow), "one of them may finish"
    assert not held.has_room(other)
    assert held.has_room(quick)
    held.count(slow, -1, -1)
    assert held.has_room(other)


def test_a_request_begins_when_there_is_room_for_what_is_made_of_it() -> None:
    """One may begin beyond the limit, and is alone with that until it is answered."""
    held, first, second = memory(), Somebody(), Somebody()
    held.count(Somebody(), 900, 0)
    assert held.may_begin(first, 100)
    assert held.may_begin(first, 101)
    first.is_idle = False
    held.count(first, 101, 0)
    assert not held.may_begin(second, 1)
    assert list(held.hungry) == [second]
    first.is_idle = True
    held.count(first, -101, 0)
    assert held.may_begin(second, 101)
    assert not held.hungry


def test_who_goes_leaves_its_right_to_others() -> None:
    """Nobody waits for one that is gone."""
    held, first, second = memory(), Somebody(True), Somebody(True)
    held.count(Somebody(), 2 * LIMIT, 0)
    assert held.has_room(first)
    assert held.may_begin(first, 1)
    assert not held.has_room(second)
    assert held.gone(first)
    assert held.may_begin(second, 1)
    assert held.has_room(second)
    assert not held.gone(Somebody())


def test_one_request_takes_half_at_most() -> None:
    """At its peak, as measured."""
    assert RequestMemory(20 * PEAK_ELEMENT_BYTES).max_elements == 10
