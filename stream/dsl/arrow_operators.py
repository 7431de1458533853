"""Arrow sections of a stream. Imported when the first one is added: pyarrow is an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processors.arrow_sections import KStreamArrow
from . import stream_operators
from .durations import Duration, to_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from .handles import StreamHandle


def arrow(
    stream: StreamHandle, function: Callable[[Any], Any], batch: int, max_wait: Duration, name: str | None
) -> StreamHandle:
    """What a function of Arrow batches makes. Errors: TypeError, ValueError."""
    if batch < 1:
        raise ValueError(f"batch must be at least 1 row, not {batch}")
    max_wait_ms = to_ms(max_wait, "max_wait")
    if max_wait_ms < 1:
        raise ValueError("max_wait must be at least 1 ms")
    supplier = KStreamArrow(function, batch, max_wait_ms, stream.key, stream.value)
    return stream_operators.new_keys(stream, supplier, name, "KSTREAM-ARROW-")
