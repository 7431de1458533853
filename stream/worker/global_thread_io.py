"""The thread that keeps the global stores of an instance up to date."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ...protocol.errors import WakeupError
from ...protocol.model import TopicPartition
from ..query.gate_io import QueryGate
from ..records import TaskId
from ..state.thread_cache import ThreadCache
from ..task.global_task import GlobalTask
from .listeners_io import RestoreNotices
from .partition_runs import partition_runs
from .thread_io import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..topology.sub_topology import SubTopology
    from .clients_io import Clients
    from .listeners_io import RestoreListener
    from .plan import AppPlan
    from .state_directory_io import StateDirectory

log = logging.getLogger("headrace.stream")

GLOBAL_FOLDER = TaskId(-1, -1)


class GlobalThread:
    """Reads every partition of the global topics, from the beginning; `open` returns when all records that
    were there are in the stores."""

    def __init__(
        self,
        name: str,
        plan: AppPlan,
        topology: SubTopology,
        partitions: Mapping[str, int],
        clients: Clients,
        directory: StateDirectory,
        on_error: Callable[[BaseException], None],
        restore_listener: RestoreListener | None = None,
    ) -> None:
        self._plan = plan
        self._listener = RestoreNotices(restore_listener)
        stores = {topic: store for store, topic in topology.changelogs.items()}
        self._stores_of = {topic: stores.get(topic, topic) for topic in topology.sources}
        self._partitions = [
            TopicPartition(topic, number) for topic in topology.sources for number in range(partitions[topic])
        ]
        folder = directory.acquire(GLOBAL_FOLDER, name)
        self._task = GlobalTask(
            plan.config.application_id,
            topology,
            plan.settings,
            cache=ThreadCache(0),
            open_engine=lambda store: plan.open_engine(folder, store),
            wall_ms=wall_ms(),
        )
        self._task.context.folder = folder
        self.gate = QueryGate()
        settings = {**plan.client_configs["global.consumer"], "auto.offset.reset": "earliest"}
        self._consumer = clients.consumer(settings)
        self._on_error = on_error
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stores(self) -> Mapping[str, Any]:
        return self._task.stores

    def open(self) -> None:
        """Open the stores, read what the topics have now, and begin to follow them."""
        self._task.initialize()
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning()
        starts = self._consumer.beginning_offsets(*self._partitions)
        ends = self._consumer.end_offsets(*self._partitions)
        for tp, end in ends.items():
            self._listener.on_restore_start(tp, self._stores_of[tp.topic], starts[tp], end)
        counts = dict.fromkeys(ends, 0)
        left = set(ends)
        while left and not self._closing.is_set():
            self._note(counts, self._update(0.1) if any(starts[tp] < ends[tp] for tp in left) else [])
            done = [tp for tp in sorted(left) if self._consumer.position(tp) >= ends[tp]]
            for tp in done:
                self._listener.on_restore_end(tp, self._stores_of[tp.topic], counts[tp])
            left.difference_update(done)
        self._task.flush()
        self._thread.start()

    def _run(self) -> None:
        try:
            flushed_ms = wall_ms()
            while not self._closing.is_set():
                self._update(self._plan.config.poll_ms / 1000)
                if wall_ms() - flushed_ms >= self._plan.config.commit_every_ms:
                    self._task.flush()
                    flushed_ms = wall_ms()
        except BaseException as error:  # noqa: BLE001 -- the application decides
            self._on_error(error)

    def _note(self, counts: dict[TopicPartition, int], records: Sequence[Any]) -> None:
        for partition, found in partition_runs(records):
            counts[partition] += len(found)
            store = self._stores_of[partition.topic]
            self._listener.on_batch_restored(partition, store, found[-1].offset, len(found))

    def _update(self, timeout_s: float) -> Sequence[Any]:
        try:
            records = self._consumer.poll(timeout_s)
        except WakeupError:
            return []
        now = wall_ms()
        for record in records:
            self._task.update(TopicPartition(record.topic, record.partition), record, now)
        return records

    def close(self) -> None:
        """End the thread and close the stores."""
        self._closing.set()
        self._consumer.wakeup()
        if self._thread.ident is not None:
            self._thread.join()
        self.gate.close()
        self._task.close()
        self._consumer.close()
