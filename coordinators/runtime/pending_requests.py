"""Waiting requests of shards, and responses that are merged from several shards. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.transport.replies import Incoming, Replies
    from .routing import AllShards, ManyKeys


class PendingRequest:
    """A waiting request, or its part for one shard. Implements Token.

    Invariant: `deliver` is called once; it sets `is_open` to False.
    """

    __slots__ = ("_among", "_deliver", "_on_closed", "_peer", "is_open")

    def __init__(
        self, request: Incoming, deliver: Callable[[Any], None], on_closed: Callable[[PendingRequest], None]
    ) -> None:
        """`deliver` gets a response body, a KafkaError, or None if the connection is closed. `on_closed` is
        called before it."""
        self.is_open = True
        self._peer = request.peer
        self._deliver = deliver
        self._on_closed = on_closed
        self._among: dict[PendingRequest, None] | None = None

    @property
    def session(self) -> int:
        return self._peer.session

    @property
    def client_id(self) -> str:
        return self._peer.client_id

    @property
    def client_host(self) -> str:
        return self._peer.address.rpartition(":")[0]

    def wait_in(self, among: dict[PendingRequest, None]) -> None:
        """Be a member of `among` until the response is sent."""
        self._among = among
        among[self] = None

    def deliver(self, body: Any) -> None:
        """Send the response; ignored if one was sent before."""
        if self.is_open:
            self.is_open = False
            if self._among is not None:
                self._among.pop(self, None)
            self._on_closed(self)
            self._deliver(body)


def responder_of(request: Incoming, replies: Replies) -> Callable[[Any], None]:
    """The function that sends the request's response: a body, an error, or None for a closed connection."""

    def deliver(body: Any) -> None:
        if body is None:
            replies.no_reply(request)
        elif isinstance(body, KafkaError):
            replies.reply_error(request, body)
        else:
            replies.reply(request, body)

    return deliver


class MultiKeyResponse:
    """The response to a request with several ids: one result per item, in the order of the request."""

    def __init__(self, request: Incoming, route: ManyKeys, items: Sequence[Any], replies: Replies) -> None:
        self._request = request
        self._route = route
        self._items = items
        self._answers: list[Any] = [None] * len(items)
        self._left = len(items)
        self._topic_was_deleted = False
        self._deliver = responder_of(request, replies)

    def part(self, positions: Sequence[int]) -> Any:
        """The request for these items alone."""
        items = tuple(self._items[position] for position in positions)
        return msgspec.structs.replace(self._request.body, **{self._route.items: items})

    def fill(self, positions: Sequence[int], body: Any) -> None:
        """Take the response to one part: as many results, one error for all its items, or None."""
        if body is None:
            self._topic_was_deleted = True
        elif isinstance(body, KafkaError):
            for position in positions:
                self._answers[position] = self._route.failed(self._items[position], body)
        else:
            for position, found in zip(positions, getattr(body, self._route.answers), strict=True):
                self._answers[position] = found
        self._left -= len(positions)
        self.finish_if_whole()

    def finish_if_whole(self) -> None:
        """Send the response once all parts have arrived."""
        if self._left == 0:
            self._left = -1
            response = self._request.api.response(**{self._route.answers: tuple(self._answers)})
            self._deliver(None if self._topic_was_deleted else response)


class MergedResponse:
    """The merged response to a request that goes to every shard of the node."""

    def __init__(self, request: Incoming, route: AllShards, shards: int, replies: Replies) -> None:
        self._route = route
        self._bodies: list[Any] = []
        self._left = shards
        self._error_code = 0
        self._detail = ""
        self._topic_was_deleted = False
        self._deliver = responder_of(request, replies)
        self._finish_if_whole()

    def fill(self, body: Any) -> None:
        """Take one shard's response, error, or None."""
        self._left -= 1
        if body is None:
            self._topic_was_deleted = True
        elif isinstance(body, KafkaError):
            self._note(body.code, body.detail)
        else:
            self._note(body.error_code, body.error_detail)
            self._bodies.append(body)
        self._finish_if_whole()

    def _note(self, code: int, detail: str) -> None:
        if code and not self._error_code:
            self._error_code, self._detail = code, detail

    def _finish_if_whole(self) -> None:
        if self._left == 0:
            merged = self._route.merged(self._bodies, self._error_code, self._detail)
            self._deliver(None if self._topic_was_deleted else merged)
