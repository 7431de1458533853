"""The secret of an application for queries, and the CURVE keys derived from it.

Both key pairs are derived from the secret: that of the servers of all instances, and that of all handles. So
the handshake proves that both ends have the secret before a query is sent, and the secret itself is never
sent. As always with CURVE, each connection has new session keys.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.security.server_keys import NODE, CurveKeys, ServerName, TrustedKeys
from ...protocol.transport.dealer_options_io import curve_keys_of
from ...protocol.transport.security import ConnectionSecurity, RouterSecurity

if TYPE_CHECKING:
    from .security_config import QuerySecurityConfig

MIN_CHARACTERS = 16
_ASKER = ServerName(NODE, 0)


class QueryKeys(NamedTuple):
    """The key pairs of one application."""

    server: CurveKeys
    asker: CurveKeys

    @staticmethod
    def of(secret: bytes, application_id: str) -> QueryKeys:
        """The keys derived from a secret, different for each application."""

        def pair(role: str) -> CurveKeys:
            text = f"headrace stream queries\0{role}\0{application_id}".encode()
            return curve_keys_of(hmac.digest(secret, text, hashlib.sha256))

        return QueryKeys(pair("server"), pair("asker"))

    def of_server(self) -> RouterSecurity:
        """Of the port of an instance."""
        trusted = TrustedKeys([(_ASKER, self.asker.public)])
        return RouterSecurity(keys=self.server, trusted=lambda: trusted, is_for_servers_only=True)

    def of_asker(self) -> ConnectionSecurity:
        """Of the connections of a handle."""
        return ConnectionSecurity(server_keys=lambda _: (self.server.public,), own_keys=self.asker)


def query_keys(config: QuerySecurityConfig, application_id: str) -> QueryKeys | None:
    """The keys of the configured secret; None without one. Errors: ConfigError, without the secret."""
    config.check_query_security()
    if not config.has_query_secret:
        return None
    path = config.query_secret_file
    secret = read_secret(path, "query.secret.file") if path else config.query_secret
    if len(secret) < MIN_CHARACTERS:
        raise ConfigError(f"the secret for queries has less than {MIN_CHARACTERS} characters")
    return QueryKeys.of(secret.encode(), application_id)


def read_secret(path: str, key: str) -> str:
    """The stripped text of a file that only its owner can read. Errors:
    ConfigError, without the text."""
    try:
        with Path(path).expanduser().open(encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key} {path} cannot be read: {type(error).__name__}") from None
    if mode & 0o077:
        raise ConfigError(f"{key} {path} has a secret, and others may read it: chmod 600 {path}")
    return text.strip()
