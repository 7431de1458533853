"""Requests for the next transaction of an id whose last one is still being ended.

Kafka answers them CONCURRENT_TRANSACTIONS, and clients and leaders come again after a pause, longer than an
end takes. Here a few wait for the end, and hear that only when it takes long.
Bound: MAX_HELD for each id that is being ended, HOLD_MS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.messages.envelope import Api
    from ..runtime.ports import Token

MAX_HELD = 4
HOLD_MS = 1_000


class HeldRequest(NamedTuple):
    """One request, as it came; `refusal` is its answer when it has waited for too long."""

    api: Api
    body: Any
    token: Token
    refusal: Any


class Held:
    """By transactional id, in the order in which they came."""

    def __init__(self) -> None:
        self._requests: dict[str, list[HeldRequest]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._requests

    def add(self, name: str, request: HeldRequest) -> bool:
        """Whether there is room."""
        requests = self._requests.setdefault(name, [])
        if len(requests) == MAX_HELD:
            return False
        requests.append(request)
        return True

    def pop(self, name: str) -> HeldRequest:
        """The first of an id."""
        requests = self._requests[name]
        request = requests.pop(0)
        if not requests:
            del self._requests[name]
        return request

    def pop_all(self, name: str) -> list[HeldRequest]:
        """All of an id."""
        return self._requests.pop(name, [])

    def forget(self, session: int) -> None:
        """A connection is gone."""
        for name in list(self._requests):
            left = [each for each in self._requests[name] if each.token.session != session]
            if left:
                self._requests[name] = left
            else:
                del self._requests[name]

    def tokens(self) -> Iterator[Token]:
        """All that wait."""
        return (request.token for requests in self._requests.values() for request in requests)
