"""Where the table of the instances of an application comes from."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import GroupIdNotFoundError
from ..errors import StreamsError
from .hosts import table_of_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from .hosts import HostTable


class Hosts(Protocol):
    """The instances of an application."""

    def table(self) -> HostTable:
        """What is known now; cheap."""

    def refresh(self, timeout_s: float) -> None:
        """Look again; may wait. Errors: HeadraceError."""

    def close(self) -> None:
        """Release connections."""


class KnownHosts:
    """A table of somebody else, such as a fixed one."""

    def __init__(self, table: Callable[[], HostTable]) -> None:
        self.table = table

    def refresh(self, timeout_s: float) -> None:
        """Nothing to ask."""

    def close(self) -> None:
        """Nothing to close."""


class GroupHosts:
    """From the description of the application's streams group."""

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
            found = self._admin.describe_streams_groups(self._group, timeout=timeout_s)
            error = found.errors.get(self._group)
            if isinstance(error, GroupIdNotFoundError):
                raise StreamsError(f"no instance of application {self._group!r} runs") from error
            if error is not None:
                raise error
            group = found[self._group]
            self._table = table_of_group(group)
            if group.members and not self._table:
                raise StreamsError(
                    f"the instances of application {self._group!r} have no application.server to be asked at"
                )

    def close(self) -> None:
        self._admin.close()
