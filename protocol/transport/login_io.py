"""A client's side of the handshake and of authentication: the exchanges of SASL, at first and again."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple

from ..errors import (
    ConfigError,
    IllegalSaslStateError,
    KafkaError,
    NetworkError,
    SaslAuthenticationFailedError,
)
from ..messages.envelope import ApiVersionsRequest
from ..messages.registry import SASL_AUTHENTICATE, SASL_HANDSHAKE
from ..messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from ..messages.envelope import Api
    from .peers import Response
    from .security import Credentials

_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")
MAX_ROUNDS = 8  # of messages; SCRAM has two
# As Kafka's clients, which authenticate again within 0.85 and 0.95 of the session's lifetime.
RENEW_AFTER = 0.85


SOFTWARE_NAME = "headrace-python"


def hello_of(client_id: str) -> ApiVersionsRequest:
    """The handshake of a client."""
    return ApiVersionsRequest(SOFTWARE_NAME, _software_version(), client_id)


@functools.cache
def _software_version() -> str:
    try:
        return importlib.metadata.version("headrace")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class _Sender(Protocol):
    def send(self, api: Api, body: msgspec.Struct) -> asyncio.Future[Response]:
        """Send a request."""


def check_wanted(credentials: Credentials | None, mechanisms: tuple[str, ...]) -> None:
    """Whether client and server agree on authentication. `mechanisms` of the server are empty if the
    connection needs none. Errors: SaslAuthenticationFailedError, IllegalSaslStateError."""
    if credentials is None and mechanisms:
        raise SaslAuthenticationFailedError(
            "the server serves authenticated users only: pass username= and password=, or another"
            f" sasl_mechanism= of {', '.join(mechanisms)}"
        )
    if credentials is not None and not mechanisms:
        raise IllegalSaslStateError(
            f"{credentials.name} cannot authenticate: the server has no authentication at this port"
        )


async def authenticate(connection: _Sender, credentials: Credentials, host: str) -> int:
    """One exchange with the server on `host`; the lifetime of the session in ms, 0 for no limit.

    Errors: SaslAuthenticationFailedError, which names the user, also for a file of the config that cannot be
    read any more; UnsupportedSaslMechanismError; NetworkError.
    """
    try:
        await connection.send(SASL_HANDSHAKE, SaslHandshakeRequest(credentials.mechanism))
        login = await _beside(credentials.new_login, host)
        message = await _beside(login.first)
        for _ in range(MAX_ROUNDS):
            request = SaslAuthenticateRequest(message)
            answer: SaslAuthenticateResponse = (await connection.send(SASL_AUTHENTICATE, request)).body
            message = await _beside(login.step, answer.auth_bytes)
            if login.is_complete:
                return answer.session_lifetime_ms
        raise SaslAuthenticationFailedError(f"no end after {MAX_ROUNDS} messages")
    except NetworkError:
        raise
    except ConfigError as error:
        raise SaslAuthenticationFailedError(f"{credentials.name} is not authenticated: {error}") from error
    except KafkaError as error:
        raise type(error)(f"{credentials.name} is not authenticated: {error.detail}") from error


async def _beside(step: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
    """A step on another thread: SCRAM computes for milliseconds, and as long as the server asks for; GSSAPI
    asks the KDC."""
    loop = asyncio.get_running_loop()
    try:
        computing = loop.run_in_executor(None, step, *args)
    except RuntimeError:  # at interpreter shutdown there are no threads
        return step(*args)
    return await computing
