"""A worker over a cluster in memory, whose stores are queried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.stream.query.local_io import LocalStores, holders_of
from headrace.stream.query.views_io import ReadOnlyKeyValueStore, ViewOptions, view_of
from worker_rig import WorkerRig

if TYPE_CHECKING:
    from pathlib import Path


class QueryRig(WorkerRig):
    """A worker whose stores are queried."""

    def __init__(self, folder: Path, isolation: str = "read_uncommitted", **options: Any) -> None:
        super().__init__(folder, **options)
        self.runs = self.has_recent_response = True
        self.stores = LocalStores(
            lambda: self.plan if self.runs else None,
            lambda: holders_of(self.manager, lambda: self.has_recent_response),
            lambda: None,
            isolation=isolation,
        )

    def view(self, name: str = "store", kind: str | None = None, **options: Any) -> ReadOnlyKeyValueStore:
        found: ReadOnlyKeyValueStore = view_of(self.stores, name, kind, ViewOptions(**options))
        return found

    def ask(self, query: Any, **options: Any) -> Any:
        return self.stores.query("store", query, **options)
