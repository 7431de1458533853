"""Between a listener with users and its handler: runs SASL exchanges, and passes on the requests of users.

A rejection is sent after a delay, so that passwords cannot be guessed fast on one connection, and the
connection is closed a little later: ZeroMQ drops unsent messages when a connection is shut down.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from ..errors import IllegalSaslStateError, KafkaError
from ..messages.registry import SASL_HANDSHAKE
from ..security.identity import ANONYMOUS_IDENTITY
from ..security.sasl import Pending
from ..security.server_requests import check_sender
from .authentication import SASL_KEYS, Refusal, overdue
from .connections_io import MAX_UNKNOWN_BYTES, received_bytes
from .peers import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    import msgspec

    from ..messages.sasl import SaslAuthenticateResponse
    from ..security.sasl import SaslOutcome
    from .authentication import Exchange, ListenerAuthentication
    from .peers import Peer, PeerTable, Request, RouterLimits
    from .stats import RouterStats

_REJECTED_MS = 1_000  # from a rejection to the end of its connection


class _Answers(Protocol):
    """The router of the listener."""

    stats: RouterStats
    warn: Callable[[str, str], None]

    def reply(self, request: Request, body: msgspec.Struct) -> None:
        """Send the response to the peer of the request."""

    def reply_error(self, request: Request, error: KafkaError) -> None:
        """Respond with an error."""


class SaslHandler:
    """The handler of a listener with security."""

    def __init__(
        self,
        authentication: ListenerAuthentication,
        peers: PeerTable,
        handler: Callable[[Request], None],
        router: _Answers,
    ) -> None:
        self._authentication, self._peers = authentication, peers
        self._handler, self._router = handler, router

    def take(self, request: Request) -> None:
        """A request that the peer may send. Errors: KafkaError, its response."""
        if request.api.key in SASL_KEYS:
            self._authenticate(request)
        else:
            check_sender(request.peer.identity, request.api, request.body)
            self._handler(request)

    def fault_of(self, peer: Peer, port: int, now_ms: int, limits: RouterLimits) -> str:
        """Why the peer's connection to `port` has to end now; empty if it may go on."""
        if peer.is_unauthenticated and received_bytes(peer.descriptor, port) > MAX_UNKNOWN_BYTES:
            return f"this connection sent more than {MAX_UNKNOWN_BYTES} bytes and did not authenticate"
        return overdue(peer, now_ms, limits.handshake_timeout_ms)

    def _authenticate(self, request: Request) -> None:
        peer, now_ms, wall_ms = request.peer, _now_ms(), _wall_ms()
        with self._refusing(request):
            if request.api is SASL_HANDSHAKE:
                self._router.reply(request, self._authentication.begin(peer, request.body, now_ms))
                return
            response = self._authentication.step(peer, request.body, now_ms, wall_ms)
            if isinstance(response, Pending):
                self._await(request, response.outcome)
            else:
                self._answer(request, response)

    def _await(self, request: Request, outcome: Future[SaslOutcome]) -> None:
        loop, exchange = asyncio.get_running_loop(), request.peer.exchange
        assert exchange is not None, "it has a pending outcome"

        def arrived(future: Future[SaslOutcome]) -> None:
            # after the end of the threads, or of the event loop, there is no peer for a response
            if not future.cancelled():
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._resume, request, exchange, future)

        outcome.add_done_callback(arrived)

    def _resume(self, request: Request, exchange: Exchange, outcome: Future[SaslOutcome]) -> None:
        peer = request.peer
        if not peer.is_connected or peer.exchange is not exchange:
            text = "the connection has ended, or its authentication has failed meanwhile"
            self._router.reply_error(request, IllegalSaslStateError(text))
            return
        with self._refusing(request):
            result = outcome.result()
            self._answer(request, self._authentication.resume(peer, exchange, result, _now_ms(), _wall_ms()))

    def _answer(self, request: Request, response: SaslAuthenticateResponse) -> None:
        """Errors: ThrottlingQuotaExceededError if the connection limit of users is reached."""
        peer = request.peer
        if peer.exchange is None:
            self._peers.promote(peer)
            self._router.stats.authentications += 1
        self._router.reply(request, response)

    @contextlib.contextmanager
    def _refusing(self, request: Request) -> Iterator[None]:
        try:
            yield
        except Refusal as refusal:
            self._refuse(request, refusal.answer, refusal.reason)
        except KafkaError as error:
            self._refuse(request, error, str(error))

    def _refuse(self, request: Request, answer: KafkaError, reason: str) -> None:
        peer = request.peer
        self._router.stats.authentications_failed += 1
        where = f"{peer.address} {peer.client_id}"
        self._router.warn("authentication failed", f"authentication of {where} failed: {printable(reason)}")
        _close_to(peer)
        delay_s = self._authentication.failed_delay_ms() / 1000
        asyncio.get_running_loop().call_later(delay_s, self._answer_late, request, answer)

    def _answer_late(self, request: Request, answer: KafkaError) -> None:
        self._router.reply_error(request, answer)
        # the sweep closes the connection of a client that does not close it itself
        request.peer.expires_ms = _now_ms() + _REJECTED_MS


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _close_to(peer: Peer) -> None:
    """Reject all further requests of the peer."""
    peer.served, peer.exchange = {}, None
    peer.identity = ANONYMOUS_IDENTITY
