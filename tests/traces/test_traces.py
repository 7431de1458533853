"""The recorded conversations are those that the cores have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conversations import CONVERSATIONS
from record import HERE, difference, path_of

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LINES = 140  # two or three screens
MAX_COLUMNS = 200


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: each.__name__)
def test_conversation_is_as_recorded(conversation: Callable[[], list[str]]) -> None:
    """A change is reviewed as the difference of the trace: `make traces REWRITE=1` records it."""
    changed = difference(conversation)
    assert not changed, f"{changed}\nif that is meant: make traces REWRITE=1, and review the difference"


def test_each_trace_is_recorded_from_a_conversation() -> None:
    """No file is left of a conversation that is gone; each can be read on a few screens."""
    assert sorted(HERE.glob("*.txt")) == sorted(map(path_of, CONVERSATIONS))
    for path in HERE.glob("*.txt"):
        lines = path.read_text().splitlines()
        assert len(lines) <= MAX_LINES, path
        assert max(map(len, lines)) <= MAX_COLUMNS, path
