"""The group `snapshots`: a lost state is restored from its changelog, or from a snapshot and the rest of it.

Before the runs an application without files restores the changelog, and takes snapshots; then
the changelog gets further records. Each run starts an application without files.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from headrace.benchmarks.harness import LostDataError
from headrace.runtime.waiting_io import until

from .cells import GROWN_BYTES, HEADRACE, PARTITIONS, Input
from .inputs_io import fill_headrace
from .operations import QUICK_SNAPSHOT_KEYS, SNAPSHOT, SNAPSHOT_KEYS
from .servers_io import RUN_TIMEOUT_S, begin, stop
from .session_io import restore

if TYPE_CHECKING:
    from .cells import Sizes
    from .servers_io import Servers

TAKEN_S = 60.0
MORE_SHARE = 100  # the changelog gets one hundredth of its records after the snapshot


class SnapshotRuns:
    """Runs the cells CHANGELOG and SNAPSHOT."""

    def __init__(self, servers: Servers, sizes: Sizes) -> None:
        self._servers = servers
        keys = QUICK_SNAPSHOT_KEYS if sizes.is_quick else SNAPSHOT_KEYS
        self._source = Input(keys, keys, GROWN_BYTES)
        self._order: dict[str, str] = {}
        self._folder = servers.scratch / "snapshots"

    def run(self, cell: str) -> dict[str, Any]:
        """Seconds until the application runs."""
        if not self._order:
            self._prepare()
        order = {**self._order, **({"config.snapshot.dir": str(self._folder)} if cell == SNAPSHOT else {})}
        try:
            with self._servers.application(HEADRACE) as child:
                return restore(child, order, self._source)
        finally:
            shutil.rmtree(order["state"], ignore_errors=True)

    def _prepare(self) -> None:
        servers = self._servers
        broker = servers.broker(HEADRACE)
        order = servers.order(HEADRACE, "restore", "")
        order["input"] = order["output"].replace("out", "empty")
        changelog = f"{order['application']}-latest-changelog"
        broker.create_topic(order["input"], PARTITIONS)
        servers.fill(HEADRACE, self._source, changelog)
        self._order = order
        taking = {"config.snapshot.dir": str(self._folder), "config.snapshot.interval.ms": "1000"}
        with servers.application(HEADRACE) as child:
            begin(child, {**order, **taking}, RUN_TIMEOUT_S)
            is_complete = until(lambda: self._tasks() == PARTITIONS, TAKEN_S)
            stop(child)
        shutil.rmtree(order["state"], ignore_errors=True)
        if not is_complete:
            raise LostDataError(f"snapshots of {self._tasks()} tasks were taken, not of {PARTITIONS}")
        servers.say(f"snapshots of {sum(each.stat().st_size for each in self._folder.rglob('*')):,} bytes")
        keys = self._source.keys // MORE_SHARE
        fill_headrace(broker.bootstrap, changelog, Input(keys, keys, GROWN_BYTES))

    def _tasks(self) -> int:
        """How many tasks have a snapshot."""
        return len({manifest.parents[1] for manifest in self._folder.glob("*/*/manifests/*.json")})

    def close(self) -> None:
        """Delete the topics and the snapshots."""
        if self._order:
            broker = self._servers.broker(HEADRACE)
            for topic in (self._order["input"], f"{self._order['application']}-latest-changelog"):
                broker.delete_topic(topic)
        shutil.rmtree(self._folder, ignore_errors=True)
