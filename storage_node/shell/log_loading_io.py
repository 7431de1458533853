"""Starts the log dirs of a storage node: lock them, read their identity, recover their logs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError, KafkaStorageError
from ...runtime.clock_io import wall_ms

if TYPE_CHECKING:
    from ..log.log_manager import LogManager
    from .workers_io import Workers

log = logging.getLogger("headrace.storage_node")


async def load_logs(manager: LogManager, workers: Workers, wanted_node_id: int) -> tuple[int, str]:
    """Recover all logs in parallel; (node id, cluster id) of the log dirs or the config: -1 and empty until
    the controller has assigned them.

    Errors: ConfigError if the log dirs belong to another node than `wanted_node_id`, KafkaStorageError.
    """
    found = await workers.run(manager.open_dirs)
    if wanted_node_id >= 0 and found.node_id not in (None, wanted_node_id):
        raise ConfigError(f"node.id is {wanted_node_id}, but the log dirs belong to node {found.node_id}")
    tasks = await workers.run(lambda: manager.loader.tasks(wall_ms()))
    await asyncio.gather(*(workers.run(task.run) for task in tasks))
    manager.loader.finish(tasks)
    for task in tasks:
        if task.log is not None and task.log.recovery.faults:
            log.warning("%s: %s", task.topic_partition, "; ".join(task.log.recovery.faults[:5]))
    return wanted_node_id if found.node_id is None else found.node_id, found.cluster_id or ""


def write_identity(manager: LogManager, node_id: int, cluster_id: str) -> None:
    """Write the ids into every log dir. A log dir whose disk fails goes offline; others go on. Errors:
    KafkaStorageError, InconsistentClusterIdError."""
    while True:
        dirs_before = len(manager.dirs.online)
        try:
            manager.dirs.set_identity(cluster_id, node_id)
        except KafkaStorageError:
            if not manager.dirs.online or len(manager.dirs.online) == dirs_before:
                raise
        else:
            return
