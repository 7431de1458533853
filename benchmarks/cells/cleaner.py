"""The cell of log compaction: one thread cleans a closed log, without servers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constants import CPU_PER_GB, KAFKA, MAP_BYTES, MB, RATE
from .cell import Cell
from .figures import BYTES_PER_GB, BYTES_PER_MB

if TYPE_CHECKING:
    from ..harness import Harness

WARM_ROUNDS = 2  # a JVM cleans two other copies first
# Bytes of the offset map per key (hash and offset), and the load factor of both systems' maps.
KAFKA_ENTRY_BYTES, HEADRACE_ENTRY_BYTES, LOAD_FACTOR = 24, 24, 0.9
MAP_MARGIN = 1.05  # all keys fit into the map, so that one pass is enough


class CleanCell(Cell):
    """Compaction of a log of `count` records with `records_per_key`: both passes by one thread."""

    reports = frozenset({RATE, MB, CPU_PER_GB, MAP_BYTES})

    def run(self, harness: Harness) -> dict[str, Any]:
        keys = self.spec["count"] // self.spec["records_per_key"]
        is_kafka = self.system == KAFKA
        entry_bytes = KAFKA_ENTRY_BYTES if is_kafka else HEADRACE_ENTRY_BYTES
        spec = {**self.spec, "keys": keys, "map_bytes": int(keys / LOAD_FACTOR * MAP_MARGIN) * entry_bytes}
        with harness.log_copies(spec, 1 + WARM_ROUNDS if is_kafka else 1) as folders:
            if is_kafka:
                report = harness.clean_with_kafka(spec["map_bytes"], folders)
            else:
                order = {**spec, "folder": str(folders[0])}
                (report,) = harness.run_workers([order], cores=harness.client_cores[:1])
                # the worker does what a server's cleaner thread would do
                report = {**report, "server_cpu_s": report["client_cpu_s"]}
        return {
            **report,
            RATE: self.spec["count"] / report["seconds"],
            MB: report["bytes"] / report["seconds"] / BYTES_PER_MB,
            CPU_PER_GB: report["server_cpu_s"] / report["bytes"] * BYTES_PER_GB,
            MAP_BYTES: entry_bytes / LOAD_FACTOR,
        }
