"""What a listener and a client's connection need to encrypt and to authenticate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..security.server_keys import TrustedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..security.sasl import SaslFactory
    from ..security.server_keys import CurveKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSecurity:
    """Of a listener.

    `keys`: CURVE, None without encryption. `trusted`: the keys of the cluster's servers; a connection with
    one of them is that server's. `sasl`: new exchanges by mechanism, for all other connections; None: these
    need no user, or are refused with `is_for_servers_only`.
    """

    keys: CurveKeys | None = None
    trusted: Callable[[], TrustedKeys] = TrustedKeys
    sasl: Callable[[], Mapping[str, SaslFactory]] | None = None
    is_for_servers_only: bool = False
    # by mechanism, as Kafka's connections.max.reauth.ms; 0 for no limit
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    # connection.failed.authentication.delay.ms of now
    failed_delay_ms: Callable[[], int] = lambda: 100


class Login(Protocol):
    """A client's side of one exchange. Its methods run on another thread."""

    @property
    def is_complete(self) -> bool:
        """Whether the client is satisfied with the server's messages so far."""

    def first(self) -> bytes:
        """The first message. Errors: as `step`."""

    def step(self, message: bytes) -> bytes:
        """The answer to a message of the server, empty for none. Errors: SaslAuthenticationFailedError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How a client authenticates. `new_login` gets the host of the server, and reads a token each time.
    `name`: for errors."""

    mechanism: str
    new_login: Callable[[str], Login] = field(repr=False)
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSecurity:
    """Of a client's connections.

    `server_keys`: the public keys that the server may have, by its name, kind, or empty if nothing is known
    of it; None without encryption. `own_keys`: of a server of the cluster; other clients have new keys for
    each connection. `learned`: is given the keys of the cluster's servers, as the lines of a file of trusted
    keys.
    """

    server_keys: Callable[[str], tuple[bytes, ...]] | None = None
    own_keys: CurveKeys | None = None
    credentials: Credentials | None = None
    learned: Callable[[tuple[str, ...]], None] | None = None

    def possible_keys(self, server: str) -> Sequence[bytes | None]:
        """The keys of a server to try; None is no encryption."""
        return (None,) if self.server_keys is None else self.server_keys(server)


NO_SECURITY = ConnectionSecurity()
