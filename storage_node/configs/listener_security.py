"""Security of listeners for Kafka clients: Kafka's `ssl.*` and `sasl.*` keys, for all listeners or one.

`listener.name.<name>.<key>` overrides a key for one listener, `listener.name.<name>.<mechanism>.<key>` sets
what belongs to one SASL mechanism there. Source: Kafka SslConfigs.java, SaslConfigs.java,
BrokerSecurityConfigs.java; KIP-103, KIP-651, KIP-684.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...protocol.security.jaas import JaasError, parse_jaas
from ...protocol.security.kerberos_names import DEFAULT, PrincipalToLocal
from ...protocol.security.krb5_module import service_login
from ...protocol.security.principal_mapping import PrincipalMapper, PrincipalMappingError
from ...protocol.security.sasl import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN
from ...runtime.config import KIB, MAX_INT, SECOND, Config, key

if TYPE_CHECKING:
    from collections.abc import Mapping

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
UNSECURED_VALIDATOR = "OAuthBearerUnsecuredValidatorCallbackHandler"
_VALIDATORS = (UNSECURED_VALIDATOR, "OAuthBearerValidatorCallbackHandler")
_STORE_TYPES = ("PEM", "PKCS12")
_HOUR_MS = 3_600_000
_OPTIONS = {PLAIN: "its users", GSSAPI: "principal and keyTab of a Krb5LoginModule"}
# Keys that only exist for one mechanism of one listener.
_JAAS, _HANDLER, _REAUTH = (
    "sasl.jaas.config",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


class SecurityProtocol(Enum):
    """How a listener is secured, under Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, kw_only=True)
class ListenerSecurityConfig(Config):
    """Keys that each listener may override."""

    ssl_keystore_type: str = key(
        "ssl.keystore.type", "PEM", choices=_STORE_TYPES, doc="Format of the key store; JKS is not supported."
    )
    ssl_keystore_location: str = key(
        "ssl.keystore.location",
        "",
        doc="File with the node's private key and certificate chain. A changed file is loaded within a"
        " second.",
    )
    ssl_keystore_password: str = key(
        "ssl.keystore.password", "", sensitive=True, doc="Password of a PKCS12 key store."
    )
    ssl_keystore_key: str = key(
        "ssl.keystore.key", "", sensitive=True, doc="Private key in PEM (PKCS#8), instead of a file."
    )
    ssl_keystore_certificate_chain: str = key(
        "ssl.keystore.certificate.chain", "", doc="Certificate chain in PEM, beside ssl.keystore.key."
    )
    ssl_key_password: str = key(
        "ssl.key.password", "", sensitive=True, doc="Password of an encrypted private key."
    )
    ssl_truststore_type: str = key(
        "ssl.truststore.type", "PEM", choices=_STORE_TYPES, doc="Format of the trust store."
    )
    ssl_truststore_location: str = key(
        "ssl.truststore.location",
        "",
        doc="File with the CA certificates for client certificates. A changed file is loaded within a"
        " second.",
    )
    ssl_truststore_password: str = key(
        "ssl.truststore.password", "", sensitive=True, doc="Password of a PKCS12 trust store."
    )
    ssl_truststore_certificates: str = key(
        "ssl.truststore.certificates", "", doc="Certificates of CAs in PEM, instead of a file."
    )
    ssl_client_auth: str = key(
        "ssl.client.auth",
        "none",
        choices=("none", "requested", "required"),
        doc="Whether clients show certificates. On SASL_SSL listeners it only counts if it is set for the"
        " listener.",
    )
    ssl_principal_mapping_rules: str = key(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        doc="User names from subjects of client certificates: RULE:pattern/replacement/[LU], or DEFAULT.",
    )
    ssl_enabled_protocols: tuple[str, ...] = key(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), choices=TLS_VERSIONS, doc="Versions of TLS."
    )
    ssl_protocol: str = key("ssl.protocol", "TLSv1.3", choices=TLS_VERSIONS, doc="Highest version of TLS.")
    ssl_cipher_suites: tuple[str, ...] = key(
        "ssl.cipher.suites",
        (),
        doc="Cipher suites by their IANA names; empty: OpenSSL's choice. TLS 1.3 is off without its suites.",
    )

    sasl_enabled_mechanisms: tuple[str, ...] = key(
        "sasl.enabled.mechanisms",
        (),
        doc="SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI. A SASL listener needs"
        " one.",
    )
    sasl_server_max_receive_size: int = key(
        "sasl.server.max.receive.size",
        512 * KIB,
        low=1 * KIB,
        high=MAX_INT,
        unit="bytes",
        doc="Largest request of a connection that is not authenticated.",
    )
    connections_max_reauth_ms: int = key(
        "connections.max.reauth.ms",
        0,
        low=0,
        unit="ms",
        doc="Time after which SASL clients have to authenticate again; 0: never.",
    )
    sasl_kerberos_service_name: str = key(
        "sasl.kerberos.service.name",
        "",
        doc="Service of the listener's principal, which is service/host@REALM. GSSAPI needs it.",
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = key(
        "sasl.kerberos.principal.to.local.rules",
        (DEFAULT,),
        doc="User names from Kerberos principals, in Kafka's syntax: RULE:[n:string], a regular expression in"
        " parentheses, s/pattern/replacement/g and L or U; or DEFAULT, the first component of principals of"
        " the default realm. A client to whose principal no rule applies is refused.",
    )
    oauth_jwks_url: str = key(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        doc="Key set of the OIDC provider: https://…, or file:///…",
    )
    oauth_jwks_refresh_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        _HOUR_MS,
        low=1 * SECOND,
        unit="ms",
        doc="Interval at which the key set is read again.",
    )
    oauth_expected_issuer: str = key(
        "sasl.oauthbearer.expected.issuer", "", doc="Issuer of tokens; empty: any that has the keys."
    )
    oauth_expected_audience: tuple[str, ...] = key(
        "sasl.oauthbearer.expected.audience", (), doc="Audiences of which a token needs one; empty: any."
    )
    oauth_clock_skew_seconds: int = key(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        low=0,
        high=3_600,
        unit="s",
        doc="Difference of clocks that times in tokens may have.",
    )
    oauth_scope_claim_name: str = key(
        "sasl.oauthbearer.scope.claim.name", "scope", doc="Claim with the scopes of a token."
    )
    oauth_sub_claim_name: str = key(
        "sasl.oauthbearer.sub.claim.name", "sub", doc="Claim with the user name of a token."
    )


_KEYS = tuple(ListenerSecurityConfig.keys())


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. `own` are its `listener.name` keys without prefix."""

    listener: str
    protocol: SecurityProtocol
    config: ListenerSecurityConfig
    own: Mapping[str, str] = field(repr=False)

    @property
    def client_auth(self) -> str:
        """none, requested or required."""
        is_ours = self.protocol is SecurityProtocol.SSL or "ssl.client.auth" in self.own
        return self.config.ssl_client_auth if is_ours else "none"

    def jaas(self, mechanism: str) -> str:
        """The JAAS text of a mechanism, or empty."""
        return self.own.get(f"{mechanism.lower()}.{_JAAS}", "")

    def handler(self, mechanism: str) -> str:
        """The simple name of the callback handler's class, or empty."""
        return self.own.get(f"{mechanism.lower()}.{_HANDLER}", "").rpartition(".")[2]

    def max_reauth_ms(self, mechanism: str) -> int:
        """0: never."""
        own = self.own.get(f"{mechanism.lower()}.{_REAUTH}")
        return self.config.connections_max_reauth_ms if own is None else int(own)


def listener_security(
    listener: str, protocol: SecurityProtocol, config: ListenerSecurityConfig, overrides: tuple[str, ...]
) -> ListenerSecurity:
    """`overrides` are `<name>.<key>=<value>`. Errors: ConfigError."""
    prefix = f"{listener.lower()}."
    pairs = [each.partition("=") for each in overrides]
    own = {name[len(prefix) :]: value for name, _, value in pairs if name.lower().startswith(prefix)}
    shared = {name: value for name, value in own.items() if name in _KEYS}
    for name in own.keys() - shared.keys():
        _check_of_mechanism(listener, name)
    known = config.to_mapping()
    values = {name: known[name] for name in _KEYS}
    made = ListenerSecurity(listener, protocol, ListenerSecurityConfig.of({**values, **shared}), own)
    _check(made)
    return made


def _check_of_mechanism(listener: str, name: str) -> None:
    mechanism, _, key_name = name.partition(".")
    if mechanism.upper() not in MECHANISMS or key_name not in (_JAAS, _HANDLER, _REAUTH):
        raise ConfigError(f"unknown config key listener.name.{listener.lower()}.{name[:200]}")


def _check(security: ListenerSecurity) -> None:
    """Errors: ConfigError, without the values of secrets."""
    name, config = security.listener, security.config
    if security.protocol.has_tls and not (config.ssl_keystore_location or config.ssl_keystore_key):
        raise ConfigError(f"listener {name} needs ssl.keystore.location or ssl.keystore.key")
    has_trust = config.ssl_truststore_location or config.ssl_truststore_certificates
    if security.protocol.has_tls and security.client_auth != "none" and not has_trust:
        raise ConfigError(f"listener {name} needs ssl.truststore.location or ssl.truststore.certificates")
    try:
        PrincipalMapper(config.ssl_principal_mapping_rules)
        PrincipalToLocal(config.sasl_kerberos_principal_to_local_rules)
    except PrincipalMappingError as error:
        raise ConfigError(str(error)) from error
    if security.protocol.has_sasl:
        _check_sasl(security)


def _check_sasl(security: ListenerSecurity) -> None:
    name = security.listener
    if not security.config.sasl_enabled_mechanisms:
        raise ConfigError(f"listener {name} needs sasl.enabled.mechanisms")
    for mechanism in security.config.sasl_enabled_mechanisms:
        if mechanism not in MECHANISMS:
            raise ConfigError(f"listener {name} has the unknown SASL mechanism {mechanism[:100]!r}")
        if not security.own.get(f"{mechanism.lower()}.{_REAUTH}", "0").isdecimal():
            raise ConfigError(f"listener {name}: {_REAUTH} of {mechanism} must be a whole number")
        jaas_key = f"listener.name.{name.lower()}.{mechanism.lower()}.{_JAAS}"
        text = security.jaas(mechanism)
        if mechanism in _OPTIONS and not text:
            raise ConfigError(f"{mechanism} on listener {name} needs {jaas_key}, with {_OPTIONS[mechanism]}")
        try:
            parse_jaas(text or "none required;")
            if mechanism == GSSAPI:
                service_login(text, security.config.sasl_kerberos_service_name)
        except JaasError as error:
            raise ConfigError(f"{jaas_key}: {error}") from None
        if mechanism == OAUTHBEARER:
            _check_oauth(security)


def _check_oauth(security: ListenerSecurity) -> None:
    handler, url = security.handler(OAUTHBEARER), security.config.oauth_jwks_url
    if handler and handler not in _VALIDATORS:
        raise ConfigError(f"{_HANDLER} of OAUTHBEARER must be one of {', '.join(_VALIDATORS)}")
    if handler != UNSECURED_VALIDATOR and not url:
        raise ConfigError(
            f"OAUTHBEARER on listener {security.listener} needs sasl.oauthbearer.jwks.endpoint.url;"
            f" unsecured tokens are taken only with {_HANDLER} {UNSECURED_VALIDATOR}"
        )
    if url and not url.startswith(("https://", "http://", "file:///")):
        raise ConfigError("sasl.oauthbearer.jwks.endpoint.url must be an https, http or file address")
