"""Reads the keys of an OIDC provider, at intervals and when a token has an unknown key id.

A separate thread waits for the provider, so that no connection waits. Source: Kafka
RefreshingHttpsJwks.java.
"""

from __future__ import annotations

import logging
import threading
import urllib.request
from typing import Any

from .jwks import KeySet

_LOG = logging.getLogger(__name__)
MAX_BYTES = 1024 * 1024
TIMEOUT_S = 10.0
# Bound: reads caused by tokens with unknown keys; also the first pause after a failure, which doubles.
MIN_INTERVAL_S = 1.0
_MAX_RETRY_S = 60.0


class ProviderKeys:
    """The latest key set of one provider, which remains in use while the provider does not respond."""

    def __init__(self, url: str, refresh_ms: int) -> None:
        """Reads a file at once, and a URL in the thread."""
        self._url, self._refresh_s = url, refresh_ms / 1000
        self._keys = KeySet('{"keys": []}')
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._failures = 0
        if url.startswith("file:"):
            self._read()
        else:
            self._wanted.set()
        self._thread = threading.Thread(target=self._run, name="headrace-jwks", daemon=True)
        self._thread.start()

    def latest(self) -> KeySet:
        """Empty before the first read."""
        return self._keys

    def refresh_soon(self) -> None:
        """Request a read, because a token has an unknown key id."""
        self._wanted.set()

    def close(self) -> None:
        """Stop; a read that is in progress ends by itself."""
        self._closed.set()
        self._wanted.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            wait_s = (
                min(MIN_INTERVAL_S * 2**self._failures, _MAX_RETRY_S) if self._failures else self._refresh_s
            )
            self._wanted.wait(wait_s)
            self._wanted.clear()
            if self._closed.is_set():
                return
            self._read()
            self._closed.wait(MIN_INTERVAL_S)

    def _read(self) -> None:
        try:
            self._keys = KeySet(_text(self._url))
            self._failures = 0
        except (OSError, ValueError) as error:
            self._failures = min(self._failures + 1, 10)
            if self._failures == 1:
                _LOG.warning("cannot read the token keys at %s: %s", self._url, _kind_of(error))


def _text(url: str) -> str:
    """Errors: OSError, ValueError."""
    response: Any
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310 -- https, http or file
        data: bytes = response.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return data.decode()


def _kind_of(error: Exception) -> str:
    return str(getattr(error, "reason", "")) or str(error)[:200] or type(error).__name__
