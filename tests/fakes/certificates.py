"""A CA and certificates for tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Issued:
    """A certificate and its key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, chain: str) -> None:
        self.key, self.certificate = key, certificate
        self.chain_pem = certificate.public_bytes(Encoding.PEM).decode() + chain

    def key_pem(self, password: str = "") -> str:
        encryption: KeySerializationEncryption = NoEncryption()
        if password:
            encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"n", self.key, self.certificate, None, encryption)

    def written(self, folder: Path, name: str, *, password: str = "") -> tuple[str, str]:
        """Write the chain and the key to files; returns their paths."""
        chain, key = folder / f"{name}.pem", folder / f"{name}.key"
        chain.write_text(self.chain_pem)
        key.write_text(self.key_pem(password))
        return str(chain), str(key)


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key(), 0, 10)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(is_ca=True), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self._certificate = builder.sign(self._key, SHA256())
        self.pem = self._certificate.public_bytes(Encoding.PEM).decode()

    def written(self, folder: Path, name: str = "ca.pem") -> str:
        (folder / name).write_text(self.pem)
        return str(folder / name)

    def issue(
        self,
        common_name: str,
        *,
        host: str = "localhost",
        from_days: int = -1,
        days: int = 2,
        unit: str = "data",
    ) -> Issued:
        """A certificate for `host` and 127.0.0.1, valid from `from_days` before or after today for `days`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        names: list[x509.GeneralName] = [x509.DNSName(host)]
        if host == "localhost":
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        builder = _builder(subject, self._name, key.public_key(), from_days, days)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        return Issued(key, builder.sign(self._key, SHA256()), "")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, from_days: int, days: int
) -> x509.CertificateBuilder:
    start = datetime.datetime.now(datetime.UTC) + from_days * _DAY - datetime.timedelta(minutes=5)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
    builder = builder.public_key(key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(start).not_valid_after(start + days * _DAY)


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )
