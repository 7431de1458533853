"""GSSAPI against a real KDC: both sides, and the ways in which tickets and keytabs are wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.errors import ConfigError, NetworkError, SaslAuthenticationFailedError
from headrace.protocol.security.gssapi_sasl import GssapiLogin
from headrace.protocol.security.krb5_module import ServiceLogin
from headrace.protocol.security.principals import user
from headrace.protocol.security.sasl import (
    Authenticated,
    Challenge,
    Pending,
    Refused,
    SaslOutcome,
    SaslServer,
)
from kerberos_kit import CLOCK_SKEW_S, REALM, Kdc, kdc, require
from waiting import wait_for

ALICE, SHORT, SERVICE = f"alice@{REALM}", f"short@{REALM}", f"kafka/localhost@{REALM}"
SHORT_S = 2
WAIT_S = 60


class Realm:
    """A KDC with principals, the keytab of clients, and that of the service kafka/localhost."""

    def __init__(self, made: Kdc) -> None:
        self.kdc = made
        made.add("alice", "kafka/localhost", "kafka/other", "rotated/localhost")
        made.add("short", max_life=f"{SHORT_S} seconds")
        self.clients = made.keytab("clients", "alice", "short")
        self.service = made.keytab("service", "kafka/localhost")

    def acceptor(
        self, keytab: str = "", principal: str = SERVICE, rules: tuple[str, ...] = ("DEFAULT",)
    ) -> Any:
        from headrace.protocol.security.kerberos_io import KerberosAcceptor

        return KerberosAcceptor(ServiceLogin(principal, keytab or self.service), rules)

    def login(self, principal: str = ALICE, service: str = "kafka", host: str = "localhost") -> GssapiLogin:
        from headrace.protocol.security.kerberos_io import new_initiator

        return GssapiLogin(lambda: new_initiator(service, host, principal, self.clients))


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    require()
    with kdc(tmp_path_factory.mktemp("kdc")) as made:
        yield Realm(made)


def stepped(server: SaslServer, message: bytes, wall_ms: int = 0) -> SaslOutcome:
    result = server.step(message, wall_ms)
    return result.outcome.result(WAIT_S) if isinstance(result, Pending) else result


def outcome(server: SaslServer, login: GssapiLogin, wall_ms: int = 0) -> SaslOutcome:
    """Of a whole exchange."""
    result = stepped(server, login.first(), wall_ms)
    while isinstance(result, Challenge):
        result = stepped(server, login.step(result.data), wall_ms)
    return result


def reason(result: SaslOutcome) -> str:
    assert isinstance(result, Refused), result
    return result.reason


def test_users_for_as_long_as_their_tickets(realm: Realm) -> None:
    """The end of the session is that of the ticket."""
    acceptor = realm.acceptor()
    made = outcome(acceptor.new_server(), realm.login())
    assert isinstance(made, Authenticated)
    assert made.principal == user("alice")
    assert made.expires_ms is not None
    assert 9 * 3_600_000 < made.expires_ms <= 10 * 3_600_000 + CLOCK_SKEW_S * 1000
    made = outcome(acceptor.new_server(), realm.login(SHORT), 500)
    assert isinstance(made, Authenticated)
    assert made.expires_ms is not None
    assert 500 < made.expires_ms <= 500 + (SHORT_S + CLOCK_SKEW_S) * 1000
    mapped = realm.acceptor(rules=(r"RULE:[1:$1@$0](.*@HEADRACE\.TEST)s/@.*/!/U",))
    made = outcome(mapped.new_server(), realm.login())
    assert isinstance(made, Authenticated)
    assert made.principal == user("ALICE!")


def test_tickets_that_are_not_taken(realm: Realm) -> None:
    """The reason is that of the Kerberos library; a replay alone may be tried again."""
    acceptor = realm.acceptor()
    short, alice = realm.login(SHORT).first(), realm.login().first()
    began_s = time.time()
    used = realm.login().first()
    assert isinstance(stepped(acceptor.new_server(), used), Challenge)
    again = stepped(acceptor.new_server(), used)
    assert (reason(again), isinstance(again, Refused) and again.is_retriable) == ("Request is a replay", True)
    other = stepped(acceptor.new_server(), realm.login(host="other").first())
    assert "kafka/other@HEADRACE.TEST" in reason(other)
    assert isinstance(other, Refused)
    assert not other.is_retriable
    assert "GSS failure" in reason(stepped(acceptor.new_server(), b"no token"))
    late_s = began_s + SHORT_S + CLOCK_SKEW_S + 1
    wait_for(lambda: time.time() > late_s, "the end of the ticket and of the clock skew")
    assert reason(stepped(acceptor.new_server(), short)) == "Ticket expired"
    assert reason(stepped(acceptor.new_server(), alice)) == "Clock skew too great"
    no_user = realm.acceptor(rules=("RULE:[2:$1]",))
    assert "applies to 'alice@HEADRACE.TEST'" in reason(outcome(no_user.new_server(), realm.login()))


def test_new_keys_of_the_service(realm: Realm) -> None:
    """Tickets with keys that are not in the keytab are refused, until they are added to the file."""
    name = f"rotated/localhost@{REALM}"
    acceptor = realm.acceptor(realm.kdc.keytab("old", "rotated/localhost"), name)
    realm.kdc.keytab("new", "rotated/localhost", new_keys=True)
    server = acceptor.new_server()
    assert name in reason(stepped(server, realm.login(service="rotated").first()))
    realm.kdc.keytab("old", "rotated/localhost")
    assert isinstance(outcome(acceptor.new_server(), realm.login(service="rotated")), Authenticated)


def test_acceptor_errors_name_keytab_and_principal(realm: Realm) -> None:
    with pytest.raises(ConfigError, match=r"no keys of kafka/x@HEADRACE.TEST: No key table entry"):
        realm.acceptor(principal=f"kafka/x@{REALM}")
    with pytest.raises(ConfigError, match=r"/nowhere has no keys of .*: Key table file '/nowhere' not found"):
        realm.acceptor("/nowhere")


def test_initiator_errors_name_the_cause(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither tickets nor a keytab, a principal without keys, an unknown service, no KDC."""
    from headrace.protocol.security.kerberos_io import new_initiator

    with pytest.raises(SaslAuthenticationFailedError, match=r"Server no/localhost@HEADRACE.TEST not found"):
        realm.login(service="no").first()
    with pytest.raises(SaslAuthenticationFailedError, match=r"by the keytab .*clients.keytab"):
        realm.login(f"bob@{REALM}").first()
    with pytest.raises(SaslAuthenticationFailedError, match=r"default cache: FILE:"):
        GssapiLogin(lambda: new_initiator("kafka", "localhost")).first()
    with pytest.raises(SaslAuthenticationFailedError, match=r"credentials cache \(run kinit\)"):
        GssapiLogin(lambda: new_initiator("kafka", "localhost", ALICE)).first()
    away = re.sub(r"(kdc = 127\.0\.0\.1:)\d+", r"\g<1>1", realm.kdc.krb5_conf.read_text())
    (tmp_path / "krb5.conf").write_text(away)
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    keytab = tmp_path / "copy.keytab"
    keytab.write_bytes(Path(realm.clients).read_bytes())
    with pytest.raises(NetworkError, match="Cannot contact any KDC"):
        GssapiLogin(lambda: new_initiator("kafka", "localhost", ALICE, str(keytab))).first()
