"""The console's own log of actions: each change that a user has requested, with its result."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from .decoding import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger("headrace.console.actions")
MOST_ACTIONS = 1_000  # Bound: actions in memory; all of them are logged
_MOST_CHARACTERS = 500


class Action(NamedTuple):
    """One change."""

    at_ms: int
    user: str
    action: str
    target: str
    result: str

    @property
    def is_failed(self) -> bool:
        return self.result != "done"


class ActionLog:
    """The latest actions, newest first."""

    def __init__(self) -> None:
        self._actions: deque[Action] = deque(maxlen=MOST_ACTIONS)

    def add(self, user: str, action: str, target: str, error: str = "") -> None:
        """Record an action, and log it."""
        texts = [visible(text)[:_MOST_CHARACTERS] for text in (user or "-", action, target, error or "done")]
        found = Action(time.time_ns() // 1_000_000, *texts)
        self._actions.appendleft(found)
        log.log(
            logging.WARNING if error else logging.INFO,
            "user %s: %s %s: %s",
            *(found.user, found.action, found.target, found.result),
        )

    def latest(self) -> Sequence[Action]:
        """The actions of this console since it was started."""
        return tuple(self._actions)
