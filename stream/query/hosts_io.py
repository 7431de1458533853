"""Where the table of the instances of an application comes from."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from ...clients.sync.admin_io import Admin
from ...protocol.errors import GroupIdNotFoundError
from ..errors import StreamsError
from .hosts import HostInfo, HostMetadata, table_of_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    """A table of somebody else: a fixed one, or what an instance hears from its group."""

    def __init__(self, table: Callable[[], HostTable]) -> None:
        self.table = table

    def refresh(self, timeout_s: float) -> None:
        """Nothing to ask."""

    def close(self) -> None:
        """Nothing to close."""


def fixed_hosts(
    hosts: Mapping[str, Iterable[tuple[str, int]]],
    standbys: Mapping[str, Iterable[tuple[str, int]]] | None = None,
) -> KnownHosts:
    """By "host:port" the input partitions (topic, partition) of active tasks, and those of standbys."""
    names = {*hosts, *(standbys or {})}
    table = {
        host: HostMetadata(host, frozenset(hosts.get(name, ())), frozenset((standbys or {}).get(name, ())))
        for name in sorted(names)
        for host in (_host_of(name),)
    }
    return KnownHosts(lambda: table)


def _host_of(text: str) -> HostInfo:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"{text!r} is not host:port")
    return HostInfo(host.strip("[]"), int(port))


class GroupHosts:
    """From the description of the application's streams group. `bootstrap` as for `Admin`."""

    def __init__(self, application_id: str, bootstrap: Any) -> None:
        self._group = application_id
        self._admin = Admin(bootstrap)
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
