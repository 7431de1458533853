"""The SASL mechanisms of one listener, made from its configuration."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...protocol.security.jaas import JaasModule, parse_jaas
from ...protocol.security.krb5_module import service_login
from ...protocol.security.oauthbearer import OAuthBearerServer
from ...protocol.security.plain import PlainServer, plain_users
from ...protocol.security.sasl import GSSAPI, OAUTHBEARER, PLAIN
from ...protocol.security.scram import NONCE_BYTES, SCRAM_MECHANISMS, nonce_of
from ...protocol.security.scram_server import ScramSaslServer
from ...protocol.security.token_claims import Expectations, UnsecuredValidator
from ...runtime.extras import missing_extra
from ...storage_node.configs.listener_security import UNSECURED_VALIDATOR
from .sasl_session import SaslOffer

if TYPE_CHECKING:
    from ...protocol.security.jwks_io import ProviderKeys
    from ...protocol.security.kerberos_io import KerberosAcceptor
    from ...protocol.security.oauthbearer import TokenValidator
    from ...protocol.security.sasl import SaslFactory, SaslServer
    from ...protocol.security.scram import ScramMechanism
    from ...protocol.security.scram_server import CredentialLookup
    from ...storage_node.configs.listener_security import ListenerSecurity

_UNSECURED = "unsecuredValidator"  # prefix of the options of Kafka's unsecured validator


class SaslSetup:
    """The offer of one listener."""

    def __init__(self, security: ListenerSecurity, credentials: CredentialLookup) -> None:
        """Errors: ConfigError."""
        self._security, self._credentials = security, credentials
        self._keys: ProviderKeys | None = None
        self._acceptor: KerberosAcceptor | None = None
        mechanisms = security.config.sasl_enabled_mechanisms
        self.offer = SaslOffer(
            {mechanism: self._factory(mechanism) for mechanism in mechanisms},
            {mechanism: security.max_reauth_ms(mechanism) for mechanism in mechanisms},
        )

    def close(self) -> None:
        """Stop reading the keys of the OIDC provider, and the threads of GSSAPI."""
        if self._keys is not None:
            self._keys.close()
        if self._acceptor is not None:
            self._acceptor.close()

    def _factory(self, mechanism: str) -> SaslFactory:
        if mechanism == PLAIN:
            return partial(PlainServer, plain_users(self._module(mechanism)))
        if mechanism == OAUTHBEARER:
            return partial(OAuthBearerServer, self._validator())
        if mechanism == GSSAPI:
            return self._kerberos()
        return partial(self._scram, SCRAM_MECHANISMS[mechanism])

    def _scram(self, mechanism: ScramMechanism) -> SaslServer:
        return ScramSaslServer(mechanism, self._credentials, nonce_of(secrets.token_bytes(NONCE_BYTES)))

    def _kerberos(self) -> SaslFactory:
        try:
            from ...protocol.security.kerberos_io import KerberosAcceptor
        except ImportError as error:
            raise ConfigError(str(missing_extra(error, "GSSAPI", "kerberos"))) from error
        security = self._security
        config = security.config
        login = service_login(security.jaas(GSSAPI), config.sasl_kerberos_service_name)
        self._acceptor = KerberosAcceptor(login, config.sasl_kerberos_principal_to_local_rules)
        return self._acceptor.new_server

    def _module(self, mechanism: str) -> JaasModule:
        text = self._security.jaas(mechanism)
        return parse_jaas(text)[0] if text else JaasModule("", "required", {})

    def _validator(self) -> TokenValidator:
        config = self._security.config
        if self._security.handler(OAUTHBEARER) == UNSECURED_VALIDATOR:
            return UnsecuredValidator(_unsecured(self._module(OAUTHBEARER)))
        try:
            from ...protocol.security.jwks import JwksValidator
            from ...protocol.security.jwks_io import ProviderKeys
        except ImportError as error:
            raise ConfigError(str(missing_extra(error, "OAUTHBEARER", "security"))) from error
        expected = Expectations(
            config.oauth_expected_issuer,
            config.oauth_expected_audience,
            config.oauth_clock_skew_seconds * 1000,
            config.oauth_scope_claim_name,
            config.oauth_sub_claim_name,
        )
        self._keys = keys = ProviderKeys(config.oauth_jwks_url, config.oauth_jwks_refresh_ms)
        return JwksValidator(expected, keys.latest, keys.refresh_soon)


def _unsecured(module: JaasModule) -> Expectations:
    """The options of Kafka's unsecured validator. Errors: ConfigError."""
    options = module.options
    skew = options.get(f"{_UNSECURED}AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigError(f"{_UNSECURED}AllowableClockSkewMs must be a whole number")
    return Expectations(
        clock_skew_ms=int(skew),
        scope_claim=options.get(f"{_UNSECURED}ScopeClaimName", "scope"),
        sub_claim=options.get(f"{_UNSECURED}PrincipalClaimName", "sub"),
        required_scopes=frozenset(options.get(f"{_UNSECURED}RequiredScope", "").split()),
    )
