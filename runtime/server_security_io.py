"""The keys of a server from its files, and what its listener and its connections need of them."""

from __future__ import annotations

import logging
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError
from ..protocol.security.server_keys import (
    OwnKeys,
    ServerName,
    TrustedKeys,
    parse_own_keys,
    parse_trusted_keys,
)
from ..protocol.transport.security import ConnectionSecurity, RouterSecurity
from .server_security_config import SASL_SSL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..protocol.security.sasl import SaslFactory
    from .server_security_config import ServerSecurityConfig

log = logging.getLogger("headrace.security")

# Bound: how long a key that was added or removed has no effect.
LOOK_AGAIN_S = 1.0


class ServerSecurity:
    """The CURVE keys of one server, and the public keys of servers that it trusts, followed while it runs."""

    def __init__(self, own: OwnKeys, trusted_file: Path, config: ServerSecurityConfig) -> None:
        self.own = own
        self._file = TrustedKeysFile(trusted_file)
        self._config = config
        keys = self._file.now()
        if keys.owner(own.keys.public) != own.name:
            raise ConfigError(f"{trusted_file} does not have the public key of {own.name} itself")

    def describe(self) -> dict[str, str]:
        """Public facts for the status: the key in use, and the fingerprint of the list of trusted keys."""
        return {"public_key": self.own.keys.public.hex(), "trusted_keys": self._file.now().fingerprint}

    @property
    def connections(self) -> ConnectionSecurity:
        """Of connections to other servers."""
        return ConnectionSecurity(
            server_keys=lambda server: self._file.now().keys_of(server), own_keys=self.own.keys
        )

    def of_controller(self) -> RouterSecurity:
        """Of a listener for other servers."""
        return RouterSecurity(keys=self.own.keys, trusted=self._file.now, is_for_servers_only=True)

    @property
    def has_users(self) -> bool:
        """Whether native clients have to authenticate."""
        return self._config.native_security_protocol == SASL_SSL

    def of_node(
        self,
        sasl: Mapping[str, SaslFactory] | None,
        max_reauth_ms: Mapping[str, int],
        failed_delay_ms: Callable[[], int],
    ) -> RouterSecurity:
        """Of a listener for servers and clients. `sasl`: new exchanges by mechanism, None without users."""
        return RouterSecurity(
            keys=self.own.keys,
            trusted=self._file.now,
            sasl=None if sasl is None else lambda: sasl,
            max_reauth_ms=max_reauth_ms,
            failed_delay_ms=failed_delay_ms,
        )


def server_security(config: ServerSecurityConfig, name: ServerName) -> ServerSecurity | None:
    """None without security. Errors: ConfigError for files that are missing, unsafe, or of another server."""
    config.check_security()
    if not config.is_encrypted:
        return None
    own = read_own_keys(Path(config.server_key_file))
    if own.name != name and name.id >= 0:
        raise ConfigError(f"{config.server_key_file} is the key of {own.name}, not of {name}")
    return ServerSecurity(own, Path(config.trusted_server_keys_file), config)


def read_own_keys(path: Path) -> OwnKeys:
    """Errors: ConfigError, also for a file that others may read."""
    try:
        with path.open() as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the server key {path}: {error}") from None
    if mode & 0o077:
        raise ConfigError(f"{path} has a secret key, and others may read it: chmod 600 {path}")
    try:
        return parse_own_keys(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


class TrustedKeysFile:
    """A file of trusted keys, read again when it changes. One that cannot be read leaves the keys as they
    are."""

    def __init__(self, path: Path) -> None:
        """Errors: ConfigError."""
        self._path = path
        self._version = self._stat()
        self._keys = self._read()
        self._looked_s = time.monotonic()

    def now(self) -> TrustedKeys:
        """The keys, at most LOOK_AGAIN_S old."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_AGAIN_S:
            self._looked_s = now_s
            self._look()
        return self._keys

    def _look(self) -> None:
        try:
            version = self._stat()
            if version != self._version:
                self._keys, self._version = self._read(), version
                log.info("%s has changed: %d public keys of servers are trusted", self._path, len(self._keys))
        except ConfigError as error:
            log.warning("the trusted keys of servers stay as they are: %s", error)

    def _stat(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error}") from None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> TrustedKeys:
        try:
            return parse_trusted_keys(self._path.read_text())
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"{self._path}: {error}") from None
