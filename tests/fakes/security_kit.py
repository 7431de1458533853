"""Users, keys, and a router that requires authentication, for tests of security on the native plane."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

from headrace.protocol.security.logins import BearerLogin, PlainLogin, ScramLogin
from headrace.protocol.security.plain import PlainServer
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import SaslServer
from headrace.protocol.security.scram import (
    NONCE_BYTES,
    SCRAM_MECHANISMS,
    ScramAccount,
    ScramMechanism,
    credential_from_password,
    nonce_of,
)
from headrace.protocol.security.scram_server import ScramSaslServer
from headrace.protocol.security.server_keys import NODE, CurveKeys, ServerName, TrustedKeys
from headrace.protocol.transport.dealer_io import Connection
from headrace.protocol.transport.dealer_options_io import new_curve_keys
from headrace.protocol.transport.peers import RouterLimits
from headrace.protocol.transport.security import ConnectionSecurity, Credentials, RouterSecurity
from transport_kit import APIS, PATIENCE_S, Served

PASSWORDS = {"alice": "secret", "bob": "other"}
SCRAM = "SCRAM-SHA-256"


class Users:
    """The accounts of a cluster; implements CredentialLookup. `tokens`: HMACs by token id, owned by alice."""

    def __init__(self) -> None:
        self.passwords = dict(PASSWORDS)
        self.tokens: dict[str, tuple[str, int]] = {}

    def scram_account(self, mechanism: ScramMechanism, name: str, by_token: bool) -> ScramAccount | None:
        found = self.tokens.get(name) if by_token else (self.passwords.get(name), None)
        if found is None or found[0] is None:
            return None
        credential = credential_from_password(mechanism, found[0], b"salt")
        return ScramAccount(
            credential, user("alice" if by_token else name), found[1], name if by_token else ""
        )

    def factories(self) -> dict[str, Any]:
        def scram(mechanism: ScramMechanism) -> SaslServer:
            return ScramSaslServer(mechanism, self, nonce_of(secrets.token_bytes(NONCE_BYTES)))

        return {
            "PLAIN": lambda: PlainServer(self.passwords),
            **{name: lambda kind=kind: scram(kind) for name, kind in SCRAM_MECHANISMS.items()},
        }


def credentials(
    username: str = "alice", password: str = "secret", mechanism: str = SCRAM, *, by_token: bool = False
) -> Credentials:
    """The settings with which a client authenticates."""

    def new_login(_host: str) -> Any:
        if mechanism == "PLAIN":
            return PlainLogin(username, password)
        if mechanism == "OAUTHBEARER":
            return BearerLogin(password)
        nonce = nonce_of(secrets.token_bytes(NONCE_BYTES))
        return ScramLogin(SCRAM_MECHANISMS[mechanism], username, password, nonce, by_token=by_token)

    return Credentials(mechanism=mechanism, new_login=new_login, name=f"user {username}")


class Secured(Served):
    """A router that requires authentication, with CURVE unless `is_plain`; server node-1 is trusted."""

    def __init__(
        self, limits: RouterLimits | None = None, *, is_plain: bool = False, **security: Any
    ) -> None:
        self.users = Users()
        self.keys, self.node_keys = new_curve_keys(), new_curve_keys()
        self.trusted = TrustedKeys([(ServerName(NODE, 1), self.node_keys.public)])
        self.warnings: list[str] = []
        facts = {"sasl": self.users.factories, "failed_delay_ms": lambda: 1, **security}
        keys = None if is_plain else self.keys
        self.security = RouterSecurity(keys=keys, trusted=lambda: self.trusted, **facts)
        super().__init__(limits, APIS, self.security)
        self.router.warn = lambda _kind, text: self.warnings.append(text)

    def curve_options(self, own: CurveKeys | None = None) -> dict[str, bytes]:
        """Of a raw peer: with an unknown key, or with `own`."""
        own = own or new_curve_keys()
        return {
            "CURVE_SERVERKEY": self.keys.public,
            "CURVE_PUBLICKEY": own.public,
            "CURVE_SECRETKEY": own.secret,
        }

    async def open(self, login: Credentials | None = None, **security: Any) -> Connection:
        facts = {"server_keys": lambda _server: (self.keys.public,), "credentials": login, **security}
        if self.security.keys is None:
            facts["server_keys"] = None
        return await Connection.open(
            "127.0.0.1",
            self.router.port,
            client_id="client",
            timeout_s=PATIENCE_S,
            security=ConnectionSecurity(**facts),
        )


@contextlib.asynccontextmanager
async def secured(limits: RouterLimits | None = None, **security: Any) -> AsyncIterator[Secured]:
    """A started router with security, which is closed at the end."""
    served = Secured(limits, **security)
    served.router.start()
    try:
        yield served
    finally:
        served.router.close()
