"""Keys of a provider: read at once from a file, again when asked for, and kept while they cannot be read."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.security.jwks_io import ProviderKeys
from waiting import wait_for

KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}


def document(*key_ids: str) -> str:
    return json.dumps({"keys": [{**KEY, "kid": each} for each in key_ids]})


def test_file_is_read_at_once_and_again_for_a_new_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(document("a"))
    keys = ProviderKeys(path.as_uri(), 10_000_000)
    try:
        assert keys.latest().find("a") is not None
        path.write_text("no keys")
        keys.refresh_soon()
        wait_for(lambda: keys._failures, "the file is read again")
        assert keys.latest().find("a") is not None
        path.write_text(document("a", "b"))
        keys.refresh_soon()
        wait_for(lambda: keys.latest().find("b"), "the new key")
    finally:
        keys.close()
    keys._thread.join(10)
    assert not keys._thread.is_alive()


@pytest.fixture
def provider() -> Iterator[str]:
    """An address with keys."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(document("web").encode())

        def log_message(self, *_args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_address_is_read_in_the_background(provider: str) -> None:
    keys = ProviderKeys(provider, 10_000_000)
    try:
        wait_for(lambda: keys.latest().find("web"), "the provider's key")
    finally:
        keys.close()
