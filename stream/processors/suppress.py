"""Suppression of changes of a table: they wait in a buffer until their time has come, and newer ones replace
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .binding import BindingSupplier

if TYPE_CHECKING:
    from ..processing import Table

UNBOUNDED = (1 << 63) - 1


class KTableSuppress(BindingSupplier):
    """Buffers changes in `store` and forwards each when stream time has passed its time by `wait_ms`.

    The time of a change is the end of its window if `by_window_end`, else its timestamp. A buffer above
    `max_records` or `max_bytes` forwards its oldest changes if `emit_when_full`; else the task fails.
    """

    def __init__(
        self,
        parent: Table,
        store: Any,
        wait_ms: int,
        *,
        by_window_end: bool = False,
        drop_tombstones: bool = False,
        max_records: int = UNBOUNDED,
        max_bytes: int = UNBOUNDED,
        emit_when_full: bool = False,
    ) -> None:
        self.parent = parent
        self.store = store
        self.wait_ms = wait_ms
        self.by_window_end = by_window_end
        self.drop_tombstones = drop_tombstones
        self.max_records = max_records
        self.max_bytes = max_bytes
        self.emit_when_full = emit_when_full

    def stores(self) -> tuple[Any, ...]:
        return (self.store,)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        return self.parent.enable_sending_old_values(force_materialization)
