"""Repeated messages: one per kind and interval, and the number of those that were left out."""

from collections import Counter
from random import Random

import pytest
from headrace.runtime.repeats import RepeatedMessages, Repeats


def test_first_message_is_logged_and_repeats_are_counted() -> None:
    """The next one after the interval has the count."""
    messages = RepeatedMessages(1000)
    assert messages.admit("a", 5000) == Repeats("a", 0, 0)
    assert [messages.admit("a", 5000 + number) for number in range(999)] == [None] * 999
    assert messages.admit("a", 6500) == Repeats("a", 999, 1500)
    assert messages.admit("a", 6501) is None


def test_kinds_are_limited_separately() -> None:
    messages = RepeatedMessages(1000)
    assert messages.admit("a", 0) is not None
    assert messages.admit("b", 1) is not None
    assert messages.admit("a", 2) is None


def test_end_of_a_flood_is_logged_once() -> None:
    """When its interval is over; a kind without repeats is dropped silently."""
    messages = RepeatedMessages(1000)
    for kind in ("a", "b", "a", "a"):
        messages.admit(kind, 0)
    assert messages.take_ended(999) == []
    assert messages.take_ended(1000) == [Repeats("a", 2, 1000)]
    assert messages.take_ended(9000) == []
    assert len(messages) == 0


def test_number_of_kinds_is_bounded() -> None:
    """The kind that was logged longest ago is dropped, and its count is not lost."""
    messages = RepeatedMessages(1000, max_keys=2)
    for kind in ("a", "a", "b", "c"):
        messages.admit(kind, 0)
    assert len(messages) == 2
    assert messages.take_ended(0) == [Repeats("a", 1, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_every_message_is_logged_or_counted_once(seed: int) -> None:
    """Logged messages and counts add up in any order."""
    random = Random(seed)
    messages = RepeatedMessages(100, max_keys=random.choice((2, 50)))
    sent, seen = Counter[str](), Counter[str]()
    now_ms = 0
    for _ in range(2000):
        now_ms += random.choice((0, 1, 30, 200))
        kind = str(random.randrange(5))
        sent[kind] += 1
        repeats = messages.admit(kind, now_ms)
        if repeats is not None:
            seen[kind] += 1 + repeats.suppressed
        for ended in messages.take_ended(now_ms):
            seen[ended.key] += ended.suppressed
    for ended in messages.take_ended(now_ms + 100):
        seen[ended.key] += ended.suppressed
    assert sent == seen


def test_text_has_grouped_digits_and_seconds() -> None:
    assert str(Repeats("a", 12_345, 9_600)) == "repeated 12,345 times in the last 10 s"
