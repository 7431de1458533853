"""Polling for a condition without an event of its own, up to a deadline."""

import threading
import time
from collections.abc import Callable

PATIENCE_S = 120.0
STEP_S = 0.02


def wait_for(
    is_so: Callable[[], object], what: str, patience_s: float = PATIENCE_S, evidence: Callable[[], str] = str
) -> None:
    """Fails after a long while, with what was waited for and the evidence."""
    ends_at, never = time.monotonic() + patience_s, threading.Event()
    while not is_so():
        assert time.monotonic() < ends_at, f"not within {patience_s:.0f} s: {what}\n{evidence()}"
        never.wait(STEP_S)
