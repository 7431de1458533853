"""The public keys of servers that a client trusts, and the order in which it tries them. Pure.

It begins with pinned keys. A server that has one of them names those of the other servers; then these are
trusted as well, since the connection proves the identity of the server. A new list replaces the one before,
so that a key that is replaced in the cluster is not trusted for long.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...protocol.security.server_keys import parse_trusted_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_ADDRESSES = 4096  # Bound: addresses whose key is remembered


class ServerKeys:
    """Used on one loop."""

    def __init__(self, read_pinned: Callable[[], Sequence[bytes]]) -> None:
        """Errors: those of `read_pinned`."""
        self._read_pinned = read_pinned
        self._pinned = tuple(read_pinned())
        self._learned: tuple[bytes, ...] = ()
        self._of_address: dict[str, bytes] = {}

    def keys_for(self, address: str) -> tuple[bytes, ...]:
        """The keys to try at an address: the one that was right before, then those that are of no other
        address."""
        last = self._of_address.get(address)
        others = set(self._of_address.values())
        known = dict.fromkeys((*self._pinned, *self._learned))
        order = sorted(known, key=lambda key: (key != last, key in others))
        return tuple(order)

    def learn(self, lines: Sequence[str]) -> None:
        """A server has named the keys of the cluster."""
        try:
            keys = parse_trusted_keys("\n".join(lines)).keys_of()
        except ConfigError:
            return  # of a later version: the pinned keys remain
        self._learned = keys

    def pin_again(self) -> None:
        """Read the pinned keys again, as far as they can be read."""
        with contextlib.suppress(ConfigError):
            self._pinned = tuple(self._read_pinned())

    def found(self, address: str, key: bytes) -> None:
        """A server has this key at this address."""
        if len(self._of_address) >= MAX_ADDRESSES:
            self._of_address.clear()
        self._of_address[address] = key
