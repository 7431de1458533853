"""The asyncio admin client's part about consumer lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from ...protocol.model import TopicPartition
    from ..admin.admin_io import AdminEngine
    from ..admin.admin_types import Results
    from ..admin.lag_types import ConsumerGroupLag, ConsumerLag

T = TypeVar("T")


class AsyncLagAdmin:
    """Base of the admin client."""

    async def consumer_group_lag(
        self,
        *group_ids: str,
        topics: Iterable[str] | None = None,
        isolation: str = "read_committed",
        timeout: float | None = None,
    ) -> Results[str, ConsumerGroupLag]:
        """The exact lag of groups of any type, without ids of all: the records that a consumer with this
        isolation level would still receive, counted by the leaders of the partitions, and the age of the
        first one. With `topics` only in these. Errors: ConfigError for another isolation level."""
        named = None if topics is None else frozenset(topics)
        return await self._run(self._engine.lag.lag(group_ids, named, isolation=isolation, timeout=timeout))

    async def count_records(
        self,
        offsets: Mapping[TopicPartition, Iterable[int]],
        *,
        isolation: str = "read_committed",
        timeout: float | None = None,
    ) -> Results[TopicPartition, dict[int, ConsumerLag]]:
        """For each partition and each of these offsets, the exact lag of a consumer there: `committed` is the
        offset. Errors: ConfigError for another isolation level."""
        return await self._run(self._engine.lag.count(offsets, isolation=isolation, timeout=timeout))

    # --- inside: see AsyncAdmin --------------------------------------------------------------------------

    @property
    def _engine(self) -> AdminEngine:
        raise NotImplementedError

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError
