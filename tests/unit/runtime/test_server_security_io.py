"""A server's keys from its files: which are refused, and that changes are noticed."""

from pathlib import Path

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.security.server_keys import NODE, ServerName
from headrace.runtime import server_security_io
from headrace.runtime.server_security_config import ServerSecurityConfig
from headrace.runtime.server_security_io import TrustedKeysFile, server_security
from headrace.services.server_keys_io import ServerKeyFolder

NODE_1, NODE_2 = ServerName(NODE, 1), ServerName(NODE, 2)


def config(
    folder: ServerKeyFolder, name: ServerName = NODE_1, protocol: str = "SASL_SSL"
) -> ServerSecurityConfig:
    """The config of a server of the folder."""
    return ServerSecurityConfig.of({"native.security.protocol": protocol, **folder.config_of(name)})


@pytest.fixture
def folder(tmp_path: Path) -> ServerKeyFolder:
    """The keys of two nodes."""
    folder = ServerKeyFolder(tmp_path)
    folder.make([NODE_1, NODE_2])
    return folder


def test_listeners_and_connections_of_a_server(folder: ServerKeyFolder) -> None:
    """Users at nodes with SASL_SSL only; controllers are for servers."""
    security = server_security(config(folder), NODE_1)
    assert security is not None
    assert security.of_controller().is_for_servers_only
    assert security.has_users
    with_users = security.of_node({}, {}, lambda: 7)
    assert with_users.sasl is not None
    assert with_users.failed_delay_ms() == 7
    assert security.connections.possible_keys("node-2") == folder.trusted().keys_of("node-2")
    encrypted = server_security(config(folder, protocol="SSL"), NODE_1)
    assert encrypted is not None
    assert not encrypted.has_users
    assert encrypted.of_node(None, {}, lambda: 7).sasl is None
    assert server_security(ServerSecurityConfig(), NODE_1) is None


def test_files_that_are_refused(folder: ServerKeyFolder) -> None:
    """Of another server, readable by others, missing, or not trusted."""
    with pytest.raises(ConfigError, match="is the key of node-2, not of node-1"):
        server_security(config(folder, NODE_2), NODE_1)
    folder.key_file(NODE_1).chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        server_security(config(folder), NODE_1)
    folder.key_file(NODE_1).unlink()
    with pytest.raises(ConfigError, match="cannot read the server key"):
        server_security(config(folder), NODE_1)
    folder.trusted_file.write_text("")
    with pytest.raises(ConfigError, match="does not have the public key of node-2 itself"):
        server_security(config(folder, NODE_2), NODE_2)
    missing = ServerSecurityConfig(native_security_protocol="SSL")
    with pytest.raises(ConfigError, match=r"needs server\.key\.file"):
        missing.check_security()


def test_a_changed_file_is_read_again_and_a_bad_one_is_not(
    folder: ServerKeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within LOOK_AGAIN_S, which is none here."""
    monkeypatch.setattr(server_security_io, "LOOK_AGAIN_S", 0.0)
    found = TrustedKeysFile(folder.trusted_file)
    assert len(found.now()) == 2
    folder.announce(NODE_1)
    assert len(found.now()) == 3
    folder.trusted_file.write_text("garbage")
    assert len(found.now()) == 3
    folder.trusted_file.unlink()
    assert len(found.now()) == 3
