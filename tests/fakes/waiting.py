"""Polls for a condition, up to a deadline."""

import threading
import time
from collections.abc import Callable

PATIENCE_S = 120.0
STEP_S, LONGEST_STEP_S = 0.02, 0.25
STEPS = 20  # the next step is as long as the whole wait so far, divided by this


def wait_for(
    is_so: Callable[[], object], what: str, patience_s: float = PATIENCE_S, evidence: Callable[[], str] = str
) -> None:
    """Poll until the condition holds. Fails after `patience_s` with `what` and the evidence.

    The steps become longer with the wait, and are as long as the condition takes: on a busy machine a query
    of servers in each short step would delay what it waits for.
    """
    began_at, never = time.monotonic(), threading.Event()
    asked_at = began_at
    while not is_so():
        now = time.monotonic()
        assert now < began_at + patience_s, f"not within {patience_s:.0f} s: {what}\n{evidence()}"
        step_s = max(STEP_S, now - asked_at, (now - began_at) / STEPS)
        never.wait(min(step_s, LONGEST_STEP_S))
        asked_at = time.monotonic()
