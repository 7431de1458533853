"""Replaces the keys of all servers of a running cluster, one server after the other, without an outage.

The steps are those of `ServerKeyFolder`. Each step is idempotent, and the folder has the progress of an
interrupted rotation, so that the next run continues it. A server is restarted only while all other servers
serve and all replicas are in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.errors import HeadraceError
from ..protocol.security.server_keys import CONTROLLER, NODE, ServerName
from ..runtime.waiting_io import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .server_keys_io import ServerKeyFolder

    Statuses = Mapping[ServerName, Mapping[str, Any]]

POLL_S = 0.2


class RotationError(HeadraceError):
    """A rotation was interrupted; the next run continues it."""


class RunningServers(Protocol):
    """The servers of a cluster."""

    def statuses(self) -> Statuses:
        """The status of each server; for a server that does not respond, a `state` and a `detail`."""

    def restart(self, name: ServerName) -> None:
        """Restart a server, which reads its files. Returns when the old process has stopped, or later."""


def unseen(_done: int, _all: int) -> None:
    """Progress without a display."""


class KeyRotation:
    """One run of `headrace security rotate`."""

    def __init__(
        self,
        folder: ServerKeyFolder,
        servers: RunningServers,
        report: Callable[[str], None],
        timeout_s: float,
        progress: Callable[[int, int], None] = unseen,
    ) -> None:
        """`timeout_s`: for each step of each server. `progress` takes the number of servers that have a new
        key, and of all."""
        self._folder, self._servers, self._report, self._timeout_s = folder, servers, report, timeout_s
        self._progress = progress

    def run(self) -> None:
        """Errors: RotationError, whose text has the steps before the next run; ConfigError, OSError."""
        names = in_order(self._whole("no server is restarted until all serve"))
        done = self._folder.rotated()
        if done:
            self._report("continuing the rotation that was interrupted")
        for name in names:
            self._progress(len(done), len(names))
            if name not in done:
                self._replace(name)
                done = [*done, name]
                self._folder.write_rotated(done)
                self._report(f"{name} has a new key ({len(done)}/{len(names)})")
        self._folder.end_rotation()

    def _replace(self, name: ServerName) -> None:
        """Order: all servers trust a new key before its server uses it, and the old key until then. Keys of
        other servers are replaced later: connections try all trusted keys of a server."""
        if not self._folder.has_adopted(name):
            self._folder.announce(name)
        self._await_trust()
        self._folder.adopt(name)
        wanted = self._folder.public_key(name)
        if _key_of(self._servers.statuses().get(name, {})) != wanted:
            self._servers.restart(name)
        if _key_of(self._whole(f"{name} was restarted with its new key")[name]) != wanted:
            path = self._folder.key_file(name)
            raise RotationError(
                f"{name} was restarted and has its old key: copy {path} of this machine to its machine,"
                " and run this command again"
            )
        self._folder.forget_old(name)

    def _await_trust(self) -> None:
        wanted = self._folder.trusted().fingerprint
        late: list[ServerName] = []

        def is_trusted() -> bool:
            statuses = self._servers.statuses()
            late[:] = [name for name, each in sorted(statuses.items()) if _trusted_by(each) != wanted]
            return not late

        if not until(is_trusted, self._timeout_s, POLL_S):
            raise RotationError(
                f"{_listed(late)} did not read the new keys: copy {self._folder.trusted_file} of this machine"
                " to the same place there, and run this command again"
            )

    def _whole(self, situation: str) -> Statuses:
        """The statuses, once all servers serve. Errors: RotationError."""
        found: Statuses = {}
        trouble = ""

        def is_whole() -> bool:
            nonlocal found, trouble
            found = self._servers.statuses()
            trouble = missing(found)
            return not trouble

        if not until(is_whole, self._timeout_s, POLL_S):
            raise RotationError(f"{situation}, but {trouble}; run this command again once that has ended")
        return found


def missing(statuses: Statuses) -> str:
    """The reason why no server may be restarted now: a server that does not serve, or replicas that lag;
    otherwise empty. Pure."""
    controllers = {name: each for name, each in statuses.items() if name.kind == CONTROLLER}
    for name, each in sorted(statuses.items()):
        state = each.get("state")
        if state != ("running" if name.kind == CONTROLLER else "active"):
            return f"{name} does not serve: {state} {each.get('detail') or ''}".strip()
    quorums = [each["quorum"] for each in controllers.values()]
    if sum(quorum["role"] == "leader" for quorum in quorums) != 1:
        return "the controllers have not elected a leader"
    committed = max(quorum["high_watermark"] for quorum in quorums)
    for name, each in sorted(controllers.items()):
        if each["quorum"]["log_end_offset"] < committed:
            return f"{name} is behind the other controllers"
    behind = sum(
        each["metrics"]["UnderReplicatedPartitions"] for name, each in statuses.items() if name.kind == NODE
    )
    return f"{behind} partitions have replicas that are not in sync" if behind else ""


def in_order(statuses: Statuses) -> Sequence[ServerName]:
    """The order of restarts: controllers first, the active one last of them, as its restart causes an
    election."""

    def place(name: ServerName) -> tuple[bool, bool, ServerName]:
        is_leader = statuses[name].get("quorum", {}).get("role") == "leader"
        return name.kind != CONTROLLER, is_leader, name

    return sorted(statuses, key=place)


def _key_of(status: Mapping[str, Any]) -> str | None:
    return (status.get("security") or {}).get("public_key")


def _trusted_by(status: Mapping[str, Any]) -> str | None:
    return (status.get("security") or {}).get("trusted_keys")


def _listed(names: Sequence[ServerName]) -> str:
    return ", ".join(map(str, names))
