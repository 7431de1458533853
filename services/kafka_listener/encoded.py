"""Cache of encoded responses that many clients get alike: the cluster's metadata, served versions. Pure.

Encoding 10,000 partitions takes longer than everything else that a node does for a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

# Bound: number and bytes of the cached bodies, and the largest share of one of them.
MAX_ANSWERS = 256
MAX_BYTES = 16 * 1024 * 1024
_MAX_SHARE = 4


class EncodedResponses:
    """Response bodies by key, least recently used first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bodies: dict[Hashable, bytes] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The body for `key`, which names everything that it depends on; encoded if it is not cached."""
        body = self._bodies.pop(key, None)
        if body is None:
            body = make()
            if len(body) * _MAX_SHARE > self._max_bytes:
                return body
            self._bytes += len(body)
            while self._bytes > self._max_bytes or len(self._bodies) >= MAX_ANSWERS:
                self._bytes -= len(self._bodies.pop(next(iter(self._bodies))))
        self._bodies[key] = body
        return body
