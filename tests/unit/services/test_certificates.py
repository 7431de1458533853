"""The certificate authority of a cluster, checked by OpenSSL through the ssl module."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.certificates import CertificateAuthority, Issued

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("headrace test", NOW)


def context(purpose: ssl.Purpose, trusted: str, own: Issued, folder: Path) -> ssl.SSLContext:
    """One side's settings; both sides have a certificate and require one."""
    made = ssl.create_default_context(purpose, cadata=trusted)
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_text(own.chain)
    key.write_text(own.key)
    made.load_cert_chain(chain, key)
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> dict[str, object]:
    """The subject that the server sees. Errors: ssl.SSLError of either side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname=host)
    pending = {one, other}
    for _ in range(10):
        for side in (other, one):
            try:
                side.do_handshake()
                pending.discard(side)
            except ssl.SSLWantReadError:
                pass
        if not pending:
            return dict(entry[0] for entry in one.getpeercert()["subject"])  # type: ignore[index, misc]
    raise AssertionError("the handshake does not end")


@pytest.mark.parametrize("host", ["localhost", "node-1.example", "127.0.0.1", "::1"])
def test_servers_and_clients_accept_each_other(
    host: str, authority: CertificateAuthority, tmp_path: Path
) -> None:
    """By host name and by address, also after the authority was stored in files."""
    root = authority.to_pem()
    stored = CertificateAuthority.from_pem(root.chain, root.key)
    server = authority.issue("headrace", ["localhost", "node-1.example", "127.0.0.1", "::1"], NOW)
    serving = context(ssl.Purpose.CLIENT_AUTH, root.chain, server, tmp_path)
    client = context(ssl.Purpose.SERVER_AUTH, root.chain, stored.issue("alice", (), NOW), tmp_path)
    assert handshake(serving, client, host) == {"commonName": "alice"}


def test_wrong_host_other_authority_expired_and_wrong_purpose_are_refused(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """Each by the side that has to."""
    root = authority.to_pem().chain
    other = CertificateAuthority.create("another", NOW)
    alice = authority.issue("alice", (), NOW)
    client = context(ssl.Purpose.SERVER_AUTH, root, alice, tmp_path)

    def serving(own: Issued) -> ssl.SSLContext:
        return context(ssl.Purpose.CLIENT_AUTH, root, own, tmp_path)

    good = authority.issue("headrace", ["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)hostname mismatch"):
        handshake(serving(good), client, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get|self.signed"):
        handshake(serving(other.issue("headrace", ["localhost"], NOW)), client, "localhost")
    old = authority.issue("headrace", ["localhost"], NOW - timedelta(days=30), days=29)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(serving(old), client, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(serving(alice), client, "localhost")
    untrusted = context(ssl.Purpose.SERVER_AUTH, root, other.issue("alice", (), NOW), tmp_path)
    with pytest.raises(ssl.SSLError):
        handshake(serving(good), untrusted, "localhost")


def test_certificates_end_with_their_authority() -> None:
    """One that is issued later than that is refused at once."""
    short = CertificateAuthority.create("headrace test", NOW, days=2)
    assert short.issue("a", ["h"], NOW, days=30).chain
    with pytest.raises(ConfigError, match="valid until"):
        short.issue("a", ["h"], NOW + timedelta(days=3))


def test_wrong_files_and_names_are_refused(authority: CertificateAuthority) -> None:
    """The key is in no error and no representation."""
    root, other = authority.to_pem(), CertificateAuthority.create("another", NOW).to_pem()
    for chain, key, fault in [
        (root.chain, other.key, "does not belong"),
        ("no pem", root.key, "cannot be read"),
        (root.chain, "no pem", "cannot be read"),
    ]:
        with pytest.raises(ConfigError, match=fault) as caught:
            CertificateAuthority.from_pem(chain, key)
        assert key not in str(caught.value) or key == "no pem"
    assert "PRIVATE" not in repr(root)
    with pytest.raises(ConfigError, match="host name"):
        authority.issue("a", ["höst"], NOW)
    with pytest.raises(ConfigError, match="common name"):
        authority.issue("", ["h"], NOW)
