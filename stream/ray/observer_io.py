"""What the supervisor asks of the cluster: leaders of source partitions, the lag of the group."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ...clients.sync.admin_io import Admin
from ...protocol.errors import HeadraceError
from ...protocol.model import TopicPartition
from .addresses_io import bootstrap_of
from .plan import task_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.admin.lag_types import ConsumerLag
    from .run import Run

log = logging.getLogger("headrace.stream")

TIMEOUT_S = 10.0


class Progress(NamedTuple):
    """`ends`: of all source partitions. `lag`: records that the group has not processed, up to the ends that
    were given; None without. `tasks`: how many active ones there are, or will be."""

    ends: Mapping[TopicPartition, int]
    lag: int | None
    tasks: int


class Observer:
    """Asks with one admin client, for one thread."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._admin: Admin | None = None

    def leaders(self) -> list[str]:
        """The host of the leader of each source partition; none if the cluster does not answer."""
        try:
            admin = self._client()
            nodes = admin.describe_cluster(timeout=TIMEOUT_S).nodes
            hosts = {node.node_id: node.address.host for node in nodes}
            topics = admin.describe_topics(*self._run.sources, timeout=TIMEOUT_S)
        except HeadraceError as error:
            log.warning("%s: the leaders of its topics are not known: %s", self._run.application_id, error)
            return []
        return [
            hosts[partition.leader]
            for topic in self._run.sources
            if topic not in topics.errors  # as repartition topics before the first start
            for partition in topics[topic].partitions
            if partition.leader in hosts
        ]

    def progress(self, until: Mapping[TopicPartition, int] | None) -> Progress | None:
        """The lag up to the ends in `until`, as the leaders count it. None while the group, or something that
        is asked, is not there."""
        name = self._run.application_id
        try:
            admin = self._client()
            group = admin.describe_streams_groups(name, timeout=TIMEOUT_S)[name]
            inputs = [
                (*each.source_topics, *each.repartition_source_topics) for each in group.subtopologies or ()
            ]
            topics = {topic for each in inputs for topic in each}
            if not topics:
                return None
            described = dict(admin.describe_topics(*sorted(topics), timeout=TIMEOUT_S))
            partitions = [
                TopicPartition(topic, each.partition)
                for topic, found in described.items()
                for each in found.partitions
            ]
            committed = admin.list_group_offsets(name, partitions, timeout=TIMEOUT_S)
            offsets = {tp: 0 if at is None else at.offset for tp, at in committed.items()}
            past = until or {}
            asked = {tp: (offset, past.get(tp, offset)) for tp, offset in offsets.items()}
            counted = dict(admin.count_records(asked, timeout=TIMEOUT_S))
        except HeadraceError as error:
            log.info("%s: its lag is not known: %s", name, error)
            return None
        ends = {tp: lags[offsets[tp]].end or 0 for tp, lags in counted.items()}
        lag = sum(_between(counted[tp], *some) for tp, some in asked.items())
        counts = {topic: len(found.partitions) for topic, found in described.items()}
        return Progress(ends, None if until is None else lag, task_count(inputs, counts))

    def close(self) -> None:
        """Close the client."""
        if self._admin is not None:
            self._admin.close()

    def _client(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(bootstrap_of(self._run))
        return self._admin


def _between(lags: Mapping[int, ConsumerLag], offset: int, until: int) -> int:
    """The records from `offset` to `until`."""
    return max((lags[offset].records or 0) - (lags[until].records or 0), 0)
