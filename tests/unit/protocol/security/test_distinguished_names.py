"""Subjects of certificates as Java prints them."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from headrace.protocol.security.distinguished_names import subject_name

KEY = ec.generate_private_key(ec.SECP256R1())
DAY = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def certificate(*names: x509.RelativeDistinguishedName) -> bytes:
    made = x509.CertificateBuilder(subject_name=x509.Name(names), issuer_name=x509.Name([]))
    made = made.public_key(KEY.public_key()).serial_number(1).not_valid_before(DAY).not_valid_after(DAY)
    return made.sign(KEY, SHA256()).public_bytes(Encoding.DER)


def name(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for kind, value in pairs])


def test_order_keywords_and_other_attributes() -> None:
    """The last name first; an attribute without a keyword is its number and its bytes."""
    subject = subject_name(
        certificate(
            name((NameOID.COUNTRY_NAME, "DE")),
            name((NameOID.DOMAIN_COMPONENT, "example")),
            name((NameOID.ORGANIZATIONAL_UNIT_NAME, "Ä"), (NameOID.USER_ID, "u1")),
            name((NameOID.EMAIL_ADDRESS, "a@b")),
            name((NameOID.COMMON_NAME, "alice")),
        )
    )
    assert subject == "CN=alice,1.2.840.113549.1.9.1=#1603614062,OU=Ä+UID=u1,DC=example,C=DE"


@pytest.mark.parametrize(
    ("value", "text"),
    [("a,b+c", r"a\,b\+c"), (' a"\\ ', r"\ a\"\\\ "), ("#x=<>;", r"\#x\=\<\>\;"), ("  ", r"\ \ ")],
)
def test_escapes(value: str, text: str) -> None:
    assert subject_name(certificate(name((NameOID.COMMON_NAME, value)))) == f"CN={text}"


def test_truncated_certificates_are_value_errors() -> None:
    whole = certificate(name((NameOID.COMMON_NAME, "alice")))
    for size in (1, 3, 10, 60, len(whole) - 1):
        with pytest.raises(ValueError, match="ends within"):
            subject_name(whole[:size])
