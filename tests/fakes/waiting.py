"""Polls for a condition, up to a deadline."""

import threading
import time
from collections.abc import Callable

PATIENCE_S = 120.0
STEP_S = 0.02


def wait_for(
    is_so: Callable[[], object], what: str, patience_s: float = PATIENCE_S, evidence: Callable[[], str] = str
) -> None:
    """Poll until the condition holds. Fails after `patience_s` with `what` and the evidence."""
    ends_at, never = time.monotonic() + patience_s, threading.Event()
    while not is_so():
        assert time.monotonic() < ends_at, f"not within {patience_s:.0f} s: {what}\n{evidence()}"
        never.wait(STEP_S)
