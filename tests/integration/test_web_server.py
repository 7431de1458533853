"""The web server: pages of other sites, limits, slow clients, and clusters that do not respond."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator

import headrace
import httpx
import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.rest.application import rest_server
from headrace.services.rest.settings import RestConfig
from headrace.services.web import guard_io
from headrace.services.web.settings import WebConfig
from waiting import wait_for

APP = "https://app.example.com"
JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
LIMITS = WebConfig(
    port=0,
    max_request_bytes=100_000,
    max_requests=4,
    max_queued_requests=2,
    header_timeout_ms=300,
    body_timeout_ms=300,
    write_timeout_ms=500,
    allow_origin=(APP,),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def rest(cluster: headrace.LocalCluster) -> Iterator[httpx.Client]:
    with (
        rest_server(LIMITS, RestConfig(max_tails=20), bootstrap=cluster.bootstrap) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def topics(rest: httpx.Client) -> str:
    """The path of the topics; there is one, `t`, on the first node."""
    path = f"/v3/clusters/{rest.get('/v3/clusters').json()['data'][0]['cluster_id']}/topics"
    rest.post(path, json={"topic_name": "t", "replicas_assignments": {"0": [1]}})
    return path


def address_of(rest: httpx.Client) -> tuple[str, int]:
    return str(rest.base_url.host), int(rest.base_url.port or 0)


def sent(rest: httpx.Client, *parts: bytes, pause_s: float = 0) -> bytes:
    """What the server sends on one connection until it closes it."""
    with socket.create_connection(address_of(rest), timeout=30) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:
                break
            threading.Event().wait(pause_s)
        found = b""
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(65536):
                found += data
    return found


def test_page_of_another_site(rest: httpx.Client, topics: str) -> None:
    """A form, a script without permission, and a page of a permitted origin."""
    body = {"topic_name": "csrf"}
    evil = {"origin": "https://evil.example"}
    assert rest.post(topics, json=body, headers=evil).status_code == 403
    assert rest.delete(f"{topics}/t", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    form = {"content-type": "text/plain"}
    assert rest.post(topics, content=json.dumps(body), headers=form).status_code == 415
    assert rest.get(topics, headers={"host": "evil.example"}).status_code == 421
    read = rest.get(topics, headers=evil)
    assert "access-control-allow-origin" not in read.headers
    asked = {"origin": APP, "access-control-request-method": "POST"}
    assert rest.options(topics, headers=asked).headers["access-control-allow-origin"] == APP
    assert rest.options(topics, headers={**asked, **evil}).status_code == 403
    made = rest.post(topics, json=body, headers={"origin": APP})
    assert (made.status_code, made.headers["access-control-allow-origin"]) == (201, APP)


def test_path_that_climbs(rest: httpx.Client, topics: str) -> None:
    """No file is ever read; an encoded slash is a part of a name that no topic has."""
    for path in (b"/../../etc/passwd", b"/docs/../../etc/passwd", b"/topics/..%2f..%2fetc%2fpasswd"):
        answer = sent(rest, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
        assert b"root:" not in answer


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"\xff", 400),
        (b"[" * 100_001, 413),
        (b'{"records":[{"value":' + b"[" * 90_000, 400),
        (b'{"records":[{"value":"\xff"}]}', 400),
        (b'{"records":[{"value":"\\ud800"}]}', 400),
        (b'{"records":{}}', 422),
        (b'{"records":[{"partition":"x"}]}', 422),
        (b"x" * 200_000, 413),
    ],
)
def test_malformed_or_large_body(rest: httpx.Client, topics: str, body: bytes, status: int) -> None:
    """The response says what is wrong."""
    refused = rest.post("/topics/t", content=body, headers=JSON_V2)
    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    chunked = rest.post("/topics/t", content=iter([body]), headers=JSON_V2)
    assert chunked.status_code == status


@pytest.mark.parametrize(
    "request_line",
    [b"GET / HTTP/9.9", b"\x16\x03\x01\x02\x00", b"GET /%ff HTTP/1.1", b"GET /" + b"x" * 100_000],
)
def test_malformed_request(rest: httpx.Client, request_line: bytes) -> None:
    """TLS to a plain port, garbage, and a header without an end."""
    answer = sent(rest, request_line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 4")
    assert b"application/problem+json" in answer


def test_slow_header_and_slow_body(rest: httpx.Client, topics: str) -> None:
    """Slow loris: byte by byte, at the start of a connection and after a request on it."""
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    began = time.monotonic()
    drops = [bytes([byte]) for byte in b"X-Slow: " + b"x" * 100]
    assert sent(rest, head, *drops, pause_s=0.05).startswith(b"HTTP/1.1 408")
    assert sent(rest, head + b"\r\n" + head, *drops, pause_s=0.05).count(b"HTTP/1.1 408") == 1
    post = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n"
    kind = b"Content-Type: application/vnd.kafka.json.v2+json\r\n\r\n{"
    assert sent(rest, post + kind).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 10  # none of them was waited for


def test_too_many_requests_and_tails(rest: httpx.Client, topics: str) -> None:
    """Others get 503 and Retry-After, and health responds again once there are fewer."""
    path = f"{topics}/t/records"
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(
                httpx.get(f"{rest.base_url}{path}?offset=latest&timeout=2000").status_code
            )
        )
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 503}
    with contextlib.ExitStack() as opened:
        for _ in range(20):
            tail = opened.enter_context(rest.stream("GET", f"{path}:tail"))
            assert tail.status_code == 200
        refused = rest.get(f"{path}:tail")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert rest.get(topics).status_code == 200
    wait_for(lambda: _opens(rest, f"{path}:tail"), "closed tails are no longer counted")


def _opens(rest: httpx.Client, path: str) -> bool:
    with rest.stream("GET", path) as tail:
        return tail.status_code == 200


def test_too_many_connections() -> None:
    """The connection above the bound gets a response at once; idle ones are closed."""
    web = WebConfig(port=0, max_connections=20, header_timeout_ms=4000)
    with rest_server(web, bootstrap="127.0.0.1:1") as server, httpx.Client(base_url=server.url) as rest:
        with contextlib.ExitStack() as opened:
            idle = [opened.enter_context(socket.create_connection(address_of(rest), 30)) for _ in range(20)]
            assert sent(rest, b"").startswith(b"HTTP/1.1 503")
            assert idle[0].recv(4096).startswith(b"HTTP/1.1 408")
        wait_for(lambda: rest.get("/health").status_code == 200, "there are connections again")


def test_client_that_does_not_read_its_tail(
    rest: httpx.Client, topics: str, cluster: headrace.LocalCluster
) -> None:
    """It is dropped after write.timeout.ms, and has no tail then; others get every record meanwhile."""
    rest.post(topics, json={"topic_name": "flood", "replicas_assignments": {"0": [1]}})
    path = f"{topics}/flood/records:tail"
    with (
        rest_server(LIMITS, RestConfig(max_tails=2), bootstrap=cluster.bootstrap) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
        socket.socket() as lazy,
        cluster.producer() as producer,
    ):
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(address_of(client))
        lazy.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        lazy.recv(12, socket.MSG_WAITALL)
        with client.stream("GET", path) as tail:
            lines = tail.iter_lines()
            next(line for line in lines if line.startswith("data"))
            assert not _opens(client, path)
            found: list[int] = []
            for _ in range(30):
                for number in range(20):
                    producer.send("flood", b"%d" % number + b" " * 20_000)
                producer.flush()
                found += [json.loads(line[6:])["offset"] for line in _some(lines, 20)]
            assert found == list(range(600))
            wait_for(lambda: _opens(client, path), "the lazy client is dropped")


@pytest.mark.parametrize("is_late", [False, True])
def test_last_event_of_a_slow_client_says_why(
    rest: httpx.Client,
    topics: str,
    cluster: headrace.LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    """It is the end of the response if the client reads on in time; otherwise the connection is reset. What
    is kept for the client meanwhile is a small part of the records."""
    if is_late:
        monkeypatch.setattr(guard_io, "LAST_PART_S", 0.0)
    rest.post(topics, json={"topic_name": "slow", "replicas_assignments": {"0": [1]}})
    path = f"{topics}/slow/records:tail"
    with (
        rest_server(LIMITS, RestConfig(max_tails=1), bootstrap=cluster.bootstrap) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
        socket.socket() as slow,
        cluster.producer() as producer,
    ):
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(30)
        slow.connect(address_of(client))
        slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        slow.recv(12, socket.MSG_WAITALL)
        for _ in range(1000):
            producer.send("slow", b" " * 20_000)
        producer.flush()
        wait_for(lambda: _opens(client, path), "the slow client has no tail")
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while data := slow.recv(65536):
                found += data
        assert len(found) < 8_000_000  # with the buffers of the kernel
        _, _, last = found.rpartition(b"event: error\ndata: ")
        if is_late:
            assert not found.endswith(b"0\r\n\r\n")
        else:
            assert json.loads(last.partition(b"\n")[0])["error_code"] == 40801
            assert last.endswith(b"\r\n0\r\n\r\n")


def _some(lines: Iterator[str], count: int) -> Iterator[str]:
    while count:
        line = next(lines)
        if line.startswith("data: "):
            count -= 1
            yield line


def test_node_that_is_down(rest: httpx.Client, topics: str, cluster: headrace.LocalCluster) -> None:
    """Its partition cannot be written: 503 and Retry-After; a tail survives it."""
    fast = {"default.api.timeout.ms": 1500, "max.block.ms": 1500, "delivery.timeout.ms": 1500,
            "request.timeout.ms": 1000, "linger.ms": 0}  # fmt: skip
    with (
        rest_server(WebConfig(port=0), bootstrap=cluster.bootstrap, client_config=fast) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
        client.stream("GET", f"{topics}/t/records:tail") as tail,
    ):
        lines = tail.iter_lines()
        next(line for line in lines if line.startswith("data"))
        record = {"records": [{"value": "before"}]}
        assert client.post("/topics/t", json=record, headers=JSON_V2).status_code == 200
        cluster.kill_node(0)
        refused = client.post("/topics/t", json=record, headers=JSON_V2)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert client.get("/health/cluster").status_code in (200, 503)
        cluster.restart_node(0)
        wait_for(
            lambda: client.post("/topics/t", json=record, headers=JSON_V2).status_code == 200,
            "the partition is written again",
        )
        assert len(list(_some(lines, 2))) == 2


def test_cluster_that_is_absent() -> None:
    """The server starts, says so for each request, and health is its own."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    web = WebConfig(port=0, request_timeout_ms=500)
    with (
        rest_server(web, bootstrap=address) as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        assert client.get("/health").json()["status"] == "ok"
        for path in ("/topics", "/v3/clusters", "/health/cluster", "/v3/clusters/x/topics/t/records:tail"):
            refused = client.get(path)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), path
            assert refused.json()["error_code"] == 50301
        assert client.post("/topics/t", json={"records": [{"value": 1}]}, headers=JSON_V2).status_code == 503


def test_server_that_cannot_start(tmp_path: object) -> None:
    """The port is taken; the certificate is missing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            rest_server(WebConfig(port=port), bootstrap="127.0.0.1:1").start()
    web = WebConfig(port=0, certificate_file=f"{tmp_path}/no.pem", key_file=f"{tmp_path}/no.key")
    with pytest.raises(ConfigError, match=r"ssl\.certificate\.location"):
        rest_server(web, bootstrap="127.0.0.1:1").start()
