"""When a windowed aggregate looks for windows that have closed, to emit each once. Source: EmitStrategy,
KIP-825."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import ProcessorContext

NO_TIMESTAMP = -1


class ClosedWindows:
    """The time up to which closed windows have been emitted. It is kept with the committed offsets."""

    __slots__ = ("_interval_ms", "_keep", "_name", "_next_ms", "_wall_ms", "emitted_to")

    def __init__(self, context: ProcessorContext, store_name: str) -> None:
        self._interval_ms = context.config.window_emit_interval_ms
        self._wall_ms: Callable[[], int] = context.current_system_time_ms
        self._keep = context.keep
        self._name = store_name
        self._next_ms = 0
        kept = context.kept(store_name)
        self.emitted_to = NO_TIMESTAMP if kept is None else kept

    def is_due(self, close_time: int) -> bool:
        """Whether to look now, when windows that end by `close_time` are closed."""
        now = self._wall_ms()
        if now < self._next_ms:
            return False
        self._next_ms = now + self._interval_ms
        return self.emitted_to == NO_TIMESTAMP or self.emitted_to < close_time

    def emitted(self, close_time: int) -> None:
        self.emitted_to = close_time
        self._keep(self._name, close_time)
