"""One log dir: lock, identity, checkpoints, clean-shutdown marker, and each of its files damaged."""

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import InconsistentClusterIdError, KafkaStorageError
from headrace.storage_node.log.log_dir import Identity, LogDir
from log_rig import TP

META = "/d/meta.properties"


def dir_with(**content: bytes) -> tuple[FakeFiles, LogDir]:
    """A dir with these files."""
    files = FakeFiles()
    files.mkdir("/d")
    for name, data in content.items():
        files.put(f"/d/{NAMES[name]}", data)
    return files, LogDir(files, "/d")


NAMES = {
    "meta": "meta.properties",
    "recovery": "recovery-point-offset-checkpoint",
    "watermarks": "replication-offset-checkpoint",
    "clean": ".kafka_cleanshutdown",
}
GOOD = b"version=1\ncluster.id=c\nnode.id=5\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"


def test_identity_round_trip() -> None:
    """A new dir has no identity; then it belongs to one node."""
    files, log_dir = dir_with()
    log_dir.open()
    assert log_dir.identity == Identity()
    log_dir.directory_id = bytes(15) + b"\1"
    log_dir.set_identity(Identity("c", 5))
    assert files.content(META) == GOOD
    count = len(files.operations)
    log_dir.set_identity(Identity("c", 5))
    assert len(files.operations) == count
    with pytest.raises(InconsistentClusterIdError):
        log_dir.set_identity(Identity("d", 5))
    with pytest.raises(KafkaStorageError):
        log_dir.set_identity(Identity("c", 6))


def test_truncated_identity_is_never_another_identity() -> None:
    """meta.properties is truncated at every byte: the identity is complete, partial, or the dir is
    offline."""
    for end in range(len(GOOD)):
        _, log_dir = dir_with(meta=GOOD[:end])
        log_dir.open()
        if log_dir.is_online:
            assert log_dir.identity.node_id in (None, 5), end
            assert log_dir.identity.cluster_id in (None, "c", ""), end
            assert log_dir.directory_id in (None, bytes(15) + b"\1"), end


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"version=9\n", b"version=1\nnode.id=x\n", b"version=1\nnode.id=-4\n", b"no\n"],
)
def test_damaged_identity_takes_dir_offline(content: bytes) -> None:
    """The dir might belong to another node."""
    _, log_dir = dir_with(meta=content)
    log_dir.open()
    assert not log_dir.is_online
    assert "meta.properties" in str(log_dir.failure)


def test_damaged_checkpoint_counts_as_empty() -> None:
    """It makes the recovery longer, and is reported."""
    _, log_dir = dir_with(meta=GOOD, recovery=b"0\n99\nt 0 7\n", watermarks=b"0\n1\nt 0 9\n")
    log_dir.open()
    assert log_dir.recovery_points == {}
    assert log_dir.high_watermarks == {TP: 9}
    assert len(log_dir.faults) == 1


def test_clean_marker_is_removed_before_loading() -> None:
    """A later crash must not pass for a clean shutdown, even after a power loss."""
    files, log_dir = dir_with(meta=GOOD, recovery=b"0\n0\n", clean=b'{"version":0,"brokerEpoch":8}')
    log_dir.open()
    assert (log_dir.was_clean, log_dir.clean_broker_epoch) == (True, 8)
    after = LogDir(files.power_loss("none"), "/d")
    after.open()
    assert not after.was_clean


@pytest.mark.parametrize(
    "checkpoints", [{}, {"recovery": b"0\n9\n"}, {"recovery": b"0\n0\n", "watermarks": b"x"}]
)
def test_clean_shutdown_without_checkpoints_has_no_epoch(checkpoints: dict[str, bytes]) -> None:
    """The checkpoints are missing or damaged: the logs are trusted, but losses cannot be excluded."""
    _, log_dir = dir_with(meta=GOOD, clean=b'{"version":0,"brokerEpoch":8}', **checkpoints)
    log_dir.open()
    assert (log_dir.was_clean, log_dir.clean_broker_epoch) == (True, -1)


def test_lock_has_one_owner() -> None:
    """A released lock can be taken again."""
    files, log_dir = dir_with()
    log_dir.open()
    other = LogDir(files, "/d")
    with pytest.raises(KafkaStorageError, match="in use"):
        other.open()
    log_dir.release()
    other.open()


def test_disk_failure_is_reported_once(files: FakeFiles) -> None:
    """The first reason is kept."""
    files.mkdir("/d")
    response: list[tuple[str, str]] = []
    log_dir = LogDir(files, "/d", lambda path, reason: response.append((path, reason)))
    log_dir.open()
    files.fail("pwrite", "recovery")
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            log_dir.write_offsets("recovery-point-offset-checkpoint", {TP: 1})
    assert len(response) == 1
    assert "EIO" in response[0][1]


def test_huge_checkpoint_is_not_read() -> None:
    """Tampering, row 49: the dir is offline, and no memory was allocated."""
    files, _ = dir_with(meta=GOOD)

    class Huge:
        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def open(self, path: str, *, create: bool = False) -> object:
            file = files.open(path, create=create)
            if path == META:
                file.size = lambda: 1 << 40  # type: ignore[method-assign]
            return file

    log_dir = LogDir(Huge(), "/d")  # type: ignore[arg-type]
    log_dir.open()
    assert "the limit is" in str(log_dir.failure)
