"""Arguments and results of `arrow_batches`, for the synchronous and the asyncio consumer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..consumer.column_builder import ColumnSelection
from .layout import Projection, projection, to_record_batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..consumer.column_builder import ColumnBuilder


class Reading:
    """The arguments of one `arrow_batches`. Errors: TypeError, ValueError for invalid ones."""

    def __init__(self, max_rows: int, timeout: float, columns: Iterable[str] | None) -> None:
        if isinstance(max_rows, bool) or not isinstance(max_rows, int):
            raise TypeError(f"max_rows must be an integer, not {max_rows!r}")
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}")
        self.max_rows, self.timeout_s = max_rows, timeout
        self._projection: Projection = projection(columns)
        has = self._projection.has
        self.wanted = ColumnSelection(has("key"), has("value"), has("headers"))

    def batch(self, builder: ColumnBuilder) -> Any:
        """The collected rows, at least one, as a pyarrow.RecordBatch."""
        return to_record_batch(self._projection, builder.finish(), builder.topics)
