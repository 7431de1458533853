"""Detects that no node of a cluster answers, so that a benchmark does not wait for all client timeouts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from ...clients.sync.cluster_io import Cluster

CHECK_S = 1.0
REQUEST_TIMEOUT_S = 1.5
# The first request may go to a hanging node; the client tries the others before that one times out.
ATTEMPTS = 2
GONE = "no node answers any more"


class ClusterWatchdog:
    """While it is active, a thread checks `progress` once a second. Without progress and without a response
    to a metadata request, it sets `is_gone` and calls `on_gone`, once, on that thread."""

    def __init__(
        self,
        cluster: Cluster,
        progress: Callable[[], float],
        on_gone: Callable[[], None] = lambda: None,
        *,
        check_s: float = CHECK_S,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._cluster, self._progress, self._on_gone = cluster, progress, on_gone
        self._check_s, self._timeout_s = check_s, timeout_s
        self.is_gone = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-bench-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        admin = self._cluster.admin()
        seen = self._progress()
        while not self._closed.wait(self._check_s):
            now = self._progress()
            if now == seen and not any(self._responds(admin.describe_cluster) for _ in range(ATTEMPTS)):
                self.is_gone = True
                self._on_gone()
                return
            seen = now

    def _responds(self, request: Callable[..., object]) -> bool:
        if self._closed.is_set():
            return True  # the benchmark has ended
        try:
            request(timeout=self._timeout_s)
        except HeadraceError:
            return False
        return True
