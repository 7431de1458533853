"""Less work for Spark's Python workers between tasks.

After each thing that it did, a worker that is used again collects garbage, and looks through all that was
ever imported for it: with pandas and pyarrow 35 ms of CPU time, as much as reading half a million rows. It is
never garbage.
"""

from __future__ import annotations

import gc
import os

_REUSED = "SPARK_REUSE_WORKER"  # Spark tells its workers, and nobody else
_is_frozen = False  # a worker that was forked from one that has is


def freeze_imports() -> None:
    """What is there by now no collection looks at again: once per process, in Spark's workers alone. Call it
    when the most is imported."""
    global _is_frozen
    if _is_frozen or not os.environ.get(_REUSED):
        return
    _is_frozen = True
    gc.collect()
    gc.freeze()
