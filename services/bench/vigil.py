"""Detects that no node of a cluster answers, so that a benchmark does not wait for all client timeouts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from ...clients.sync.cluster_io import Cluster

LOOK_S = 1.0
ANSWER_S = 1.5
# The first request may go to a hanging node; the client tries the others before that one times out.
QUESTIONS = 2
GONE = "no node answers any more"


class Vigil:
    """While it is active, a thread checks `progress` once a second. Without progress and without a response
    to a metadata request, it sets `is_over` and calls `give_up`, once, on that thread."""

    def __init__(
        self, cluster: Cluster, progress: Callable[[], float], give_up: Callable[[], None] = lambda: None
    ) -> None:
        self._cluster, self._progress, self._give_up = cluster, progress, give_up
        self.is_over = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-bench-vigil", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        admin = self._cluster.admin()
        seen = self._progress()
        while not self._end.wait(LOOK_S):
            now = self._progress()
            if now == seen and not any(self._is_answered(admin.describe_cluster) for _ in range(QUESTIONS)):
                self.is_over = True
                self._give_up()
                return
            seen = now

    def _is_answered(self, ask: Callable[..., object]) -> bool:
        if self._end.is_set():
            return True  # the benchmark has ended
        try:
            ask(timeout=ANSWER_S)
        except HeadraceError:
            return False
        return True
