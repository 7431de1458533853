"""The metadata log dir of a controller: lock, identity, log and snapshots."""

from pathlib import Path

import pytest
from headrace.controller.config import ControllerConfig
from headrace.controller.quorum.voters import Endpoint
from headrace.controller.storage_io import ControllerStorage
from headrace.protocol.errors import KafkaStorageError
from headrace.protocol.metadata.image import MetadataImage
from headrace.runtime.files.files_io import OsFiles

HERE = Endpoint("localhost", 0)


def storage(path: Path, **config: str) -> ControllerStorage:
    return ControllerStorage(ControllerConfig.of({"metadata.log.dir": str(path), **config}), OsFiles())


async def test_a_directory_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    """A second process waits for metadata.log.lock.timeout.ms."""
    first = storage(tmp_path)
    await first.open(HERE, is_alone=True)
    second = storage(tmp_path, **{"metadata.log.lock.timeout.ms": "1"})
    with pytest.raises(KafkaStorageError, match="is locked"):
        await second.open(HERE, is_alone=True)
    await second.close(None, is_killed=False)
    await first.close(None, is_killed=True)
    third = storage(tmp_path)
    await third.open(HERE, is_alone=True)
    await third.close(None, is_killed=False)


async def test_the_identity_outlives_a_restart(tmp_path: Path) -> None:
    """The directory id of the first start, and the cluster id once it is adopted."""
    first = storage(tmp_path)
    await first.open(HERE, is_alone=True)
    key = first.replica_key
    assert first.identity.cluster_id == ""
    first.adopt_cluster("cluster-1")
    await first.close(None, is_killed=False)
    second = storage(tmp_path)
    await second.open(HERE, is_alone=True)
    assert (second.replica_key, second.identity.cluster_id) == (key, "cluster-1")
    await second.close(None, is_killed=False)


async def test_only_a_controller_that_is_alone_formats_a_blank_directory(tmp_path: Path) -> None:
    """Another one joins the quorum of its bootstrap servers."""
    for is_alone in (False, True):
        each = storage(tmp_path / str(is_alone))
        await each.open(HERE, is_alone=is_alone)
        assert each.log.is_blank is not is_alone
        assert not each.is_snapshot_due(MetadataImage())
        # a formatted directory has a snapshot, which is newer than this image
        assert each.is_snapshot_due(MetadataImage(), lowered_at=0) is not is_alone
        await each.close(None, is_killed=False)


async def test_a_failed_last_flush_leaves_the_log_to_recovery(tmp_path: Path) -> None:
    """The log is not closed as if it were durable, and the lock is released."""

    async def fail() -> None:
        raise KafkaStorageError("the disk failed")

    first = storage(tmp_path)
    await first.open(HERE, is_alone=True)
    await first.close(fail, is_killed=False)
    second = storage(tmp_path)
    await second.open(HERE, is_alone=True)
    await second.close(None, is_killed=False)
