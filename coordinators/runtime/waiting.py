"""Requests that wait for shards: tokens, and answers that are put together of several shards' parts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.transport.replies import Incoming, Replies
    from .routing import Everywhere, Many


class Waiting:
    """A request, or its part for one shard. Fulfils Token.

    Invariant: `deliver` is called once; it leaves `is_open` False.
    """

    __slots__ = ("_among", "_deliver", "_on_closed", "_peer", "is_open")

    def __init__(
        self, request: Incoming, deliver: Callable[[Any], None], on_closed: Callable[[Waiting], None]
    ) -> None:
        """`deliver` gets a response body or a KafkaError; None: nobody is there any more. `on_closed` is
        called before it."""
        self.is_open = True
        self._peer = request.peer
        self._deliver = deliver
        self._on_closed = on_closed
        self._among: dict[Waiting, None] | None = None

    @property
    def session(self) -> int:
        """The connection that it came over."""
        return self._peer.session

    @property
    def client_id(self) -> str:
        """What the client called itself in the handshake."""
        return self._peer.client_id

    @property
    def client_host(self) -> str:
        """Where the connection comes from."""
        return self._peer.address.rpartition(":")[0]

    def wait_in(self, among: dict[Waiting, None]) -> None:
        """It is one of these until it is answered."""
        self._among = among
        among[self] = None

    def deliver(self, body: Any) -> None:
        """Answer it; nothing happens if it was answered before."""
        if self.is_open:
            self.is_open = False
            if self._among is not None:
                self._among.pop(self, None)
            self._on_closed(self)
            self._deliver(body)


def answer_to(request: Incoming, replies: Replies) -> Callable[[Any], None]:
    """How a request gets its one answer: a body, an error, or None for nobody."""

    def deliver(body: Any) -> None:
        if body is None:
            replies.no_reply(request)
        elif isinstance(body, KafkaError):
            replies.reply_error(request, body)
        else:
            replies.reply(request, body)

    return deliver


class ManyAnswers:
    """The answer to a request that names several ids: item by item, in the order of the request."""

    def __init__(self, request: Incoming, route: Many, items: Sequence[Any], replies: Replies) -> None:
        self._request = request
        self._route = route
        self._items = items
        self._answers: list[Any] = [None] * len(items)
        self._left = len(items)
        self._is_gone = False
        self._deliver = answer_to(request, replies)

    def part(self, positions: Sequence[int]) -> Any:
        """The request that asks for these items alone."""
        items = tuple(self._items[position] for position in positions)
        return msgspec.structs.replace(self._request.body, **{self._route.items: items})

    def fill(self, positions: Sequence[int], body: Any) -> None:
        """The part's answer: a response with as many answers, an error for all of them, or None."""
        if body is None:
            self._is_gone = True
        elif isinstance(body, KafkaError):
            for position in positions:
                self._answers[position] = self._route.failed(self._items[position], body)
        else:
            for position, found in zip(positions, getattr(body, self._route.answers), strict=True):
                self._answers[position] = found
        self._left -= len(positions)
        self.finish_if_whole()

    def finish_if_whole(self) -> None:
        """Answer, if nothing is missing any more."""
        if self._left == 0:
            self._left = -1
            response = self._request.api.response(**{self._route.answers: tuple(self._answers)})
            self._deliver(None if self._is_gone else response)


class AllAnswers:
    """The answer to a request that every shard of the node is asked."""

    def __init__(self, request: Incoming, route: Everywhere, shards: int, replies: Replies) -> None:
        self._route = route
        self._bodies: list[Any] = []
        self._left = shards
        self._error_code = 0
        self._detail = ""
        self._is_gone = False
        self._deliver = answer_to(request, replies)
        self._finish_if_whole()

    def fill(self, body: Any) -> None:
        """One shard's response, error, or None."""
        self._left -= 1
        if body is None:
            self._is_gone = True
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
            self._deliver(None if self._is_gone else merged)
