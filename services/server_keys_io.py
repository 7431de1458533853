"""The key files of a cluster's servers: made when it is created, and replaced one by one.

A folder has `<server>.key` for each server, mode 0600, and `trusted.keys` with all public keys. Replacing a
key has three steps, between which all servers go on: 1. `announce`: a new pair is written beside the old one,
and its public key is trusted; 2. `adopt`: the server's file gets the new pair, and it is restarted;
3. `forget_old`: the old public key is not trusted any more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError
from ..protocol.security.server_keys import OwnKeys, TrustedKeys, parse_trusted_keys, server_name
from ..protocol.transport.dealer_options_io import new_curve_keys
from ..runtime.server_security_io import read_own_keys
from .private_files_io import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ..protocol.security.server_keys import ServerName

TRUSTED_FILE = "trusted.keys"
ROTATION_FILE = "rotated"  # while keys of all servers are replaced: those that have new ones


class ServerKeyFolder:
    """The key files of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trusted_file = folder / TRUSTED_FILE
        self._rotation_file = folder / ROTATION_FILE

    def make(self, names: Iterable[ServerName]) -> None:
        """Make the keys of servers that have none; the others keep theirs. Errors: OSError, ConfigError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        trusted = self.trusted()
        for name in names:
            if not self.key_file(name).exists():
                write_private(self.key_file(name), OwnKeys(name, new_curve_keys()).to_text())
            key = read_own_keys(self.key_file(name)).keys.public
            if trusted.owner(key) is None:
                trusted = trusted.with_key(name, key)
        write_private(self.trusted_file, trusted.to_text())

    def config_of(self, name: ServerName) -> dict[str, str]:
        """The config keys of this server."""
        return {
            "server.key.file": str(self.key_file(name)),
            "trusted.server.keys.file": str(self.trusted_file),
        }

    def key_file(self, name: ServerName) -> Path:
        """The file with the server's own pair."""
        return self.folder / f"{name}.key"

    def trusted(self) -> TrustedKeys:
        """All public keys; none before the first is made. Errors: ConfigError."""
        try:
            return parse_trusted_keys(self.trusted_file.read_text())
        except FileNotFoundError:
            return TrustedKeys()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.trusted_file}: {error}") from None

    def public_key(self, name: ServerName) -> str:
        """The public key of the server's file, hexadecimal. Errors: ConfigError."""
        return read_own_keys(self.key_file(name)).keys.public.hex()

    # --- replacing a key --------------------------------------------------------------------------------

    def rotated(self) -> list[ServerName]:
        """The servers that have new keys of a rotation which has not ended. Errors: ConfigError."""
        try:
            return [server_name(line) for line in self._rotation_file.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def write_rotated(self, names: Iterable[ServerName]) -> None:
        """Behind step 3 of a server. Errors: OSError."""
        write_private(self._rotation_file, "".join(f"{name}\n" for name in names))

    def end_rotation(self) -> None:
        """All servers have new keys."""
        self._rotation_file.unlink(missing_ok=True)

    def has_adopted(self, name: ServerName) -> bool:
        """Whether the server is between step 2 and step 3."""
        return len(self.trusted().keys_of(str(name))) > 1 and not self._next_file(name).exists()

    def announce(self, name: ServerName) -> None:
        """Step 1; repeated after a crash it changes nothing. Errors: OSError, ConfigError."""
        next_file = self._next_file(name)
        if not next_file.exists():
            write_private(next_file, OwnKeys(name, new_curve_keys()).to_text())
        key = read_own_keys(next_file).keys.public
        write_private(self.trusted_file, self.trusted().with_key(name, key).to_text())

    def adopt(self, name: ServerName) -> None:
        """Step 2, before the server is restarted, and a while after step 1: all servers trust the key then.
        Errors: OSError."""
        if self._next_file(name).exists():
            os.replace(self._next_file(name), self.key_file(name))

    def forget_old(self, name: ServerName) -> None:
        """Step 3, once the server runs with its new key. Errors: OSError, ConfigError."""
        key = read_own_keys(self.key_file(name)).keys.public
        trusted = self.trusted().with_key(name, key).without_old_keys(name)
        write_private(self.trusted_file, trusted.to_text())

    def _next_file(self, name: ServerName) -> Path:
        return self.folder / f"{name}.next.key"
