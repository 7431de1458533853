"""A logger for messages that a peer can trigger repeatedly; see repeats.py for the limit.

Each server or client has its own, so that none suppresses messages of another.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from .clock_io import monotonic_ms
from .repeats import RepeatedMessages

if TYPE_CHECKING:
    from collections.abc import Callable


class LimitedLog:
    """Logs the first message of each kind at once, and then one per interval. Thread-safe."""

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._logger, self._now_ms = logger, now_ms
        self._messages = RepeatedMessages()
        self._lock = threading.Lock()

    def warning(self, kind: str, text: str, *args: Any) -> None:
        """As logger.warning, unless a message of this kind was logged within the interval. Values that
        identify a client, such as its port, belong in `args`, not in `kind`."""
        self.log(logging.WARNING, kind, text, *args)

    def log(
        self, level: int, kind: str, text: str, *args: Any, exc_info: BaseException | None = None
    ) -> None:
        """As `warning`, with a level of `logging`."""
        now_ms = self._now_ms()
        with self._lock:
            repeats = self._messages.admit(kind, now_ms)
            ended = self._messages.take_ended(now_ms)
        for each in ended:
            self._logger.warning("%s: %s", each.key, each)
        if repeats is None:
            return
        if repeats.suppressed:  # as in logging: without args a % in the text is literal
            text, args = "%s (%s)", (text % args if args else text, repeats)
        self._logger.log(level, text, *args, exc_info=exc_info)
