"""The tasks of an application, and their source partitions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.model import TopicPartition
from ..records import TaskId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Tasks = dict[TaskId, list[TopicPartition]]


def tasks_of(sources: Mapping[int, Iterable[str]], partitions: Mapping[str, int]) -> Tasks:
    """The tasks of each sub-topology and their partitions: as many as its widest source topic has partitions.
    `partitions` by topic; topics that are not in it do not exist."""
    tasks: Tasks = {}
    for sub_topology, topics in sorted(sources.items()):
        for topic in sorted(topics):
            for partition in range(partitions.get(topic, 0)):
                tasks.setdefault(TaskId(sub_topology, partition), []).append(TopicPartition(topic, partition))
    return dict(sorted(tasks.items()))
