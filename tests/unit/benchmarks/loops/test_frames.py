"""Encoded requests on bare sockets, and visitors that check the size of each response."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from headrace.benchmarks.loops.connections import Transport, Visitors
from headrace.benchmarks.loops.frames import Requests, error_codes, frame, frame_and_response_size
from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import now_ns
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader

UNKNOWN_TOPIC = 3
# Metadata, version 12: no brokers, no cluster, an unknown topic
UNKNOWN = bytes.fromhex("00000001 00 00000000 01 00 ffffffff 02 0003 00") + bytes(16) + bytes.fromhex(
    "00 01 80000000 00 00"
)  # fmt: skip


def test_frame_starts_with_its_size_and_api_key() -> None:
    """The batch to produce has one record."""
    requests = Requests("t")
    for (request, _), key in zip((requests.hello, requests.metadata, requests.produce, requests.fetch),
                                 (18, 3, 0, 1), strict=True):  # fmt: skip
        data = frame(request)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert int.from_bytes(data[4:6], "big") == key
    assert requests.records == 1


def test_error_codes_are_found_in_nested_entities() -> None:
    """That of a topic in a Metadata response."""
    header, start = entity_reader(ResponseHeader)(UNKNOWN, 0)
    body, size = entity_reader(MetadataResponse)(UNKNOWN, start)
    assert (int(header.correlation_id), start + size) == (1, len(UNKNOWN))
    assert error_codes(body) == {UNKNOWN_TOPIC}


RESPONSE = (len(UNKNOWN)).to_bytes(4, "big") + UNKNOWN


class Server(threading.Thread):
    """Sends one response to each request."""

    def __init__(self, response: bytes) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address: tuple[str, int] = self.listener.getsockname()
        self.accepted, self.response = 0, response

    def run(self) -> None:
        """One connection after another, until the listener is closed."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            with connection, contextlib.suppress(ConnectionError):
                while self.response and connection.recv(1 << 16):
                    connection.sendall(self.response)


@pytest.fixture
def server() -> Iterator[Server]:
    """Responds to all requests with an error."""
    running = Server(RESPONSE)
    running.start()
    yield running
    running.listener.shutdown(socket.SHUT_RDWR)
    running.listener.close()
    running.join(60)


def test_response_with_an_error_code_has_no_reference_size(server: Server) -> None:
    """All later responses are compared with that size."""
    with (
        socket.create_connection(server.address) as connection,
        pytest.raises(RuntimeError, match="response with error codes"),
    ):
        frame_and_response_size(connection, *Requests("t").metadata)


def run(server: Server, size: int, schedule: Schedule | None = None) -> Visitors:
    """Three at a time, two requests each, until ten are finished."""
    with Visitors(server.address, [[(b"request", size)] * 2], 3, now_ns(), Transport()) as visitors:
        visitors.run(lambda: visitors.finished[0] >= 10, schedule)
    return visitors


@pytest.mark.parametrize("is_paced", [False, True])
def test_each_visit_has_its_own_connection(server: Server, is_paced: bool) -> None:
    """All are closed; visits that end after the time limit are not timed."""
    schedule = Schedule(1_000, now_ns() - 1_000_000_000) if is_paced else None
    visitors = run(server, len(RESPONSE), schedule)
    assert visitors.finished[0] == server.accepted >= 10
    assert 10 <= visitors.times.count <= visitors.finished[0]


def test_longer_response_is_an_error(server: Server) -> None:
    """It is not a correct one."""
    with pytest.raises(RuntimeError, match="longer"):
        run(server, len(RESPONSE) - 1)


def test_closed_connection_is_an_error(server: Server) -> None:
    """It does not count as a visit."""
    server.response = b""
    with pytest.raises(ConnectionError):
        run(server, len(RESPONSE))
