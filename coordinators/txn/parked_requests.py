"""Requests that wait until the previous transaction of their transactional id has ended.

Kafka answers them with CONCURRENT_TRANSACTIONS, and clients and leaders retry after a pause that is longer
than the end of a transaction takes. Here a few requests wait for the end, and get that error only when it
takes long. Bound: MAX_PARKED per transactional id that is ending, PARK_MS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.messages.envelope import Api
    from ..runtime.ports import Token

MAX_PARKED = 4
PARK_MS = 1_000


class ParkedRequest(NamedTuple):
    """One request; `refusal` is its response after PARK_MS."""

    api: Api
    body: Any
    token: Token
    refusal: Any


class ParkedRequests:
    """Parked requests by transactional id, in the order of arrival."""

    def __init__(self) -> None:
        self._requests: dict[str, list[ParkedRequest]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._requests

    def add(self, name: str, request: ParkedRequest) -> bool:
        """Add the request; False if MAX_PARKED requests wait."""
        requests = self._requests.setdefault(name, [])
        if len(requests) == MAX_PARKED:
            return False
        requests.append(request)
        return True

    def pop(self, name: str) -> ParkedRequest:
        """Remove the oldest request of an id."""
        requests = self._requests[name]
        request = requests.pop(0)
        if not requests:
            del self._requests[name]
        return request

    def pop_all(self, name: str) -> list[ParkedRequest]:
        return self._requests.pop(name, [])

    def forget(self, session: int) -> None:
        """Drop the requests of a closed connection."""
        for name in list(self._requests):
            left = [each for each in self._requests[name] if each.token.session != session]
            if left:
                self._requests[name] = left
            else:
                del self._requests[name]

    def tokens(self) -> Iterator[Token]:
        return (request.token for requests in self._requests.values() for request in requests)
