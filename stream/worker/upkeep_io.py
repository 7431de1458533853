"""Deletes processed records of repartition topics, and the stores of tasks that moved away."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from .thread_io import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition
    from ..config import StreamsConfig
    from .clients_io import Clients
    from .state_directory_io import StateDirectory

log = logging.getLogger("headrace.stream")


class Upkeep:
    """A thread of its own: a slow node delays no task. `committed` gives the committed offsets of repartition
    topics; an error is logged, and the next turn tries again."""

    def __init__(
        self,
        config: StreamsConfig,
        clients: Clients,
        admin_config: Mapping[str, Any],
        directory: StateDirectory,
        committed: Callable[[], Mapping[TopicPartition, int]],
    ) -> None:
        self._config = config
        self._clients, self._admin_config = clients, dict(admin_config)
        self._directory = directory
        self._committed = committed
        self._deleted: dict[TopicPartition, int] = {}
        self._closing = threading.Event()
        name = f"{config.application_id}-upkeep"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the call that is under way."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with self._clients.admin(self._admin_config) as admin:
            # Bound: at least 100 ms between two turns, also where repartition.purge.interval.ms is 0
            while not self._closing.wait(max(self._config.repartition_purge_interval_ms, 100) / 1000):
                try:
                    self._purge(admin)
                except HeadraceError as error:
                    log.warning("records of repartition topics are not deleted: %s", error)
                for task in self._directory.clean(wall_ms(), self._config.state_cleanup_delay_ms):
                    log.info("deleted the stores of task %s, which moved away", task)

    def _purge(self, admin: Admin) -> None:
        """Delete what all tasks have processed and committed."""
        wanted = {tp: offset for tp, offset in self._committed().items() if offset > self._deleted.get(tp, 0)}
        if not wanted:
            return
        results = admin.delete_records(wanted)
        self._deleted.update({tp: offset for tp, offset in wanted.items() if tp not in results.errors})
        for partition, error in results.errors.items():
            log.warning("records of %s are not deleted: %s", partition, error)
