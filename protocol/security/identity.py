"""The identity of a connection: the result of authentication, and the input of authorization. Pure."""

from __future__ import annotations

from typing import NamedTuple

from .principals import ANONYMOUS, Principal


class Identity(NamedTuple):
    """The principal of a connection, where it comes from, and how it was authenticated.

    `host`: IP address of the peer without a port, empty if unknown. `mechanism`: the SASL mechanism, `SSL`
    for a client certificate, empty for none. `expires_ms`: wall clock, milliseconds; by then the connection
    must authenticate again. `token_id`: of the delegation token that authenticated it. `is_server`:
    another server of this cluster; its requests need no rule.
    """

    principal: Principal = ANONYMOUS
    host: str = ""
    mechanism: str = ""
    expires_ms: int | None = None
    token_id: str = ""
    is_server: bool = False

    @property
    def is_authenticated(self) -> bool:
        return bool(self.mechanism)


ANONYMOUS_IDENTITY = Identity()


def host_of(address: str) -> str:
    """The IP address of `host:port`; brackets of an IPv6 address and an IPv4 prefix are removed."""
    host = address.rpartition(":")[0].strip("[]")
    return host.removeprefix("::ffff:") if "." in host else host
