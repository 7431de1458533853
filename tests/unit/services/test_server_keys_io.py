"""The key files of a cluster, and their replacement step by step."""

from pathlib import Path

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.security.server_keys import CONTROLLER, NODE, ServerName
from headrace.runtime.server_security_io import read_own_keys
from headrace.services.server_keys_io import ServerKeyFolder

NODE_1, CONTROLLER_1 = ServerName(NODE, 1), ServerName(CONTROLLER, 1)


def test_keys_are_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    """A server that is added later gets its own; the others keep theirs."""
    folder = ServerKeyFolder(tmp_path / "security")
    folder.make([NODE_1])
    first = read_own_keys(folder.key_file(NODE_1))
    folder.make([NODE_1, CONTROLLER_1])
    assert read_own_keys(folder.key_file(NODE_1)) == first
    assert folder.trusted().owner(first.keys.public) == NODE_1
    assert len(folder.trusted()) == 2
    assert folder.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.folder.iterdir()} == {0o600}
    assert folder.config_of(NODE_1)["server.key.file"] == str(folder.key_file(NODE_1))


def test_a_key_is_replaced_in_steps_that_may_be_repeated(tmp_path: Path) -> None:
    """At each step both the running server's key and the next one are trusted."""
    folder = ServerKeyFolder(tmp_path)
    folder.make([NODE_1])
    old = read_own_keys(folder.key_file(NODE_1)).keys.public
    folder.announce(NODE_1)
    folder.announce(NODE_1)  # a crash in between
    new, kept = folder.trusted().keys_of("node-1")
    assert kept == old
    assert read_own_keys(folder.key_file(NODE_1)).keys.public == old
    folder.adopt(NODE_1)
    folder.adopt(NODE_1)
    assert read_own_keys(folder.key_file(NODE_1)).keys.public == new
    assert folder.trusted().keys_of("node-1") == (new, old)
    folder.forget_old(NODE_1)
    folder.forget_old(NODE_1)
    assert folder.trusted().keys_of("node-1") == (new,)


def test_a_trusted_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is not replaced by an empty one."""
    folder = ServerKeyFolder(tmp_path)
    folder.trusted_file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"trusted\.keys"):
        folder.make([NODE_1])
