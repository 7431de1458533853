"""Stream-table joins of records by column, in one compiled loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..column_rows import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..column_rows import Rows


class TableLookups:
    """What a run needs of its operator. `row_of`: the row of a key at a time, with its timestamp; `mapper`
    None: the key is that of the record."""

    __slots__ = ("dropped", "is_left", "joiner", "mapper", "row_of")

    def __init__(
        self,
        row_of: Callable[[Any, int], tuple[Any, int] | None],
        mapper: Callable[[Any, Any], Any] | None,
        joiner: Callable[[Any, Any, Any], Any],
        dropped: Callable[[str], None],
        *,
        is_left: bool,
    ) -> None:
        self.row_of, self.mapper, self.joiner = row_of, mapper, joiner
        self.dropped, self.is_left = dropped, is_left

    def joined(self, rows: Rows) -> tuple[Rows, int, Exception | None]:
        """The records of `rows` that have a result, up to the first that fails; its place, and its error."""
        row_of, mapper, joiner, is_left = self.row_of, self.mapper, self.joiner, self.is_left
        results: list[Any] = []
        selectors: list[bool] = []
        failure = None
        try:
            for key, value, timestamp in zip(
                rows.keys.items, rows.values.items, rows.timestamps, strict=True
            ):
                table_key = key if mapper is None else mapper(key, value)
                is_kept = False
                if value is None or (table_key is None and not is_left):
                    self.dropped("null join key or value")
                else:
                    row = None if table_key is None else row_of(table_key, timestamp)
                    is_kept = row is not None or is_left
                    if is_kept:
                        results.append(joiner(key, value, None if row is None else row[0]))
                selectors.append(is_kept)
        except Exception as error:  # noqa: BLE001  # of the user's function; it is raised behind the others
            failure = error
        return rows.kept(selectors)._replace(values=Column(results)), len(selectors), failure
