"""Reliable interrupts: Ctrl-C, SIGTERM and SIGHUP all end a command in the same way."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.05


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def interrupts() -> Iterator[None]:
    """While it is active, these signals raise KeyboardInterrupt on the main thread, and it arrives. Call it
    on the main thread.

    Python drops an exception that a signal handler raises inside a destructor and calls sys.unraisablehook:
    from there a timer raises it again a moment later.
    """
    tell = sys.unraisablehook

    def dropped(news: Any) -> None:
        if isinstance(news.exc_value, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            tell(news)

    # ignored signals stay ignored: nohup, and background jobs of a shell
    not_ignored = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, _interrupt) for number in (*not_ignored, signal.SIGALRM)}
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = tell
        for number, handler in handlers.items():
            signal.signal(number, handler)
