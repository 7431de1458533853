"""Looks for topics that come or go and match a pattern of a source, while an instance runs."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ..errors import is_retriable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from .plan import AppPlan
    from .planner_io import Planner

log = logging.getLogger("headrace.stream")

_SOON_S = 0.2  # between two looks after a change of the group
_EXPECTED_S = 2.0  # after a change of the group: a node may list a topic later than the coordinator


class TopicWatch:
    """A thread of its own, which lists the topics every metadata.max.age.ms, and at once when the group has
    changed. `on_plan` gets each new plan.

    `on_error` gets an error that another attempt does not mend, such as topics that are not co-partitioned,
    and the watch ends; other errors are logged.
    """

    def __init__(
        self,
        planner: Planner,
        plan: AppPlan,
        on_plan: Callable[[AppPlan], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._planner = planner
        self._plan = plan
        self._on_plan = on_plan
        self._on_error = on_error
        self._expects_until = 0.0
        self._woken = threading.Event()
        self._is_closed = False
        name = f"{plan.config.application_id}-topics"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def look_soon(self) -> None:
        """The group has changed, perhaps because its coordinator knows other topics. From any thread."""
        self._expects_until = time.monotonic() + _EXPECTED_S
        self._woken.set()

    def close(self) -> None:
        """End the thread, after the call that is under way."""
        self._is_closed = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with self._planner.admin() as admin:
            while True:
                self._woken.wait(self._pause_s())
                self._woken.clear()
                if self._is_closed or not self._look(admin):
                    return

    def _pause_s(self) -> float:
        interval_s = self._planner.interval_ms / 1000
        return interval_s if time.monotonic() > self._expects_until else min(_SOON_S, interval_s)

    def _look(self, admin: Admin) -> bool:
        """Make a new plan if there are other topics now. False after an error that stays."""
        try:
            plan = self._planner.next_plan(admin, self._plan)
        except Exception as error:  # noqa: BLE001 -- of the topology, or of the cluster: the instance decides
            if isinstance(error, HeadraceError) and is_retriable(error):
                log.warning("topics that match a pattern are not known: %s", error)
                return True
            self._on_error(error)
            return False
        if plan is not None:
            log.info("source topics are now %s", ", ".join(sorted(plan.partitions)))
            self._plan = plan
            self._on_plan(plan)
        return True
