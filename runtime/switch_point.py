"""Points at which the interpreter may switch threads.

CPython takes the GIL away from a thread at the start of an interpreted function and at the end of each round
of an interpreted loop. Loops of compiled modules have neither: one over all entries of a commit would keep
the GIL for a tenth of a second, and queries and heartbeats would wait. Pure.
"""

from __future__ import annotations

ROUNDS = 64
"""Of a compiled loop between two points: some dozens of microseconds."""


def switch_point() -> None:
    """Another thread that waits for the GIL may run. This module must not be compiled."""
