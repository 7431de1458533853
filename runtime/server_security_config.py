"""The config keys of security between headrace's own servers and with native clients."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from .config import Config, key

PLAINTEXT, SSL, SASL_SSL = "PLAINTEXT", "SSL", "SASL_SSL"


@dataclass(frozen=True, kw_only=True)
class ServerSecurityConfig(Config):
    """Keys that storage nodes and controllers have in common."""

    native_security_protocol: str = key(
        "native.security.protocol",
        PLAINTEXT,
        choices=(PLAINTEXT, SSL, SASL_SSL),
        doc="Security of the native listener and between servers: PLAINTEXT is none; with SSL and SASL_SSL"
        " connections are encrypted by CURVE and servers know each other by their keys; with SASL_SSL clients"
        " also authenticate.",
    )
    server_key_file: str = key(
        "server.key.file", "", doc="File with the name and the CURVE key pair of this server, mode 0600."
    )
    trusted_server_keys_file: str = key(
        "trusted.server.keys.file",
        "",
        doc="File with the names and public keys of all servers of the cluster; read again when it changes.",
    )

    @property
    def is_encrypted(self) -> bool:
        """Whether the native listener has CURVE."""
        return self.native_security_protocol != PLAINTEXT

    def check_security(self) -> None:
        """Errors: ConfigError if key files are missing."""
        if self.is_encrypted and not (self.server_key_file and self.trusted_server_keys_file):
            raise ConfigError(
                f"native.security.protocol={self.native_security_protocol} needs server.key.file and"
                " trusted.server.keys.file"
            )
