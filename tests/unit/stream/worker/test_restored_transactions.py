"""Stores whose changelogs have transactions without a marker, over a cluster in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.clients.serdes import int64
from headrace.protocol.errors import ApiTimeoutError
from headrace.protocol.model import TopicPartition
from worker_rig import SOURCE, WorkerRig

if TYPE_CHECKING:
    from pathlib import Path

FIRST = TopicPartition(SOURCE, 0)


@pytest.fixture
def rig(tmp_path: Path) -> WorkerRig:
    """An application that counts words, exactly once."""
    return WorkerRig(tmp_path, guarantee="exactly_once_v2")


def test_a_store_is_restored_with_a_committed_transaction_whose_marker_is_late(
    rig: WorkerRig,
) -> None:
    """Its offsets are committed, but the last stable offset of the changelog is before its updates: without
    them the store would count on from 1 (KAFKA-10167)."""
    rig.send("a", "a")
    for count in (1, 2):
        rig.cluster.append(rig.changelog.topic, b"a", int64.dumps(count), timestamp=3)
    rig.cluster.committed[FIRST] = OffsetAndMetadata(2)
    rig.cluster.open_from[rig.changelog] = 1
    rig.assign(FIRST)
    for _ in range(3):
        rig.manager.restore(0)
    assert rig.manager.running == [], "the transaction has no outcome in the changelog yet"
    rig.cluster.open_from.clear()
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 3)]


def test_a_store_with_a_transaction_whose_marker_is_late_is_not_damaged(
    rig: WorkerRig, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offset is behind the last stable offset of the changelog, not behind its end."""
    rig.send("a")
    rig.assign(FIRST)
    rig.work()
    rig.revoke(FIRST)
    rig.cluster.open_from[rig.changelog] = 0
    rig.assign(FIRST)
    assert caplog.text == ""
    assert rig.stored_offset() == 1


def test_a_transaction_that_an_earlier_process_left_open_is_aborted_first(rig: WorkerRig) -> None:
    """Otherwise restoring would wait until transaction.timeout.ms has passed. A coordinator that does not
    answer delays the task."""
    rig.cluster.append(rig.changelog.topic, b"a", int64.dumps(5), timestamp=3)
    rig.cluster.append_marker(rig.changelog.topic)  # aborted records are skipped as well
    rig.cluster.open_from[rig.changelog] = 1
    rig.cluster.left_open = [rig.changelog]
    rig.cluster.failures["producer.init_transactions"] = [ApiTimeoutError("no coordinator")]
    rig.assign(FIRST)
    assert rig.manager.tasks == {}
    rig.send("a")
    rig.manager.open_tasks()
    assert rig.cluster.open_from == {}
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 6)]


def test_restoring_zombie_does_not_skip_records_of_the_next_owner(rig: WorkerRig) -> None:
    """It was paused while it waited for the end of a transaction, and another member got its task. When it
    has the task again, its store lacks those records."""
    rig.cluster.append(rig.changelog.topic, b"a", int64.dumps(1), timestamp=3)
    rig.cluster.open_from[rig.changelog] = 0
    rig.assign(FIRST)
    rig.manager.restore(0)
    for count in (2, 3):
        rig.cluster.append(rig.changelog.topic, b"a", int64.dumps(count), timestamp=3)
    rig.cluster.open_from.clear()
    rig.manager.restore(0)
    rig.lose(FIRST)
    assert rig.stored_offset() == 1
    rig.assign(FIRST)
    rig.send("a")
    rig.work()
    rig.manager.commit()
    assert rig.counts() == [("a", 4)]
