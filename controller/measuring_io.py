"""The controller as its exporters see it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from ..protocol.errors import KafkaStorageError
from ..protocol.security.server_keys import CONTROLLER
from ..runtime.clock_io import monotonic_ms
from ..runtime.listener_address import port_file_name, store_port, stored_port
from ..runtime.loop_load import LoopLoad
from ..runtime.telemetry import controller_table as table
from ..runtime.telemetry.server_measures import measure_loop, measure_router
from .metrics import write_image, write_quorum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..protocol.transport.router_io import Router
    from ..runtime.stalls import StallMeter
    from ..runtime.telemetry.samples import Samples
    from .config import ControllerConfig
    from .metadata_feed import MetadataFeed
    from .quorum_io import Quorum
    from .readers_io import MetadataReaders
    from .storage_io import ControllerStorage
    from .writer_io import DecisionWriter


class ControllerMeasures:
    """Implements Measured. The parts are given when the controller has made them."""

    role = CONTROLLER

    def __init__(
        self, config: ControllerConfig, storage: ControllerStorage, cluster_id: Callable[[], str]
    ) -> None:
        self._config, self._storage, self._cluster_id = config, storage, cluster_id
        self._load = LoopLoad()
        self._parts: tuple[Router, Quorum, MetadataFeed, DecisionWriter, MetadataReaders, StallMeter] | None
        self._parts = None

    def take(
        self,
        router: Router,
        quorum: Quorum,
        feed: MetadataFeed,
        writer: DecisionWriter,
        readers: MetadataReaders,
        stalls: StallMeter,
    ) -> None:
        """The parts of the started controller."""
        self._parts = router, quorum, feed, writer, readers, stalls

    def tick(self) -> None:
        """Called about each second on the loop."""
        self._load.look(time.monotonic(), time.thread_time())

    @property
    def server_id(self) -> int:
        """Part of Measured."""
        return self._config.controller_id

    @property
    def cluster_id(self) -> str:
        """Part of Measured."""
        return self._cluster_id()

    @property
    def data_dirs(self) -> Sequence[str]:
        """Part of Measured."""
        return (self._config.metadata_log_dir,)

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        """Part of Measured."""
        assert self._parts is not None, "the exporters start with the controller"
        router, quorum, feed, writer, readers, stalls = self._parts
        measure_loop(samples, self._load, stalls, monotonic_ms())
        pending = router.pending_response_bytes
        measure_router(samples, router.stats, router.connections, router.queued_bytes, pending)
        write_quorum(samples, quorum.facts(), is_active=writer.is_active)
        samples.set(table.WAITING_DECISIONS, len(writer))
        samples.set(table.PARKED_POLLS, len(readers))
        samples.observe(table.DECISION_TIME, feed.decision_times)
        samples.observe(table.COMMIT_LATENCY, quorum.times.commits)
        samples.observe(table.ELECTION_LATENCY, quorum.times.elections)
        samples.set(table.APPENDED_RECORDS, feed.decided_records)
        log, newest = self._storage.log, self._storage.log.snapshots.newest
        samples.set(table.METADATA_LOG_BYTES, log.size_bytes)
        samples.set(table.SNAPSHOT_OFFSET, newest.end_offset if newest else -1)
        samples.set(table.LAST_APPLIED_OFFSET, feed.image.offset)
        samples.set(table.METADATA_ERRORS, log.errors)
        samples.set(table.TIMED_OUT_HEARTBEATS, writer.timed_out_nodes)
        yield
        yield from write_image(samples, feed.image, feed.elections)

    def stored_port(self, name: str) -> int:
        """Part of Measured."""
        return stored_port(self._storage.files, self._storage.directory, port_file_name(name))

    def store_port(self, name: str, port: int) -> None:
        """Part of Measured."""
        with contextlib.suppress(KafkaStorageError):  # the metadata log reports disk failures
            store_port(self._storage.files, self._storage.directory, port, port_file_name(name))
