"""Polled records by partition. A poll returns them in few runs, of one batch each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence


def partition_runs(records: Sequence[Any]) -> list[tuple[TopicPartition, list[Any]]]:
    """The runs of consecutive records of one partition, in order."""
    runs: list[tuple[TopicPartition, list[Any]]] = []
    run: list[Any] = []
    topic, partition = None, -1
    for record in records:
        if record.partition != partition or record.topic != topic:
            topic, partition, run = record.topic, record.partition, []
            runs.append((TopicPartition(topic, partition), run))
        run.append(record)
    return runs
