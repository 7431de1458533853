"""When the certificates of a server expire. Pure."""

from __future__ import annotations


def first_expiry_s(pem: bytes) -> float | None:
    """When the first of these certificates expires, in seconds since 1970; None without a certificate, or
    without the library of the extra `security`, which reads them."""
    try:
        from cryptography.x509 import load_pem_x509_certificates
    except ImportError:
        return None
    try:
        found = load_pem_x509_certificates(pem)
    except ValueError:
        return None  # OpenSSL has accepted it
    return min((each.not_valid_after_utc.timestamp() for each in found), default=None)
