"""How far the stores in the state directory are that no task of the process has open: read when an instance
starts, so that the group gives tasks back to the machine that has their state.

A store knows its offset, and only its files have it: each is opened for a moment. Source for the aims: Kafka
TaskManager.java getTaskOffsetSums, KIP-1035.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import LATEST
from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from ..errors import StateDirectoryError
from ..state.engines import StateStoreError
from ..state.files_io import has_files
from .state_directory_io import StoredOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...clients.sync.admin_io import Admin
    from ..records import TaskId
    from .plan import AppPlan
    from .state_directory_io import StateDirectory

log = logging.getLogger("headrace.stream")

_READER = "the instance, which starts"


def read_stored_offsets(directory: StateDirectory, plan: AppPlan, new_admin: Callable[[], Admin]) -> None:
    """Note in `directory` how far the stores of each task are, and where their changelogs end. Left out are
    tasks that the topology does not have, stores that cannot be read, and those whose changelogs are gone or
    are others: what is wrong with them shows when a task opens them."""
    offsets: dict[TaskId, int] = {}
    for task_id in directory.stored_tasks():
        topic_ids = _topic_ids(task_id, plan)
        if topic_ids and directory.is_bound(task_id, topic_ids):
            try:
                offsets[task_id] = _offset(directory, plan, task_id)
            except (StateStoreError, StateDirectoryError) as error:
                log.warning("stores of task %s cannot be read: %s", task_id, error)
    if not offsets:
        return
    try:
        with new_admin() as admin:
            ends = _ends(offsets, plan, admin)
    except HeadraceError as error:
        log.warning(
            "the offsets of the stores of %s tasks could not be sent to the group: %s", len(offsets), error
        )
        return
    directory.add_stored(
        {task_id: StoredOffset(offset, ends[task_id]) for task_id, offset in offsets.items()}
    )


def _topic_ids(task_id: TaskId, plan: AppPlan) -> dict[str, str]:
    """The ids of the changelogs of a task; nothing if one does not exist."""
    sub_topology = plan.sub_topologies.get(task_id.sub_topology)
    topics = () if sub_topology is None else sub_topology.changelogs.values()
    if any(topic not in plan.topic_ids for topic in topics):
        return {}
    return {topic: plan.topic_ids[topic] for topic in sorted(topics)}


def _offset(directory: StateDirectory, plan: AppPlan, task_id: TaskId) -> int:
    """The sum of the offsets of its stores; a store without files, such as one in memory, is at 0."""
    folder = directory.acquire(task_id, _READER)
    try:
        total = 0
        for store in plan.sub_topologies[task_id.sub_topology].changelogs:
            if has_files(folder, store):
                engine = plan.open_engine(folder, store)
                try:
                    total += engine.offset() or 0
                finally:
                    engine.close()
        return total
    finally:
        directory.release(task_id)


def _ends(tasks: Iterable[TaskId], plan: AppPlan, admin: Admin) -> Mapping[TaskId, int]:
    """The sum of the ends of the changelogs of each task."""
    changelogs = {
        task_id: [
            TopicPartition(topic, task_id.partition)
            for topic in plan.sub_topologies[task_id.sub_topology].changelogs.values()
        ]
        for task_id in tasks
    }
    ends = admin.list_offsets({tp: LATEST for some in changelogs.values() for tp in some})
    return {task_id: sum(ends[tp].offset for tp in some) for task_id, some in changelogs.items()}
