"""CURVE keys of servers: a server's own pair, and the public keys that a server or a client trusts. Pure.

Keys are 32 bytes, 64 hexadecimal digits as text: unlike ZeroMQ's own notation these are safe in shells, URLs
and YAML.

A file of a pair has the lines `name`, `public` and `secret`; one of trusted keys has a line for each key, the
server's name and the key. While a key is replaced, a name has two keys.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_BYTES = 32
NODE = "node"
CONTROLLER = "controller"
FINGERPRINT_DIGITS = 16
# Bound: keys of one server, which clients try one after the other.
MAX_KEYS_PER_SERVER = 4
_NAME = re.compile(rf"({NODE}|{CONTROLLER})-([0-9]{{1,10}})")


class ServerName(NamedTuple):
    """A server of the cluster: `node-1`, `controller-2`."""

    kind: str
    id: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.id}"


class CurveKeys(NamedTuple):
    """A key pair. Its secret key is not printed."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"CurveKeys(public={self.public.hex()})"


def server_name(text: str) -> ServerName:
    """Errors: ConfigError."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise ConfigError(f"a server's name is node-<id> or controller-<id>, not {text!r}")
    return ServerName(found[1], int(found[2]))


def public_key(text: str) -> bytes:
    """Errors: ConfigError, without the text, which may be a secret by mistake."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"a server's public key has {2 * KEY_BYTES} hexadecimal digits")
    return key


class OwnKeys(NamedTuple):
    """The name of a server and its key pair."""

    name: ServerName
    keys: CurveKeys

    def to_text(self) -> str:
        """The content of a key file."""
        return f"name {self.name}\npublic {self.keys.public.hex()}\nsecret {self.keys.secret.hex()}\n"


def parse_own_keys(text: str) -> OwnKeys:
    """The content of a key file. Errors: ConfigError, without the text."""
    parts = dict(line.split(None, 1) for line in text.splitlines() if len(line.split(None, 1)) == 2)
    if parts.keys() != {"name", "public", "secret"}:
        raise ConfigError("a server's key file has the lines name, public and secret")
    pair = CurveKeys(public_key(parts["public"]), public_key(parts["secret"]))
    return OwnKeys(server_name(parts["name"].strip()), pair)


class TrustedKeys:
    """The public keys of the servers of a cluster. Immutable."""

    def __init__(self, pairs: Iterable[tuple[ServerName, bytes]] = ()) -> None:
        """The newest key of a server comes first; servers are sorted by name."""
        self._of: dict[ServerName, tuple[bytes, ...]] = {}
        self._owner: dict[bytes, ServerName] = {}
        for name, key in sorted(pairs, key=lambda pair: pair[0]):
            if self._owner.setdefault(key, name) != name:
                raise ConfigError(f"{name} and {self._owner[key]} have the same public key")
            known = self._of.get(name, ())
            if key not in known:
                self._of[name] = (*known, key)
            if len(self._of[name]) > MAX_KEYS_PER_SERVER:
                raise ConfigError(f"{name} has more than {MAX_KEYS_PER_SERVER} public keys")

    def __len__(self) -> int:
        return len(self._owner)

    def owner(self, key: bytes) -> ServerName | None:
        """The server with this key; None for any other key."""
        return self._owner.get(key)

    def keys_of(self, server: str = "") -> tuple[bytes, ...]:
        """The keys of the server with this name, or of all servers of this kind, or of all servers."""
        return tuple(
            key for name, keys in self._of.items() for key in keys if server in ("", name.kind, str(name))
        )

    def with_key(self, name: ServerName, key: bytes) -> TrustedKeys:
        """These keys and a new one of this server."""
        return TrustedKeys([(name, key), *self._pairs()])

    def without_old_keys(self, name: ServerName) -> TrustedKeys:
        """These keys, of this server only the newest."""
        newest = self._of.get(name, ())[:1]
        return TrustedKeys(pair for pair in self._pairs() if pair[0] != name or pair[1] in newest)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits; equal for equal lists."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()[:FINGERPRINT_DIGITS]

    def to_text(self) -> str:
        """The content of a file of trusted keys."""
        return "".join(f"{name} {key.hex()}\n" for name, key in self._pairs())

    def _pairs(self) -> list[tuple[ServerName, bytes]]:
        return [(name, key) for name, keys in self._of.items() for key in keys]


def parse_trusted_keys(text: str) -> TrustedKeys:
    """The content of a file of trusted keys; lines that begin with `#` are comments. Errors: ConfigError."""
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ConfigError(f"line {number} of the trusted keys is not a server's name and a public key")
        pairs.append((server_name(words[0]), public_key(words[1])))
    return TrustedKeys(pairs)
