"""SaslHandshake and SaslAuthenticate. Pure.

The response to a failed authentication is delayed, so that passwords cannot be guessed at the speed of the
network; then the connection is closed. Source: Kafka SaslServerAuthenticator.java,
KafkaApis.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import IllegalSaslStateError, NetworkError
from ...protocol.security.sasl import Pending
from .calls import Call, KafkaApi
from .codes import SASL_AUTHENTICATE, SASL_HANDSHAKE
from .entities import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.records.header import Buffer
    from .calls import Caller, KafkaPeer, Plane
    from .entities import Sink
    from .sasl_session import SaslAnswer, SaslSession


def _session(call: Call) -> SaslSession:
    """Errors: IllegalSaslStateError on a listener without SASL."""
    if call.peer.sasl is None:
        raise IllegalSaslStateError("the listener's security protocol has no SASL")
    return call.peer.sasl


def _handshake(call: Call) -> None:
    session = _session(call)
    error = session.handshake(call.body.mechanism, call.version, call.plane.now_ms())
    if error is not None and not isinstance(error, IllegalSaslStateError):
        _refuse_later(call, error)
        return
    code = 0 if error is None else error.code
    call.answer({"error_code": code, "mechanisms": session.mechanisms})


def _no_handshake(call: Call, code: int, _text: str) -> dict[str, Any]:
    session = call.peer.sasl
    return {"error_code": code, "mechanisms": () if session is None else session.mechanisms}


def _authenticate(call: Call) -> None:
    _take(call, bytes(call.body.auth_bytes), _answer)


def _take(call: Call, data: bytes, answer: Callable[[Call, SaslAnswer], None]) -> None:
    """The next message of the exchange; its response may be sent later."""
    session, plane = _session(call), call.plane
    result = session.authenticate(data, plane.now_ms(), plane.wall_ms())
    if isinstance(result, Pending):
        call.ask_thread(
            result.outcome,
            lambda outcome: answer(call, session.resume(outcome, plane.now_ms(), plane.wall_ms())),
        )
    else:
        answer(call, result)


def _answer(call: Call, answer: SaslAnswer) -> None:
    if answer.error is None:
        call.answer(_authenticated(0, None, answer.data, answer.lifetime_ms))
    elif isinstance(answer.error, IllegalSaslStateError):
        call.refuse(answer.error)
    elif isinstance(answer.error, NetworkError):
        _close_later(call)
    else:
        _refuse_later(call, answer.error)


def _authenticated(code: int, text: str | None, data: bytes = b"", lifetime_ms: int = 0) -> dict[str, Any]:
    return {"error_code": code, "error_message": text, "auth_bytes": data, "session_lifetime": lifetime_ms}


def _not_authenticated(_call: Call, code: int, text: str) -> dict[str, Any]:
    return _authenticated(code, text or None)


def _refuse_later(call: Call, error: KafkaError) -> None:
    def answer() -> None:
        call.refuse(error)
        call.close_connection()

    call.plane.later(call.plane.failure_delay_ms, answer)


def _close_later(call: Call) -> None:
    call.plane.later(call.plane.failure_delay_ms, call.close_connection)


def _take_token(call: Call) -> None:
    def answer(call: Call, answer: SaslAnswer) -> None:
        if answer.error is None:
            call.answer({"token": answer.data})
        else:
            _close_later(call)

    _take(call, call.body, answer)


def _no_token(_call: Call, _code: int, _text: str) -> dict[str, Any]:
    return {"token": b""}


class _BareLayout(Layout):
    """Frames without a header."""

    def _head(self, _correlation_id: int) -> bytes:
        return b""


def _read_token(frame: Buffer, offset: int) -> tuple[bytes, int]:
    return bytes(frame[offset:]), len(frame)


def _write_token(sink: Sink, answer: Mapping[str, Any]) -> None:
    sink.write(answer["token"])


_TOKEN = KafkaApi(-1, "SASL token", 0, 0, _take_token, _no_token)
_TOKEN_LAYOUT = _BareLayout(None, _read_token, _write_token, is_flexible=False, has_tagged_header=False)


def token_call(data: bytes, peer: KafkaPeer, plane: Plane, caller: Caller) -> Call:
    """A frame that contains only the next message of an exchange, as after SaslHandshake version 0. So does
    its response; after a failure the connection is closed without a response."""
    return Call(_TOKEN, 0, 0, _TOKEN_LAYOUT, data, peer, plane, caller, len(data))


SASL_APIS = (
    KafkaApi(SASL_HANDSHAKE, "SaslHandshake", 0, 1, _handshake, _no_handshake),
    KafkaApi(SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, _authenticate, _not_authenticated),
)
