"""The directory id of a controller: generated once, kept, and lost with the disk."""

from dataclasses import replace

import pytest
from fake_files import FakeFiles
from headrace.controller.identity_io import load_identity, write_identity
from headrace.controller.quorum.metadata_log import METADATA_PARTITION
from headrace.protocol.errors import ConfigError, KafkaStorageError
from headrace.runtime.files.file_layer import make_directory_durably, write_file_atomically
from quorum_rig import METADATA_DIR, formatted, voters

PATH = f"{METADATA_DIR}/meta.properties"


def a_directory() -> FakeFiles:
    """An empty directory."""
    files = FakeFiles()
    make_directory_durably(files, METADATA_DIR)
    return files


def test_an_empty_directory_gets_a_durable_id() -> None:
    """Before it is returned; the next start finds the same one."""
    files = a_directory()
    made = load_identity(files, METADATA_DIR, 2)
    assert (made.is_blank, made.is_older, len(made.directory_id)) == (True, False, 16)
    found = load_identity(files.power_loss("none"), METADATA_DIR, 2)
    assert found == made


def test_a_wiped_disk_has_another_id() -> None:
    """It cannot be taken for the voter that voted."""
    ids = {load_identity(a_directory(), METADATA_DIR, 2).directory_id for _ in range(3)}
    assert len(ids) == 3


def test_a_disk_with_a_log_is_not_blank() -> None:
    """With a directory id it is part of a quorum; without one it is from an older version."""
    files = formatted(1)
    older = load_identity(files, METADATA_DIR, 1)
    assert (older.is_blank, older.is_older) == (False, True)
    now = load_identity(files, METADATA_DIR, 1)
    assert (now.is_blank, now.is_older, now.directory_id) == (False, False, older.directory_id)
    assert voters(1).voters
    assert files.exists(f"{METADATA_DIR}/{METADATA_PARTITION}")


def test_the_cluster_id_is_stored() -> None:
    files = a_directory()
    write_identity(files, METADATA_DIR, replace(load_identity(files, METADATA_DIR, 1), cluster_id="abc"))
    assert load_identity(files, METADATA_DIR, 1).cluster_id == "abc"


def test_the_directory_of_another_controller_is_refused() -> None:
    """Two controllers must not vote as one."""
    files = a_directory()
    load_identity(files, METADATA_DIR, 1)
    with pytest.raises(ConfigError, match="belongs to controller 1, not 2"):
        load_identity(files, METADATA_DIR, 2)


@pytest.mark.parametrize("content", [b"", b"node.id=1\n", b"node.id=x\ndirectory.id=y\n", b"\xff\xfe"])
def test_a_damaged_file_is_not_replaced(content: bytes) -> None:
    """A new directory id would make this disk another replica: an operator decides."""
    files = a_directory()
    write_file_atomically(files, METADATA_DIR, "meta.properties", content)
    with pytest.raises(KafkaStorageError, match="damaged"):
        load_identity(files, METADATA_DIR, 1)
    assert files.exists(PATH)
