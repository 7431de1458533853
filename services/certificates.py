"""A certificate authority for one cluster, and the certificates that it issues. Pure: PEM in, PEM out.

Keys are ECDSA on P-256. Certificates of servers name hosts and addresses (the subject alternative names that
clients check), certificates of clients a user as common name, which `ssl.principal.mapping.rules` maps to a
principal. Source: RFC 5280.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

CA_DAYS, CERTIFICATE_DAYS = 3650, 825
# Clocks of machines differ: a certificate is valid from shortly before it was issued.
_BACKDATED = timedelta(minutes=5)


class Issued(NamedTuple):
    """A certificate, followed by that of its authority, and its private key as unencrypted PKCS 8; all in
    PEM."""

    chain: str
    key: str

    def __repr__(self) -> str:
        return "Issued(chain=..., key=...)"  # a key must not get into logs


@dataclass(frozen=True, repr=False)
class CertificateAuthority:
    """The root certificate of a cluster with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str, now: datetime, days: int = CA_DAYS) -> CertificateAuthority:
        """A new authority; `name` is its common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _begun(subject, subject, now)
            .not_valid_after(now + timedelta(days=days))
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def from_pem(cls, certificate: str, key: str) -> CertificateAuthority:
        """The authority in existing files. Errors: ConfigError."""
        try:
            loaded = serialization.load_pem_private_key(key.encode(), None)
            parsed = x509.load_pem_x509_certificate(certificate.encode())
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the certificate authority cannot be read: {error}") from None
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != parsed.public_key():
            raise ConfigError("the key of the certificate authority does not belong to its certificate")
        return cls(parsed, loaded)

    def to_pem(self) -> Issued:
        """The root certificate, which clients trust, and its key."""
        return Issued(_pem(self.certificate), _key_pem(self.key))

    def issue(self, name: str, hosts: Sequence[str], now: datetime, days: int = CERTIFICATE_DAYS) -> Issued:
        """A certificate with a new key. With `hosts` (names and addresses) it is a server certificate, which
        can also authenticate connections to other servers; without, a client certificate.

        Errors: ConfigError for an illegal host, or if the authority ends before `now`.
        """
        if now >= self.certificate.not_valid_after_utc:
            raise ConfigError(
                f"the certificate authority is valid until {self.certificate.not_valid_after_utc}"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] + [ExtendedKeyUsageOID.SERVER_AUTH] * bool(hosts)
        ends = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        builder = (
            _begun(_name(name), self.certificate.subject, now)
            .not_valid_after(ends)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Issued(_pem(certificate) + _pem(self.certificate), _key_pem(key))


def _begun(subject: x509.Name, issuer: x509.Name, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
    )


def _name(common_name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise ConfigError(f"{common_name!r} is not a valid common name of a certificate: {error}") from None


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ConfigError(f"{host!r} is not a valid host name: certificates need it in ASCII") from None


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
