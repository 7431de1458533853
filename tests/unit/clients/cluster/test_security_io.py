"""The security of connections from a config, with its files."""

from pathlib import Path
from typing import Any

import pytest
from headrace.clients.cluster.security_io import connection_security
from headrace.clients.config import ConnectionConfig
from headrace.protocol.errors import ConfigError
from headrace.protocol.security.logins import BearerLogin, PlainLogin, ScramLogin

KEY, OTHER = b"k" * 32, b"o" * 32


def made(**given: Any) -> Any:
    """The security, and the keys, of a client with these keys of the config."""
    return connection_security(ConnectionConfig.of(given))


def test_without_security() -> None:
    """No keys, no credentials."""
    security, keys = made()
    assert (security.server_keys, security.credentials, keys) == (None, None, None)


def test_server_keys_are_read_from_config_and_file(tmp_path: Path) -> None:
    """Together; a bad file is an error that names it."""
    path = tmp_path / "trusted.keys"
    path.write_text(f"node-1 {KEY.hex()}\n")
    security, _ = made(trusted_server_keys_file=str(path), server_public_key=OTHER.hex())
    assert security.possible_keys("a:1") == (OTHER, KEY)
    path.write_text("")
    with pytest.raises(ConfigError, match="has no keys"):
        made(trusted_server_keys_file=str(path))
    with pytest.raises(ConfigError, match="gone"):
        made(trusted_server_keys_file=str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match="64 hexadecimal"):
        made(server_public_key="12")


def test_each_mechanism_has_its_login(tmp_path: Path) -> None:
    """A token file is read for each authentication; the user is named, the password is not."""
    given = {"server_public_key": KEY.hex(), "username": "alice", "password": "secret"}
    for mechanism, kind in (("PLAIN", PlainLogin), ("SCRAM-SHA-512", ScramLogin)):
        credentials = made(sasl_mechanism=mechanism, **given)[0].credentials
        assert isinstance(credentials.new_login("host"), kind)
        assert credentials.name == "user 'alice'"
        assert "secret" not in repr(credentials)
    assert made(sasl_tokenauth=True, **given)[0].credentials.name == "delegation token 'alice'"
    path = tmp_path / "token"
    path.write_text("zero")
    bearer = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_file": str(path)}
    credentials = made(server_public_key=KEY.hex(), **bearer)[0].credentials
    for token in ("one", "two"):
        path.write_text(f"{token}\n")
        login = credentials.new_login("host")
        assert isinstance(login, BearerLogin)
        assert token.encode() in login.first()
    path.unlink()
    with pytest.raises(ConfigError, match="token"):
        credentials.new_login("host")
