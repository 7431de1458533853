"""Requests on bare sockets are those of a Kafka client; an answer with an error is taken for no right one."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from headrace.benchmarks.loops.connections import Crowd
from headrace.benchmarks.loops.frames import Requests, errors, frame, right_size
from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import now_ns
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN_TOPIC = 3
# Metadata, version 12: no brokers, no cluster, a topic that is not there
NOT_THERE = bytes.fromhex("00000001 00 00000000 01 00 ffffffff 02 0003 00") + bytes(16) + bytes.fromhex(
    "00 01 80000000 00 00"
)  # fmt: skip


def test_a_frame_has_its_size_in_front_and_says_what_it_is() -> None:
    """Key and version first; one record to produce."""
    requests = Requests("t")
    for (request, _), key in zip((requests.hello, requests.metadata, requests.produce, requests.fetch),
                                 (18, 3, 0, 1), strict=True):  # fmt: skip
        data = frame(request)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert int.from_bytes(data[4:6], "big") == key
    assert requests.records == 1


def test_errors_are_found_wherever_they_are() -> None:
    """Deep in a topic."""
    header, start = entity_reader(ResponseHeader)(NOT_THERE, 0)
    body, size = entity_reader(MetadataResponse)(NOT_THERE, start)
    assert (int(header.correlation_id), start + size) == (1, len(NOT_THERE))
    assert errors(body) == {UNKNOWN_TOPIC}


ANSWER = (len(NOT_THERE)).to_bytes(4, "big") + NOT_THERE


class Server(threading.Thread):
    """Takes connections and gives each request one answer."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address: tuple[str, int] = self.listener.getsockname()
        self.accepted, self.answer = 0, answer

    def run(self) -> None:
        """One connection after another, until the listener is closed."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            with connection, contextlib.suppress(ConnectionError):
                while self.answer and connection.recv(1 << 16):
                    connection.sendall(self.answer)


@pytest.fixture
def server() -> Iterator[Server]:
    """Answers all with an error; ends with the test."""
    running = Server(ANSWER)
    running.start()
    yield running
    running.listener.shutdown(socket.SHUT_RDWR)
    running.listener.close()
    running.join(60)


def test_an_answer_with_an_error_is_no_right_one(server: Server) -> None:
    """Its size would be what all are held against."""
    with (
        socket.create_connection(server.address) as connection,
        pytest.raises(RuntimeError, match="answered with errors"),
    ):
        right_size(connection, *Requests("t").metadata)


def run(server: Server, size: int, schedule: Schedule | None = None) -> Crowd:
    """Three at a time, two questions each, until ten are through."""
    with Crowd(server.address, [[(b"question", size)] * 2], 3, now_ns()) as crowd:
        crowd.run(lambda: crowd.finished[0] >= 10, schedule)
    return crowd


@pytest.mark.parametrize("is_paced", [False, True])
def test_visitors_come_ask_and_go(server: Server, is_paced: bool) -> None:
    """As many connections as visits, none is left; those that end after the end are not timed."""
    schedule = Schedule(1_000, now_ns() - 1_000_000_000) if is_paced else None
    crowd = run(server, len(ANSWER), schedule)
    assert crowd.finished[0] == server.accepted >= 10
    assert 10 <= crowd.times.count <= crowd.finished[0]


def test_an_answer_that_is_too_long_is_an_error(server: Server) -> None:
    """It is not the right one."""
    with pytest.raises(RuntimeError, match="longer"):
        run(server, len(ANSWER) - 1)


def test_a_closed_connection_is_an_error(server: Server) -> None:
    """It is not counted as a visit."""
    server.answer = b""
    with pytest.raises(ConnectionError):
        run(server, len(ANSWER))
