"""SCRAM of both sides: the vectors of RFC 7677, and every message that must fail."""

from __future__ import annotations

import pytest
from headrace.protocol.security.principals import user
from headrace.protocol.security.scram import (
    MAXIMUM_MESSAGE_BYTES,
    ScramAccount,
    ScramClient,
    ScramError,
    ScramMechanism,
    ScramServer,
    credential_from_password,
    escaped,
    nonce_of,
    unescaped,
)

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CREDENTIAL = credential_from_password(SHA_256, "pencil", SALT)
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = (
    f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def look_up(name: str, by_token: bool) -> ScramAccount | None:
    if by_token:
        return ScramAccount(CREDENTIAL, user("owner"), 5, name) if name == "token" else None
    weak = CREDENTIAL._replace(iterations=4095)
    known = {"user": CREDENTIAL, "a=b,c": CREDENTIAL, "weak": weak}
    return ScramAccount(known[name], user(name)) if name in known else None


def server(mechanism: ScramMechanism = SHA_256) -> ScramServer:
    return ScramServer(mechanism, look_up, SERVER_NONCE)


def client(name: str = "user", password: str = "pencil", *, by_token: bool = False) -> ScramClient:
    return ScramClient(SHA_256, name, password, CLIENT_NONCE, by_token=by_token)


def test_the_vectors_of_rfc_7677() -> None:
    one, other = client(), server()
    assert one.first() == CLIENT_FIRST
    assert other.step(CLIENT_FIRST) == SERVER_FIRST
    assert one.step(SERVER_FIRST) == CLIENT_FINAL
    assert not other.is_complete
    assert other.step(CLIENT_FINAL) == SERVER_FINAL
    assert not one.is_complete
    assert one.step(SERVER_FINAL) == b""
    assert one.is_complete
    assert other.is_complete
    assert other.account is not None
    assert other.account.principal == user("user")


def test_sha_512_and_names_with_escapes() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    credential = credential_from_password(mechanism, "pässword", SALT, 8192)
    account = ScramAccount(credential, user("a=b,c"))
    one = ScramClient(mechanism, "a=b,c", "pässword", nonce_of(b"1" * 18))
    other = ScramServer(mechanism, lambda name, _: account if name == "a=b,c" else None, nonce_of(b"2" * 18))
    assert one.step(other.step(one.step(other.step(one.first())))) == b""
    assert one.is_complete
    assert other.account is account
    assert len(credential.stored_key) == mechanism.key_bytes == 64
    assert unescaped(escaped("=2C,=")) == "=2C,="
    with pytest.raises(ScramError, match="escape"):
        unescaped("a=2Db")


def test_a_token_authenticates_its_owner() -> None:
    one, other = client("token", by_token=True), server()
    one.step(other.step(one.step(other.step(one.first()))))
    assert one.is_complete
    assert other.account == ScramAccount(CREDENTIAL, user("owner"), 5, "token")
    with pytest.raises(ScramError, match="no SCRAM credential"):
        server().step(client("user", by_token=True).first())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"n,,n=absent,r=abc", "no SCRAM credential"),
        (b"n,,n=weak,r=abc", "4095 iterations"),
        (b"n,a=admin,n=user,r=abc", "authorization id"),
        (b"p=tls-unique,,n=user,r=abc", "not valid"),
        (b"n,,m=ext,n=user,r=abc", "not valid"),
        (b"n,,n=us=er,r=abc", "not valid"),
        (b"n,,n=,r=abc", "not valid"),
        (b"n,,n=user,r=", "not valid"),
        (b"n,,n=user,r=a\x00", "not valid"),
        (b"n,,n=\xff\xfe,r=abc", "not valid"),
        (b"", "not valid"),
        (b"n,,n=user,r=" + b"a" * MAXIMUM_MESSAGE_BYTES, "longer than"),
    ],
)
def test_first_messages_that_a_server_refuses(message: bytes, reason: str) -> None:
    refusing = server()
    with pytest.raises(ScramError, match=reason):
        refusing.step(message)
    with pytest.raises(ScramError, match="after the end"):
        refusing.step(CLIENT_FIRST)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (b"hNlF$k0", b"hNlF$k1", "nonce"),
        (f"r={CLIENT_NONCE}".encode(), b"r=", "nonce"),
        (b"c=biws", b"c=eSws", "channel binding"),
        (b"p=dHz", b"p=eHz", "password"),
        (b"p=dHzb", b"p=", "wrong length"),
        (b",p=", b",q=", "not valid"),
    ],
)
def test_final_messages_that_a_server_refuses(before: bytes, after: bytes, reason: str) -> None:
    refusing = server()
    refusing.step(CLIENT_FIRST)
    assert before in CLIENT_FINAL
    with pytest.raises(ScramError, match=reason):
        refusing.step(CLIENT_FINAL.replace(before, after))
    assert refusing.account is None
    assert not refusing.is_complete
    with pytest.raises(ScramError, match="after the end"):
        refusing.step(CLIENT_FINAL)


def test_a_replayed_exchange_fails() -> None:
    other = ScramServer(SHA_256, look_up, "another nonce".replace(" ", ""))
    other.step(CLIENT_FIRST)
    with pytest.raises(ScramError, match="nonce"):
        other.step(CLIENT_FINAL)


def test_a_server_with_a_credential_of_another_hash_refuses() -> None:
    with pytest.raises(ScramError, match="no SCRAM credential"):
        server(ScramMechanism.SCRAM_SHA_512).step(CLIENT_FIRST)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=sOpr"), "does not continue"),
        (f"r={CLIENT_NONCE},s=AAAA,i=4096".encode(), "does not continue"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1000001"), "1000001 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=x"), "not valid"),
        (b"m=x," + SERVER_FIRST, "not valid"),
    ],
)
def test_first_messages_that_a_client_refuses(message: bytes, reason: str) -> None:
    with pytest.raises(ScramError, match=reason):
        client().step(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"e=other-error", "refused: other-error"),
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "not proved that it has the credential"),
        (b"", "not valid"),
    ],
)
def test_final_messages_that_a_client_refuses(message: bytes, reason: str) -> None:
    refusing = client()
    refusing.step(SERVER_FIRST)
    with pytest.raises(ScramError, match=reason):
        refusing.step(message)
    assert not refusing.is_complete
    with pytest.raises(ScramError, match="after the end"):
        refusing.step(SERVER_FINAL)


def test_keys_are_not_printed() -> None:
    assert repr(CREDENTIAL.salt) not in repr(CREDENTIAL)
    assert repr(ScramAccount(CREDENTIAL, user("a"))).count("...") == 1
