"""The endpoint of metrics: HTTP, its bounds, and servers that do not answer."""

import asyncio
import base64
import contextlib
import gzip
import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.errors import ConfigError
from headrace.runtime.loop_thread_io import LoopThread
from headrace.runtime.telemetry import process_table as table
from headrace.runtime.telemetry.samples import Samples
from headrace.runtime.telemetry_config import TelemetryConfig
from headrace.services.certificates import CertificateAuthority
from headrace.services.telemetry import endpoint_io
from headrace.services.telemetry.endpoint_io import Endpoint
from headrace.services.telemetry.gathering_io import Gatherer
from waiting import wait_for


class Server:
    """A server with one metric, on a loop of its own."""

    role, server_id, cluster_id = "node", 7, "c"
    data_dirs: Sequence[str] = ("/",)

    def __init__(self, timeout_s: float = 5.0, **config: Any) -> None:
        self.reads = 0
        self.fault: Exception | None = None
        self.before_piece: Callable[[], None] = lambda: None
        self.gatherer = Gatherer(self, timeout_s)
        self.endpoint = Endpoint(TelemetryConfig.of(config), self.gatherer)
        self._over = asyncio.Event()
        self._is_up = threading.Event()
        self._thread = LoopThread("test", self._main, lambda _: None)
        self._thread.start()
        assert self._is_up.wait(5)

    async def _main(self) -> None:
        self.gatherer.start()
        self.port = self.endpoint.start("127.0.0.1", 0)
        self._is_up.set()
        await self._over.wait()

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        self.reads += 1
        self.before_piece()
        if self.fault is not None:
            raise self.fault
        samples.set(table.QUOTA_METERS, self.reads)
        yield

    def stored_port(self, name: str) -> int:
        return 0

    def store_port(self, name: str, port: int) -> None:
        """Not kept."""

    def close(self) -> None:
        self.endpoint.close()
        self._thread.wake(self._over.set)
        assert self._thread.join(5)

    def get(self, path: str = "/metrics", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(
            "GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()}
        )
        return connection.getresponse()


@pytest.fixture
def new_server() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def new(**options: Any) -> Server:
        made.append(Server(**options))
        return made[-1]

    yield new
    for server in made:
        server.close()


def test_formats_and_compression_are_negotiated(new_server: Callable[..., Server]) -> None:
    server = new_server()
    plain = server.get()
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    text = plain.read().decode()
    assert "headrace_build_info{" in text
    assert 'role="node",server_id="7",cluster_id="c"' in text
    assert "process_resident_memory_bytes" in text
    assert 'headrace_log_manager_disk_free_bytes{directory="/"}' in text
    packed = server.get(Accept="application/openmetrics-text;version=1.0.0", Accept_Encoding="gzip")
    assert packed.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert gzip.decompress(packed.read()).endswith(b"# EOF\n")
    assert server.get("/other").status == 404


def test_readers_share_values_that_are_fresh(new_server: Callable[..., Server]) -> None:
    """Many scrapers cost the server one reading."""
    server = new_server()
    for _ in range(10):
        assert server.get().status == 200
    assert server.reads < 10


def age_s(server: Server) -> float:
    lines = server.get().read().decode().splitlines()
    (age,) = [line.split()[1] for line in lines if line.startswith("headrace_metrics_age_seconds ")]
    return float(age)


def test_a_loop_that_hangs_shows_its_last_values(new_server: Callable[..., Server]) -> None:
    """With their age; the process is measured still."""
    server = new_server(timeout_s=0.05)
    assert b"headrace_client_quota_manager_meters 1\n" in server.get().read()
    release = threading.Event()
    server.before_piece = lambda: release.wait(10)
    try:
        wait_for(lambda: age_s(server) > 0.6, "the last values with their age")
        assert b"headrace_client_quota_manager_meters 1\n" in server.get().read()
    finally:
        release.set()


def test_a_loop_that_hangs_delays_scrapes_once(new_server: Callable[..., Server]) -> None:
    """Each scrape that waits again would block the next, and all would fail by the scrapers' timeouts."""
    timeout_s = 0.7
    server = new_server(timeout_s=timeout_s)
    server.get().read()
    release = threading.Event()
    server.before_piece = lambda: release.wait(60)
    try:
        wait_for(lambda: age_s(server) > timeout_s, "the values are old")
        begun_s = time.monotonic()
        for _ in range(4):
            server.get().read()
        assert time.monotonic() - begun_s < 4 * timeout_s
    finally:
        release.set()
    wait_for(
        lambda: b"headrace_client_quota_manager_meters 3\n" in server.get().read(), "new values are read"
    )


def test_a_bug_in_a_metric_fails_the_scrape_alone(new_server: Callable[..., Server]) -> None:
    server = new_server()
    server.fault = ValueError("no such partition")
    assert server.get().status == 500
    server.fault = None
    assert server.get().status == 200


def test_scrapers_that_do_not_read_are_bounded(
    new_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a few threads; then others get their places."""
    monkeypatch.setattr(endpoint_io, "DEADLINE_S", 0.2)
    server = new_server()
    threads = threading.active_count()
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(30)]
    try:
        for connection in slow:
            connection.settimeout(1)
            with contextlib.suppress(OSError):  # refused
                connection.sendall(b"GET /metrics HTTP/1.0\r\nX: ")
        assert threading.active_count() <= threads + endpoint_io.MAX_CONNECTIONS

        def is_served() -> bool:
            try:
                return server.get().status == 200
            except OSError:
                return False

        wait_for(is_served, "a place for another scraper")
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize(
    "garbage", [b"\x00\xff" * 500, b"GET /metrics\r\n\r\n", b"A" * 100_000, b"PUT / HTTP/1.1\r\n\r\n"]
)
def test_garbage_is_refused(new_server: Callable[..., Server], garbage: bytes) -> None:
    server = new_server()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        try:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except OSError:
            pass  # closed before all was sent
    assert server.get().status == 200


def test_basic_authentication(new_server: Callable[..., Server]) -> None:
    server = new_server(**{"metrics.basic.auth": "prometheus:secret"})

    def status_of(text: bytes) -> int:
        return server.get(Authorization="Basic " + base64.b64encode(text).decode()).status

    assert server.get().status == 401
    assert server.get(Authorization="Basic ???").status == 401
    assert server.get(Authorization="Bearer cHJvbWV0aGV1czpzZWNyZXQ=").status == 401
    assert status_of(b"prometheus:wrong") == 401
    assert status_of(b"prometheus:secret") == 200


def test_tls_and_a_renewed_certificate(new_server: Callable[..., Server], tmp_path: Path) -> None:
    """The file is read again when it changes; a scrape that is not TLS does no harm."""
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("test", now)
    files = {"metrics.ssl.certificate.file": tmp_path / "c.pem", "metrics.ssl.key.file": tmp_path / "k.pem"}

    def issue() -> str:
        issued = authority.issue("node", ["127.0.0.1"], now)
        for path, text in zip(files.values(), (issued.chain, issued.key), strict=True):
            path.write_text(text)
        return issued.chain

    def seen() -> bytes:
        context = ssl.create_default_context(cadata=authority.to_pem().chain)
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.0 200")
            return connection.getpeercert(binary_form=True) or b""

    issue()
    server = new_server(**{name: str(path) for name, path in files.items()})
    with pytest.raises((OSError, http.client.HTTPException)):
        server.get()
    first = seen()
    issue()
    os.utime(files["metrics.ssl.certificate.file"], (1, 1))  # a file system may have coarse times
    assert seen() != first
    (tmp_path / "c.pem").write_text("nonsense")
    assert seen() != first, "the one before stays in use"


def test_config_faults_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nonsense")
    config = TelemetryConfig.of({"metrics.ssl.certificate.file": str(bad), "metrics.ssl.key.file": str(bad)})
    with pytest.raises(ConfigError, match=r"metrics\.ssl\.certificate\.file cannot be used"):
        Endpoint(config, Gatherer(Server.__new__(Server)))
    for values, fault in (
        ({"metrics.ssl.key.file": "k"}, "must be set together"),
        ({"metrics.basic.auth": "nobody"}, "must be user:password"),
    ):
        with pytest.raises(ConfigError, match=fault):
            TelemetryConfig.of(values).check_telemetry()
