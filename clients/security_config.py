"""The config keys of encryption and authentication, with the names of confluent-kafka where it has them."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ConfigError
from ..protocol.security.logins import CLIENT_MECHANISMS
from ..protocol.security.sasl import GSSAPI, OAUTHBEARER, SCRAM_SHA_256
from ..runtime.config import Config, key

PLAINTEXT, SSL, SASL_SSL = "PLAINTEXT", "SSL", "SASL_SSL"
SECRET_KEYS = frozenset(("sasl.password", "sasl.oauthbearer.token"))


@dataclass(frozen=True, kw_only=True)
class SecurityConfig(Config):
    """Keys of all clients. In the ZeroMQ protocol SSL means CURVE, with public keys in place of
    certificates."""

    security_protocol: str = key(
        "security.protocol",
        "",
        choices=("", PLAINTEXT, SSL, SASL_SSL),
        doc="PLAINTEXT, SSL (encrypted) or SASL_SSL (encrypted and authenticated). Empty: SASL_SSL with a"
        " user name, token or GSSAPI, SSL with only a server's public key, otherwise PLAINTEXT.",
    )
    sasl_mechanism: str = key(
        "sasl.mechanism",
        SCRAM_SHA_256,
        choices=CLIENT_MECHANISMS,
        doc="SASL mechanism of the client.",
    )
    username: str = key("sasl.username", "", doc="The user, or the id of a delegation token.")
    password: str = key(
        "sasl.password", "", sensitive=True, doc="The password, or the HMAC of a delegation token in base64."
    )
    sasl_tokenauth: bool = key(
        "sasl.tokenauth", False, doc="Whether user name and password are those of a delegation token."
    )
    sasl_oauthbearer_token: str = key(
        "sasl.oauthbearer.token", "", sensitive=True, doc="The token of OAUTHBEARER."
    )
    sasl_oauthbearer_token_file: str = key(
        "sasl.oauthbearer.token.file",
        "",
        doc="File with the token of OAUTHBEARER, read again for each authentication.",
    )
    sasl_kerberos_service_name: str = key(
        "sasl.kerberos.service.name",
        "kafka",
        doc="GSSAPI: service name in the servers' principals, service/host@REALM; the host is that of the"
        " address.",
    )
    sasl_kerberos_principal: str = key(
        "sasl.kerberos.principal",
        "",
        doc="GSSAPI: the client's principal. Empty: that of the credentials cache, or the keytab's first.",
    )
    sasl_kerberos_keytab: str = key(
        "sasl.kerberos.keytab",
        "",
        doc="GSSAPI: keytab of the principal, with which the client requests tickets. Empty: use the tickets"
        " of the credentials cache, which kinit writes.",
    )
    server_public_key: tuple[str, ...] = key(
        "server.public.key",
        (),
        doc="Public keys of trusted servers, 64 hexadecimal digits each; that of one bootstrap server is"
        " enough: it sends the others.",
    )
    trusted_server_keys_file: str = key(
        "trusted.server.keys.file", "", doc="File with the public keys of the cluster's servers."
    )

    @property
    def protocol(self) -> str:
        """The security protocol in effect."""
        if self.security_protocol:
            return self.security_protocol
        if self.username or self.sasl_oauthbearer_token or self.sasl_oauthbearer_token_file:
            return SASL_SSL
        if self.sasl_mechanism == GSSAPI:
            return SASL_SSL
        return SSL if self.server_public_key or self.trusted_server_keys_file else PLAINTEXT

    def check_security(self) -> None:
        """Errors: ConfigError for keys that contradict each other."""
        protocol = self.protocol
        if protocol == PLAINTEXT:
            if self.username or self.password or self.server_public_key or self.trusted_server_keys_file:
                raise ConfigError(
                    "security.protocol=PLAINTEXT has neither users nor encryption: use SASL_SSL, or omit it"
                )
            return
        if not self.server_public_key and not self.trusted_server_keys_file:
            raise ConfigError(
                f"security.protocol={protocol} needs server.public.key or trusted.server.keys.file:"
                " without its key a server could be any program"
            )
        if protocol == SASL_SSL:
            self._check_credentials()

    def _check_credentials(self) -> None:
        if self.sasl_mechanism == OAUTHBEARER:
            if bool(self.sasl_oauthbearer_token) == bool(self.sasl_oauthbearer_token_file):
                raise ConfigError(
                    "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token or sasl.oauthbearer.token.file"
                )
        elif self.sasl_mechanism == GSSAPI:
            if self.username or self.password:
                raise ConfigError(
                    "sasl.mechanism=GSSAPI has no sasl.username and sasl.password: it takes the tickets of"
                    " kinit, or sasl.kerberos.principal and sasl.kerberos.keytab"
                )
        elif not (self.username and self.password):
            raise ConfigError(f"sasl.mechanism={self.sasl_mechanism} needs sasl.username and sasl.password")
