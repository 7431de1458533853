"""How many records of a task make a turn."""

from __future__ import annotations

from headrace.stream.worker.turn_length import LEAST, MOST, TurnLength

MS = 1_000_000


def test_short_turns_grow_and_long_ones_fall_back() -> None:
    """Up to a bound; one of middle length changes nothing."""
    turn = TurnLength()
    seen = []
    for ms in (1, 1, 10, 1, 1, 1, 10, 21, 1):
        assert turn.ended(turn.records, ms * MS)
        seen.append(turn.records)
    assert seen == [200, 400, 400, 800, MOST, MOST, MOST, LEAST, 200]


def test_turn_with_few_records_does_not_change_the_length() -> None:
    """However long it took: a task without records waits for the next poll."""
    turn = TurnLength()
    assert not turn.ended(LEAST - 1, 1)
    assert not turn.ended(0, 21 * MS)
    assert turn.records == LEAST
