"""SASL PLAIN: user name and password in one message. Pure.

Source: RFC 4616; Kafka PlainSaslServer.java, PlainServerCallbackHandler.java.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from .principals import user
from .sasl import DIFFERENT_AUTHORIZATION_ID, Authenticated, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .jaas import JaasModule
    from .sasl import SaslResult

MAX_MESSAGE_BYTES = 16 * 1024
USER_PREFIX = "user_"  # of the options of PlainLoginModule
_WRONG = "Authentication failed: Invalid username or password"


def plain_users(module: JaasModule) -> dict[str, str]:
    """The passwords by user name in the options of Kafka's PlainLoginModule: `user_<name>="password"`."""
    return {
        name.removeprefix(USER_PREFIX): password
        for name, password in module.options.items()
        if name.startswith(USER_PREFIX)
    }


class PlainServer:
    """Fulfils SaslServer."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, response: bytes, _wall_ms: int, /) -> SaslResult:
        """The message: authorization id, user name and password, with NUL between."""
        try:
            authorization_id, name, password = _parts(response)
        except ValueError as error:
            return Refused(f"Invalid SASL/PLAIN response: {error}", str(error))
        known = self._passwords.get(name)
        # An unknown user takes as long as a wrong password.
        is_right = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not is_right:
            return Refused(_WRONG, "invalid user name or password")
        if authorization_id not in ("", name):
            return Refused(DIFFERENT_AUTHORIZATION_ID, "the authorization id is not the user name")
        return Authenticated(b"", user(name))


def _parts(response: bytes) -> list[str]:
    """Errors: ValueError without the message's content."""
    if len(response) > MAX_MESSAGE_BYTES:
        raise ValueError(f"the message has {len(response)} bytes")
    try:
        parts = response.decode().split("\0")
    except UnicodeDecodeError:
        parts = []
    if not parts:
        raise ValueError("the message is not UTF-8")
    if len(parts) != 3:
        raise ValueError(f"the message has {len(parts)} parts, not 3")
    if not parts[1]:
        raise ValueError("the user name is empty")
    if not parts[2]:
        raise ValueError("the password is empty")
    return parts
