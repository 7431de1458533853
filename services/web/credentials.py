"""The credentials of a request: they become those of the clients that serve it. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...clients.security_config import SASL_SSL, SecurityConfig
from ...protocol.security.sasl import GSSAPI, OAUTHBEARER, SCRAM_SHA_256
from .problems import Problem
from .settings import BASIC, BEARER, NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

_USER_KEYS = ("sasl.username", "sasl.password", "sasl.oauthbearer.token", "sasl.oauthbearer.token.file")
_USER_PREFIXES = ("sasl.kerberos.",)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name with its password, or a token. Without any of them requests act as the server's user."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def is_anonymous(self) -> bool:
        """Whether there are no credentials."""
        return not (self.username or self.token)

    def client_config(self, server: Mapping[str, Any]) -> dict[str, Any]:
        """The config of the clients: that of the server with this user in place of its own."""
        if self.is_anonymous:
            return dict(server)
        config = {
            name: value
            for name, value in server.items()
            if name not in _USER_KEYS and not name.startswith(_USER_PREFIXES)
        }
        if self.token:
            return {**config, "sasl.mechanism": OAUTHBEARER, "sasl.oauthbearer.token": self.token}
        mechanism = config.get("sasl.mechanism", SCRAM_SHA_256)
        mechanism = SCRAM_SHA_256 if mechanism in (GSSAPI, OAUTHBEARER) else mechanism
        user = {"sasl.username": self.username, "sasl.password": self.password}
        return {**config, "sasl.mechanism": mechanism, **user}


ANONYMOUS = Credentials()


def method_of(config: SecurityConfig) -> str:
    """How requests authenticate by default: `none`, `basic` or `bearer`, as the clients of the server do."""
    if config.protocol != SASL_SSL:
        return NONE
    return BEARER if config.sasl_mechanism == OAUTHBEARER else BASIC


def credentials_of(header: str | None, method: str) -> Credentials:
    """The credentials in an Authorization header. Errors: Problem 401 without them, or for malformed ones."""
    if method == NONE:
        return ANONYMOUS
    if not header:
        raise unauthorized(method, "this server needs credentials of a user of the cluster")
    scheme, _, rest = header.partition(" ")
    rest = rest.strip()
    if method == BEARER:
        if scheme.lower() != "bearer" or not rest:
            raise unauthorized(method, "the Authorization header is not `Bearer TOKEN`")
        return Credentials(token=rest)
    if scheme.lower() != "basic":
        raise unauthorized(method, "the Authorization header is not `Basic …`")
    try:
        username, separator, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise unauthorized(method, "the Authorization header is malformed") from None
    if not separator or not username or not password:
        raise unauthorized(method, "the Authorization header needs a user name and a password")
    return Credentials(username, password)


def unauthorized(method: str, detail: str) -> Problem:
    """Status 401, with the header that makes a client send credentials."""
    challenge = 'Bearer realm="headrace"' if method == BEARER else 'Basic realm="headrace", charset="UTF-8"'
    return Problem(401, detail, 40101, {"www-authenticate": challenge})
