"""The tokens of queries over HTTP: a file with one token per line."""

from __future__ import annotations

import base64
import binascii
import hmac

from ...protocol.errors import ConfigError
from .secrets_io import MIN_CHARACTERS, read_secret


def read_tokens(path: str) -> tuple[str, ...]:
    """The tokens of a file; lines that begin with `#` are comments. Errors: ConfigError, without a token."""
    lines = [line.strip() for line in read_secret(path, "token_file").splitlines()]
    found = tuple(line for line in lines if line and not line.startswith("#"))
    if not found or any(len(token) < MIN_CHARACTERS for token in found):
        raise ConfigError(f"token_file {path} needs tokens of at least {MIN_CHARACTERS} characters")
    return found


def has_token(authorization: str | None, path: str) -> bool:
    """Whether the header Authorization of a request has a token of the file; False if the file cannot be
    read."""
    given = token_of(authorization)
    try:
        known = read_tokens(path)
    except ConfigError:
        return False
    fits = [hmac.compare_digest(given.encode(), token.encode()) for token in known]  # all: equal times
    return any(fits)


def token_of(authorization: str | None) -> str:
    """The token of a header Authorization, Bearer or Basic; empty without one."""
    kind, _, text = (authorization or "").partition(" ")
    if kind.lower() == "bearer":
        return text.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(text, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""
