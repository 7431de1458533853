"""TLS by hand, and by OpenSSL's own functions: what Python's client would never send."""

import _ssl
import ctypes
import os
import socket

_EXTENSIONS = (
    (10, b"\0\x04\0\x17\0\x1d"),  # supported groups: P-256, X25519
    (11, b"\x01\0"),  # uncompressed points
    (13, b"\0\x04\x04\x03\x08\x04"),  # ECDSA with P-256 and SHA-256, RSA-PSS
    (0xFF01, b"\0"),  # renegotiation info
)
ECDHE_GCM, ECDHE_CBC, FALLBACK_SCSV = 0xC02B, 0xC009, 0x5600
ALERT, HANDSHAKE = 0x15, 0x16
FATAL, INAPPROPRIATE_FALLBACK = 2, 86


def client_hello(version: int, *suites: int) -> bytes:
    """The first record of a client that speaks at most this version, 0x0302 for TLS 1.1."""
    extensions = b"".join(
        kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data for kind, data in _EXTENSIONS
    )
    chosen = b"".join(suite.to_bytes(2, "big") for suite in (suites or (ECDHE_GCM, ECDHE_CBC)))
    body = version.to_bytes(2, "big") + os.urandom(32) + b"\0"
    body += len(chosen).to_bytes(2, "big") + chosen + b"\x01\0"
    body += len(extensions).to_bytes(2, "big") + extensions
    hello = b"\x01" + len(body).to_bytes(3, "big") + body
    return bytes((HANDSHAKE, 3, 1)) + len(hello).to_bytes(2, "big") + hello


class OpenSsl:
    """A client of OpenSSL's library in a thread, over a blocking socket. It verifies nothing."""

    def __init__(self, port: int, *, is_tls12: bool = False) -> None:
        self._lib = lib = ctypes.CDLL(_ssl.__file__)  # finds the functions of the library that it uses
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(lib, name).restype = ctypes.c_void_p
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setblocking(True)
        context = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
        if is_tls12:
            lib.SSL_CTX_ctrl(context, 124, ctypes.c_long(0x0303), None)  # SSL_CTX_set_max_proto_version
        self._ssl = ctypes.c_void_p(lib.SSL_new(context))
        lib.SSL_CTX_free(context)
        lib.SSL_set_fd(self._ssl, self._socket.fileno())
        assert lib.SSL_connect(self._ssl) == 1

    def update_keys(self, *, of_both: bool) -> bool:
        """Change the keys of one or both directions; False if the connection is over."""
        is_set = self._lib.SSL_key_update(self._ssl, int(of_both)) == 1
        return is_set and self._lib.SSL_do_handshake(self._ssl) == 1

    def renegotiate(self) -> bool:
        """Another handshake on this connection (TLS 1.2): whether it succeeded."""
        assert self._lib.SSL_renegotiate(self._ssl) == 1
        return (
            self._lib.SSL_do_handshake(self._ssl) == 1 and self._lib.SSL_renegotiate_pending(self._ssl) == 0
        )

    def close(self) -> None:
        self._lib.SSL_free(self._ssl)
        self._socket.close()
