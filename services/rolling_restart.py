"""Restarts the servers of a cluster one after the other, without an outage: for an upgrade of the package.

A server is restarted only while all other servers serve and all replicas are in sync. Pure but for its waits.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ..protocol.errors import HeadraceError
from ..runtime.waiting_io import until
from .key_rotation import POLL_S, in_order, missing, unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.security.server_keys import ServerName
    from .key_rotation import RunningServers, Statuses


class RestartError(HeadraceError):
    """The servers were not all restarted; the message says which one the next run begins with."""


class RollingRestart:
    """One run of `headrace restart`."""

    def __init__(
        self,
        servers: RunningServers,
        report: Callable[[str], None],
        timeout_s: float,
        progress: Callable[[int, int], None] = unseen,
    ) -> None:
        """`timeout_s`: for each server. `progress` takes the number of servers that are done, and of all."""
        self._servers, self._report, self._timeout_s = servers, report, timeout_s
        self._progress = progress

    def run(self, names: Sequence[ServerName] = ()) -> None:
        """Restart these servers, or all. Errors: RestartError."""
        statuses = self._whole("nothing was restarted")
        unknown = sorted(set(names) - set(statuses))
        if unknown:
            known = ", ".join(map(str, sorted(statuses)))
            raise RestartError(f"the cluster has no {unknown[0]}: it has {known}")
        chosen = [name for name in in_order(statuses) if not names or name in names]
        self._progress(0, len(chosen))
        for number, name in enumerate(chosen, 1):
            before = self._whole(f"{name} was not restarted")[name]["pid"]
            self._servers.restart(name)
            is_new = partial(_has_other_process, name, before)
            found = self._whole(f"{name} was restarted", is_new)[name]
            version = found.get("version", "?")
            self._report(f"{name} runs headrace {version} ({number}/{len(chosen)})")
            self._progress(number, len(chosen))

    def _whole(self, situation: str, also: Callable[[Statuses], bool] = lambda _: True) -> Statuses:
        """The statuses, once all servers serve and `also` holds. Errors: RestartError."""
        found: Statuses = {}
        trouble = ""

        def is_whole() -> bool:
            nonlocal found, trouble
            found = self._servers.statuses()
            trouble = missing(found) or ("" if also(found) else "its old process still runs")
            return not trouble

        if not until(is_whole, self._timeout_s, POLL_S):
            raise RestartError(f"{situation}, but {trouble}; run this command again once that has ended")
        return found


def _has_other_process(name: ServerName, pid: Any, statuses: Statuses) -> bool:
    return bool(statuses[name].get("pid") != pid)
