"""Config keys of the security of queries between processes; Kafka does not have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from ...runtime.config import Config, key

if TYPE_CHECKING:
    from collections.abc import Mapping

NONE, SECRET = "NONE", "SECRET"
_PREFIXES = ("query.sec", "query_sec")


@dataclass(frozen=True, kw_only=True)
class QuerySecurityConfig(Config):
    """Keys of instances with an application.server, and of the handles that query them."""

    query_security: str = key(
        "query.security",
        "",
        choices=("", NONE, SECRET),
        doc="SECRET: queries of other processes are encrypted, and need the secret of the application. Empty:"
        " SECRET with a secret, or if the clients of the application have another security.protocol than"
        " PLAINTEXT, else NONE.",
    )
    query_secret: str = key(
        "query.secret",
        "",
        sensitive=True,
        doc="The secret of the application for queries, at least 16 characters.",
    )
    query_secret_file: str = key(
        "query.secret.file",
        "",
        doc="File with the secret of the application for queries, readable by its owner alone.",
    )

    def check_query_security(self) -> None:
        """Errors: ConfigError for keys that contradict each other."""
        if self.query_secret and self.query_secret_file:
            raise ConfigError("query.secret and query.secret.file are both set: one of them is enough")
        if self.query_security == NONE and self.has_query_secret:
            raise ConfigError("query.security=NONE has no secret: omit it, or query.secret and its file")

    @property
    def has_query_secret(self) -> bool:
        """Whether a secret is configured."""
        return bool(self.query_secret or self.query_secret_file)

    def needs_query_secret(self, protocol: str) -> bool:
        """Whether an instance with these keys and clients of this security protocol requires the secret.
        Errors: ConfigError if it must, and has none.
        """
        if self.query_security == NONE:
            return False
        if self.has_query_secret:
            return True
        reason = "query.security=SECRET" if self.query_security else f"security.protocol={protocol}"
        if self.query_security == SECRET or protocol != "PLAINTEXT":
            raise ConfigError(
                f"application.server with {reason} needs query.secret.file, a file with at least 16"
                " characters that all instances share; query.security=NONE answers all that reach the port"
            )
        return False


def split_query_security(config: Mapping[str, Any]) -> tuple[QuerySecurityConfig, dict[str, Any]]:
    """The keys of the security of queries, and the others, which are those of a client. Errors:
    ConfigError."""
    own = {name: value for name, value in config.items() if name.startswith(_PREFIXES)}
    others = {name: value for name, value in config.items() if name not in own}
    return QuerySecurityConfig.of(own), others
