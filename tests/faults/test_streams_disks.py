"""The stores of a streams application on a real file system that is full for a while.

It mounts a tmpfs: root is needed, elsewhere the test is skipped.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import headrace
import pytest
from headrace import NewTopic, stream, utf8
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 60.0
SMALL, LARGE = "8m", "200m"
KEYS = 20_000  # with values of 1 KB more than fits into the small file system


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """One node in this process; its log is not on the small file system."""
    with local(offsets_topic_num_partitions=3) as running:
        yield running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 8 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def latest_app(folder: Path) -> stream.App:
    """The latest value of each key, and its copy."""
    app = stream.App("latest", key=utf8, value=utf8, commit_interval_ms=100, state_dir=str(folder))
    app.stream("in").to_table(store="latest").to_stream().to("out")
    return app


def test_store_on_full_disk_continues_after_space_is_freed(
    cluster: LocalCluster, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The application processes on, says why its store is not written, and loses nothing: the store is whole
    once it could be written, and is not restored at the next start."""
    with headrace.Admin(cluster.bootstrap) as admin:
        admin.create_topics(NewTopic("in", 1), NewTopic("out", 1)).raise_for_errors()
    with headrace.Producer(cluster.bootstrap, key=utf8, value=utf8) as producer:
        for number in range(KEYS):
            producer.send("in", f"{number:05d}" * 200, key=str(number))
    with (
        caplog.at_level("INFO", "headrace.stream"),
        latest_app(small_disk).instance(cluster.bootstrap) as instance,
    ):

        def output() -> int:
            with headrace.Admin(cluster.bootstrap) as admin:
                place = headrace.TopicPartition("out", 0)
                return admin.list_offsets({place: headrace.LATEST})[place].offset

        wait_for(lambda: output() == KEYS, "everything is processed", PATIENCE_S)
        wait_for(lambda: "there is space" in caplog.text, "the log says that the disk is full", PATIENCE_S)
        subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(small_disk)], check=True)
        wait_for(lambda: "after its disk was full" in caplog.text, "the store is open again", PATIENCE_S)
        assert instance.error is None
    with latest_app(small_disk).instance(cluster.bootstrap) as instance:
        wait_for(lambda: instance.state.value == "RUNNING", "the application runs", PATIENCE_S)
        assert instance.restored_records == 0
        (thread,) = instance._threads
        (task,) = thread.manager.tasks.values()
        assert task.stores["latest"].approximate_num_entries() >= KEYS
