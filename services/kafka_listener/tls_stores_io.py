"""Key stores and trust stores of a listener, and their SSL context; reloaded when a file changes.

The stdlib loads private keys only from files: keys of a PKCS12 store or of the configuration are passed as
anonymous memory files, never on a disk. Source: Kafka DefaultSslEngineFactory.java; KIP-651.
"""

from __future__ import annotations

import os
import ssl
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError
from ...runtime.extras import missing_extra
from ..certificate_expiry import first_expiry_s
from .tls_ciphers import cipher_list, has_tls13

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage_node.configs.listener_security import ListenerSecurity

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# Session tickets behind each handshake of TLS 1.3, as many as a JVM sends. Measured: with OpenSSL's default,
# two, a handshake takes an eighth more CPU time.
_TICKETS = 1
MAX_STORE_BYTES = 1024 * 1024  # Bound: of one file; a trust store of all public authorities has a quarter
_Signature = tuple[tuple[int, int, int] | None, ...]


class TlsStores:
    """The stores of one listener. `context` is replaced when they change; existing connections keep their
    context."""

    def __init__(self, security: ListenerSecurity) -> None:
        """Errors: ConfigError if they cannot be loaded."""
        self._security = security
        config = security.config
        self._files = tuple(filter(None, (config.ssl_keystore_location, config.ssl_truststore_location)))
        self._signature = self._current_signature()
        self.context, self.expiry_s = _context(security)

    def reload(self) -> str | None:
        """Reload the stores if a file has changed: returns an empty text if they are now in use, the fault if
        they cannot be used and the previous ones remain, and None if nothing has changed."""
        signature = self._current_signature()
        if signature == self._signature:
            return None
        self._signature = signature
        try:
            self.context, self.expiry_s = _context(self._security)
        except ConfigError as error:
            return str(error)
        return ""

    def _current_signature(self) -> _Signature:
        return tuple(_signature_of(name) for name in self._files)


def _signature_of(name: str) -> tuple[int, int, int] | None:
    try:
        found = Path(name).stat()
    except (OSError, ValueError):  # ValueError: a path with a null character
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _context(security: ListenerSecurity) -> tuple[ssl.SSLContext, float | None]:
    """The context, and when the first of its certificates expires. Errors: ConfigError, without secrets."""
    config = security.config
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    allowed = [
        _VERSIONS[name] for name in sorted(config.ssl_enabled_protocols) if name <= config.ssl_protocol
    ]
    if config.ssl_cipher_suites:
        if not has_tls13(config.ssl_cipher_suites):
            allowed = [version for version in allowed if version is not ssl.TLSVersion.TLSv1_3]
        ciphers = cipher_list(config.ssl_cipher_suites)
        if ciphers:
            _with_fault(security, "ssl.cipher.suites", lambda: context.set_ciphers(ciphers))
        else:
            allowed = [version for version in allowed if version is not ssl.TLSVersion.TLSv1_2]
    if not allowed:
        raise ConfigError(f"listener {security.listener}: no version of TLS is left")
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]
    context.num_tickets = _TICKETS
    expiry_s = _load_keys(context, security)
    _load_trusted(context, security)
    return context, expiry_s


def _load_keys(context: ssl.SSLContext, security: ListenerSecurity) -> float | None:
    config = security.config
    password = config.ssl_key_password
    if config.ssl_keystore_key:
        pem = f"{config.ssl_keystore_key.strip()}\n{config.ssl_keystore_certificate_chain.strip()}\n".encode()
    else:
        pem = _read(security, "ssl.keystore.location", config.ssl_keystore_location)
        if config.ssl_keystore_type == "PKCS12":
            pem, password = _pem_of(security, pem, config.ssl_keystore_password, with_key=True), ""
    with _memory_file(pem) as path:
        # A password is always given, since OpenSSL otherwise prompts for it on the terminal.
        _with_fault(
            security, "the key store", lambda: context.load_cert_chain(path, password=lambda: password or "")
        )
    return first_expiry_s(pem)


def _load_trusted(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    config = security.config
    context.verify_mode = _VERIFY[security.client_auth]
    if security.client_auth == "none":
        return
    # A resumed session would skip the verification of a certificate that has expired since.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    if config.ssl_truststore_certificates:
        pem = config.ssl_truststore_certificates.encode()
    else:
        pem = _read(security, "ssl.truststore.location", config.ssl_truststore_location)
        if config.ssl_truststore_type == "PKCS12":
            pem = _pem_of(security, pem, config.ssl_truststore_password, with_key=False)
    _with_fault(
        security,
        "the trust store",
        lambda: context.load_verify_locations(cadata=pem.decode("ascii", "replace")),
    )


def _read(security: ListenerSecurity, key_name: str, location: str) -> bytes:
    """The content of a store. The path may come from a request: the node must not wait for a pipe or read a
    device without end. Errors: ConfigError."""
    fault = ""
    try:
        descriptor = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                fault = "not a regular file"
            elif len(data := os.read(descriptor, MAX_STORE_BYTES + 1)) > MAX_STORE_BYTES:
                fault = f"larger than {MAX_STORE_BYTES} bytes"
            else:
                return data
        finally:
            os.close(descriptor)
    except OSError as error:
        fault = error.strerror or str(error)
    except ValueError as error:
        fault = str(error)
    raise ConfigError(f"listener {security.listener}: {key_name}: {fault}: {location!r}")


def _with_fault(security: ListenerSecurity, what: str, load: object) -> None:
    """Call `load`; its errors become a ConfigError."""
    fault = ""
    try:
        load()  # type: ignore[operator]
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not valid"
        fault = f"listener {security.listener}: {what} cannot be used: {reason}"
    if fault:
        raise ConfigError(fault)  # outside of the except block: the traceback must not show secrets


def _pem_of(security: ListenerSecurity, data: bytes, password: str, *, with_key: bool) -> bytes:
    """The content of a PKCS12 store in PEM: key and chain, or the trusted certificates. Errors:
    ConfigError."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError as error:
        raise ConfigError(str(missing_extra(error, "A PKCS12 store", "security"))) from error
    fault, store = "", None
    try:
        store = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        fault = f"listener {security.listener}: the PKCS12 store is not valid, or its password is wrong"
    if store is None:
        raise ConfigError(fault)
    certificates = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    parts = [each.public_bytes(Encoding.PEM) for each in certificates]
    if with_key:
        if store.key is None:
            raise ConfigError(f"listener {security.listener}: the PKCS12 key store has no private key")
        parts.insert(0, store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return b"".join(parts)


@contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    """The path of a file in anonymous memory, while it is open."""
    descriptor = os.memfd_create("headrace-keys")
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
