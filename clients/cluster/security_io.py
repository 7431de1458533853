"""The security of a client's connections, from its config."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...protocol.security.gssapi_sasl import GssapiLogin
from ...protocol.security.logins import BearerLogin, PlainLogin, ScramLogin
from ...protocol.security.sasl import GSSAPI, OAUTHBEARER, PLAIN
from ...protocol.security.scram import NONCE_BYTES, SCRAM_MECHANISMS, nonce_of
from ...protocol.security.server_keys import parse_trusted_keys, public_key
from ...protocol.transport.security import NO_SECURITY, ConnectionSecurity, Credentials
from ...runtime.extras import missing_extra
from ..security_config import PLAINTEXT, SASL_SSL
from .server_keys import ServerKeys

if TYPE_CHECKING:
    from ...protocol.transport.security import Login
    from ..security_config import SecurityConfig


def connection_security(config: SecurityConfig) -> tuple[ConnectionSecurity, ServerKeys | None]:
    """The security of all connections of a client. Errors: ConfigError."""
    if config.protocol == PLAINTEXT:
        return NO_SECURITY, None
    keys = ServerKeys(lambda: [*map(public_key, config.server_public_key), *_keys_of_file(config)])
    credentials = _credentials(config) if config.protocol == SASL_SSL else None
    if credentials is not None:
        credentials.new_login("")  # errors of the config are known before a connection
    security = ConnectionSecurity(server_keys=keys.keys_for, credentials=credentials, learned=keys.learn)
    return security, keys


def _keys_of_file(config: SecurityConfig) -> tuple[bytes, ...]:
    path = config.trusted_server_keys_file
    if not path:
        return ()
    try:
        keys = parse_trusted_keys(Path(path).expanduser().read_text()).keys_of()
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"trusted.server.keys.file {path}: {error}") from None
    if not keys:
        raise ConfigError(f"trusted.server.keys.file {path} has no keys")
    return keys


def _credentials(config: SecurityConfig) -> Credentials:
    if config.sasl_mechanism == OAUTHBEARER:
        return Credentials(
            mechanism=OAUTHBEARER,
            new_login=lambda _host: BearerLogin(_token(config)),
            name="the bearer of the token",
        )
    if config.sasl_mechanism == GSSAPI:
        return _kerberos(config)

    def new_login(_host: str) -> Login:
        if config.sasl_mechanism == PLAIN:
            return PlainLogin(config.username, config.password)
        return ScramLogin(
            SCRAM_MECHANISMS[config.sasl_mechanism],
            config.username,
            config.password,
            nonce_of(secrets.token_bytes(NONCE_BYTES)),
            by_token=config.sasl_tokenauth,
        )

    kind = "delegation token" if config.sasl_tokenauth else "user"
    return Credentials(
        mechanism=config.sasl_mechanism, new_login=new_login, name=f"{kind} {config.username!r}"
    )


def _kerberos(config: SecurityConfig) -> Credentials:
    """Errors: ConfigError without the library, or for a keytab that cannot be read."""
    try:
        from ...protocol.security.kerberos_io import new_initiator
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "GSSAPI", "kerberos"))) from error
    service, principal = config.sasl_kerberos_service_name, config.sasl_kerberos_principal
    keytab = _keytab(config.sasl_kerberos_keytab)
    return Credentials(
        mechanism=GSSAPI,
        new_login=lambda host: GssapiLogin(lambda: new_initiator(service, host, principal, keytab)),
        name=f"principal {principal!r}" if principal else "the principal of the Kerberos tickets",
    )


def _keytab(path: str) -> str:
    """Errors: ConfigError. Without the check the library would say that the cache has no tickets."""
    if not path:
        return path
    keytab = Path(path.removeprefix("FILE:")).expanduser()
    try:
        with keytab.open("rb"):
            return str(keytab)
    except OSError as error:
        raise ConfigError(f"sasl.kerberos.keytab {path}: {error}") from None


def _token(config: SecurityConfig) -> str:
    """Errors: ConfigError, without the token."""
    path = config.sasl_oauthbearer_token_file
    if not path:
        return config.sasl_oauthbearer_token
    try:
        return Path(path).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"sasl.oauthbearer.token.file {path}: {error}") from None
