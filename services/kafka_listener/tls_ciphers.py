"""`ssl.cipher.suites`: maps IANA names of suites, which Java uses, to OpenSSL's names. Pure.

Before Python 3.15 the suites of TLS 1.3 cannot be selected individually: all three, or none to disable TLS
1.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_IANA = re.compile(r"TLS_(?P<exchange>(?:EC)?DHE_RSA|ECDHE_ECDSA|RSA)_WITH_(?P<cipher>[A-Z0-9_]+)")


def has_tls13(suites: Sequence[str]) -> bool:
    """Whether TLS 1.3 has suites in the list. Errors: ConfigError for some of them."""
    found = [suite for suite in TLS13_SUITES if suite in suites]
    if found and len(found) < len(TLS13_SUITES):
        raise ConfigError(
            f"ssl.cipher.suites needs all of TLS 1.3's suites or none: {', '.join(TLS13_SUITES)}"
        )
    return bool(found)


def cipher_list(suites: Sequence[str]) -> str:
    """The suites of TLS 1.2 in OpenSSL's notation; empty for none. Errors: ConfigError."""
    return ":".join(_openssl_name(suite) for suite in suites if suite not in TLS13_SUITES)


def _openssl_name(suite: str) -> str:
    match = _IANA.fullmatch(suite)
    if match is None:
        raise ConfigError(f"ssl.cipher.suites has the unknown suite {suite[:100]!r}")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", match["cipher"]).replace("_CBC", "")
    if cipher.startswith("CHACHA20"):
        cipher = cipher.removesuffix("_SHA256")
    exchange = "" if match["exchange"] == "RSA" else f"{match['exchange']}_"
    return (exchange + cipher).replace("_", "-")
