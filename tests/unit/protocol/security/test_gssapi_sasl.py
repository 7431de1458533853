"""SASL GSSAPI with scripted security contexts: tokens, the offer of layers, and what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from headrace.protocol.errors import NetworkError, SaslAuthenticationFailedError
from headrace.protocol.security.gssapi_sasl import MAX_STEPS, ContextError, GssapiLogin, GssapiServer
from headrace.protocol.security.kerberos_names import PrincipalToLocal
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import Authenticated, Challenge, Pending, Refused, SaslOutcome

WALL_MS = 1_000_000
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


class Context:
    """A context that is established after `steps`; what it wraps begins with `sealed:`."""

    def __init__(self, answer: bytes = b"answer", steps: int = 1, client: str = "alice@R") -> None:
        self.answer, self.left, self._client = answer, steps, client

    @property
    def is_established(self) -> bool:
        return self.left <= 0

    def step(self, token: bytes | None, /) -> bytes:
        if token in (b"bad", b"again"):
            raise ContextError(f"a {token!r} token", is_retriable=token == b"again")
        self.left -= 1
        return b"token" if token is None else self.answer

    def wrap(self, message: bytes, /) -> bytes:
        return b"sealed:" + message

    def unwrap(self, token: bytes, /) -> bytes:
        if not token.startswith(b"sealed:"):
            raise ContextError("no checksum")
        return token.removeprefix(b"sealed:")

    def client(self) -> str:
        return self._client

    def lifetime_s(self) -> int:
        return 60


def at_once(work: Callable[[], SaslOutcome]) -> Future[SaslOutcome]:
    done: Future[SaslOutcome] = Future()
    done.set_result(work())
    return done


def server(**context: Any) -> GssapiServer:
    return GssapiServer(Context(**context), PrincipalToLocal(default_realm="R").name_of, at_once)


def outcome(made: GssapiServer, response: bytes) -> SaslOutcome:
    """Of a step that runs on another thread."""
    result = made.step(response, WALL_MS)
    assert isinstance(result, Pending)
    return result.outcome.result()


CHOICE = b"sealed:\1\0\0\0"


@pytest.mark.parametrize("choice", [CHOICE, b"sealed:\1\xff\xff\xffkafka@host"])
def test_a_client_that_proves_itself_is_its_principal(choice: bytes) -> None:
    """For as long as its ticket is valid, under no other name than that of the principal."""
    made = server()
    assert outcome(made, b"ticket") == Challenge(b"answer")
    assert made.step(b"", WALL_MS) == Challenge(b"sealed:\1\0\0\0")
    assert made.step(choice, WALL_MS) == Authenticated(b"", user("alice"), WALL_MS + 60_000)


def test_offer_is_sent_at_once_without_a_token_for_the_client() -> None:
    made = server(answer=b"")
    assert outcome(made, b"ticket") == Challenge(b"sealed:\1\0\0\0")
    assert isinstance(made.step(CHOICE, WALL_MS), Authenticated)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b"bad"], "a b'bad' token"),
        ([b""], "no Kerberos token"),
        ([b"ticket", b"more"], "must be empty"),
        ([b"ticket", b"", b"\1\0\0\0"], "no checksum"),
        ([b"ticket", b"", b"sealed:\2\0\0\0"], "layer that was not offered"),
        ([b"ticket", b"", b"sealed:\1"], "layer that was not offered"),
        ([b"ticket", b"", b"sealed:"], "layer that was not offered"),
    ],
)
def test_client_gets_the_same_text_for_all_rejections(messages: list[bytes], reason: str) -> None:
    """The client gets the same text for all reasons."""
    made, result = server(), None
    for message in messages:
        result = made.step(message, WALL_MS)
        if isinstance(result, Pending):
            result = result.outcome.result()
    assert isinstance(result, Refused)
    assert (result.text, result.is_retriable) == (GENERIC, False)
    assert reason in result.reason


def test_refused_without_a_rule_for_the_name() -> None:
    made = server(client="alice@OTHER", answer=b"")
    outcome(made, b"ticket")
    result = made.step(CHOICE, WALL_MS)
    assert isinstance(result, Refused)
    assert "no rule of sasl.kerberos.principal.to.local.rules applies to 'alice@OTHER'" in result.reason
    assert "OTHER" not in result.text


def test_a_replay_may_be_tried_again() -> None:
    assert outcome(server(), b"again") == Refused(GENERIC, "a b'again' token", is_retriable=True)


def test_messages_without_end() -> None:
    made = server(steps=100)
    assert [outcome(made, b"t") for _ in range(MAX_STEPS)] == [Challenge(b"answer")] * MAX_STEPS
    assert isinstance(made.step(b"t", WALL_MS), Refused)


def test_client_and_server_agree() -> None:
    """The client is complete with the server's last message, and not before."""
    made, login = server(), GssapiLogin(lambda: Context(answer=b"", steps=2))
    message = login.first()
    result: Any = outcome(made, message)
    while isinstance(result, Challenge):
        assert not login.is_complete
        result = made.step(login.step(result.data), WALL_MS)
    assert isinstance(result, Authenticated)
    assert login.step(result.data) == b""
    assert login.is_complete


@pytest.mark.parametrize(
    ("offer", "error"),
    [
        (b"sealed:\6\0\0\0", "requires a GSSAPI security layer"),
        (b"sealed:", "requires a GSSAPI security layer"),
        (b"\1\0\0\0", "no checksum"),
    ],
)
def test_client_rejects_invalid_offers(offer: bytes, error: str) -> None:
    login = GssapiLogin(lambda: Context())
    login.first()
    with pytest.raises(SaslAuthenticationFailedError, match=error):
        login.step(offer)


def test_a_client_without_a_kdc_tries_again() -> None:
    def unreachable() -> Context:
        raise ContextError("no KDC", is_retriable=True)

    with pytest.raises(NetworkError, match="no KDC"):
        GssapiLogin(unreachable).first()
