# Made by `python -m headrace.services.sync_clients` from clients/aio/lag_admin_io.py: edit that file.
"""The synchronous admin client's part about consumer lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from ..admin.admin_io import AdminEngine
    from ..admin.admin_types import Results
    from ..admin.lag_types import ConsumerGroupLag

T = TypeVar("T")


class LagAdmin:
    """Base of the admin client."""

    def consumer_group_lag(
        self, *group_ids: str, topics: Iterable[str] | None = None, timeout: float | None = None
    ) -> Results[str, ConsumerGroupLag]:
        """The exact lag of groups of any type, without ids of all: the records that a consumer would still
        receive, counted by the leaders of the partitions, and the age of the first one. With `topics` only in
        these."""
        named = None if topics is None else frozenset(topics)
        return self._run(self._engine.lag.lag(group_ids, named, timeout=timeout))

    # --- inside: see Admin --------------------------------------------------------------------------

    @property
    def _engine(self) -> AdminEngine:
        raise NotImplementedError

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError
