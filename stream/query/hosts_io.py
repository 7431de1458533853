"""Sources of the host table of an application."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import GroupIdNotFoundError
from ...protocol.model import TopicPartition
from ..errors import StreamsError
from ..watch.application import topics_of
from .hosts import table_of_group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.admin.lag_types import ConsumerLag
    from ...clients.admin.streams_groups import StreamsGroupDescription
    from ...clients.sync.admin_io import Admin
    from ..watch.application import Committed
    from .hosts import HostTable

    Group = tuple[StreamsGroupDescription, Committed]


class Hosts(Protocol):
    """The instances of an application."""

    def table(self) -> HostTable:
        """The current table; cheap."""

    def refresh(self, timeout_s: float) -> None:
        """Refresh the table; may wait. Errors: HeadraceError."""

    def group(self, timeout_s: float) -> Group:
        """The description of the streams group, and its committed offsets in all of its input partitions.
        Errors: StreamsError if there is no such group; HeadraceError."""

    def lags(
        self, positions: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, ConsumerLag]:
        """The lag at these offsets, of the partitions whose leaders count. Errors: HeadraceError."""

    def close(self) -> None:
        """Release connections."""


class KnownHosts:
    """A host table that the caller keeps up to date, such as a fixed one."""

    def __init__(self, table: Callable[[], HostTable]) -> None:
        self.table = table

    def refresh(self, timeout_s: float) -> None:
        """Do nothing: the caller keeps the table up to date."""

    def group(self, timeout_s: float) -> Group:
        """Errors: StreamsError, always."""
        raise StreamsError("the group of a fixed table of instances is not known")

    def lags(
        self, positions: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, ConsumerLag]:
        """Errors: StreamsError, always."""
        raise StreamsError("the lag of a fixed table of instances is not known")

    def close(self) -> None:
        """Nothing to close."""


class GroupHosts:
    """A host table from the description of the application's streams group."""

    def __init__(self, application_id: str, admin: Admin) -> None:
        """`admin` is closed with it."""
        self._group = application_id
        self._admin = admin
        self._lock = threading.Lock()
        self._table: HostTable = {}

    def table(self) -> HostTable:
        return self._table

    def refresh(self, timeout_s: float) -> None:
        """Errors: StreamsError if there is no such group, or no member has an endpoint; HeadraceError."""
        with self._lock:
            group = self._described(timeout_s)
            self._table = table_of_group(group)
            if group.members and not self._table:
                raise StreamsError(f"the instances of application {self._group!r} have no application.server")

    def _described(self, timeout_s: float) -> StreamsGroupDescription:
        found = self._admin.describe_streams_groups(self._group, timeout=timeout_s)
        error = found.errors.get(self._group)
        if isinstance(error, GroupIdNotFoundError):
            raise StreamsError(f"no instance of application {self._group!r} runs") from error
        if error is not None:
            raise error
        return found[self._group]

    def group(self, timeout_s: float) -> Group:
        """Errors: as `refresh`, but members need no endpoint."""
        group = self._described(timeout_s)
        topics = {topic for some in topics_of(group).values() for topic in some}
        described = self._admin.describe_topics(*sorted(topics), timeout=timeout_s)
        inputs = [
            TopicPartition(name, number)
            for name in sorted(topics - described.errors.keys())
            for number in range(len(described[name].partitions))
        ]
        if not inputs:
            return group, {}
        return group, self._admin.list_group_offsets(self._group, inputs, timeout=timeout_s)

    def lags(
        self, positions: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, ConsumerLag]:
        offsets = {tp: (offset,) for tp, offset in positions.items()}
        found = self._admin.count_records(offsets, timeout=timeout_s)
        return {tp: found[tp][offset] for tp, offset in positions.items() if tp not in found.errors}

    def close(self) -> None:
        self._admin.close()
