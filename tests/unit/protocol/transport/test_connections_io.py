"""Ending single connections by their descriptors, and never anything else."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace.protocol.transport.connections_io import (
    PendingHandshakes,
    disconnect,
    far_end,
    peeked_received_bytes,
    received_bytes,
)
from headrace.protocol.transport.peers import RouterLimits


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def ends(listener: socket.socket) -> Iterator[tuple[socket.socket, socket.socket, int]]:
    """The client's end, our end, and our port."""
    with socket.create_connection(listener.getsockname()) as client:
        ours, _ = listener.accept()
        with ours:
            client.settimeout(10)
            yield client, ours, listener.getsockname()[1]


def yes() -> bool:
    return True


def nothing() -> None:
    return None


def test_a_connection_of_our_port_is_ended(ends: tuple[socket.socket, socket.socket, int]) -> None:
    """Shut down by descriptor: the client reads the end; the descriptor itself stays its owner's."""
    client, ours, port = ends
    assert far_end(ours.fileno(), port) == "{}:{}".format(*client.getsockname())
    assert disconnect(ours.fileno(), port, yes)
    assert client.recv(1) == b""
    os.fstat(ours.fileno())


def test_received_bytes_are_counted_and_0_where_unknown(
    ends: tuple[socket.socket, socket.socket, int],
) -> None:
    """A peer whose descriptor is not known yet, or closed, must not end the listener."""
    client, ours, port = ends
    client.sendall(bytes(1000))
    assert len(ours.recv(1000, socket.MSG_WAITALL)) == 1000
    assert received_bytes(ours.fileno(), port) == peeked_received_bytes(ours.fileno()) >= 1000
    with Path("/dev/null").open() as other:
        closed = other.fileno()
        assert received_bytes(closed, port) == peeked_received_bytes(closed) == 0
    for unknown in (-1, closed):
        assert received_bytes(unknown, port) == peeked_received_bytes(unknown) == 0


def test_replaced_connection_with_the_same_descriptor_is_not_ended(
    ends: tuple[socket.socket, socket.socket, int],
) -> None:
    """By an event, read while the duplicate is open, the intended one is closed: no other one is ended."""
    client, ours, port = ends
    assert not disconnect(ours.fileno(), port, lambda: False)
    ours.sendall(b"still here")
    assert client.recv(20) == b"still here"


def test_ended_handles_are_the_duplicated_ones(ends: tuple[socket.socket, socket.socket, int]) -> None:
    """A file descriptor is reused between the lookup and the shutdown: the new socket is not affected."""
    client, ours, port = ends
    bystander, other_end = socket.socketpair()
    number = ours.fileno()

    def number_changes_hands() -> bool:
        os.dup2(bystander.fileno(), number)
        return True

    with bystander, other_end:
        assert disconnect(number, port, number_changes_hands)
        assert client.recv(1) == b""
        bystander.sendall(b"untouched")
        assert other_end.recv(20) == b"untouched"


def test_connection_of_another_port_is_not_ended(ends: tuple[socket.socket, socket.socket, int]) -> None:
    """The descriptor belongs to another socket now."""
    client, ours, port = ends
    assert not disconnect(ours.fileno(), port + 1, yes)
    assert far_end(ours.fileno(), port + 1) == ""
    ours.sendall(b"still here")
    assert client.recv(20) == b"still here"


def test_files_pipes_and_closed_descriptors_are_not_ended(tmp_path: Path) -> None:
    """The descriptor is closed, or reused for a log file: it is left open and no duplicate leaks."""
    before = len(os.listdir("/proc/self/fd"))
    reader, writer = os.pipe()
    with (tmp_path / "segment.log").open("wb") as file:
        for descriptor in (-1, 10**6, file.fileno(), reader):
            assert not disconnect(descriptor, 9092, yes)
            assert far_end(descriptor, 9092) == ""
        file.write(b"fine")
    os.close(reader)
    os.close(writer)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_connection_that_has_ended_already(ends: tuple[socket.socket, socket.socket, int]) -> None:
    """The client was faster, by reset: no error."""
    client, ours, port = ends
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    assert not disconnect(ours.fileno(), port, yes)


def test_silent_connections_are_closed(ends: tuple[socket.socket, socket.socket, int]) -> None:
    """Accepted at 0 with 100 ms to shake hands: alive at 100, ended at 101, and forgotten."""
    client, ours, port = ends
    handshakes = PendingHandshakes(port, RouterLimits(handshake_timeout_ms=100), refresh=nothing)
    assert handshakes.accepted(ours.fileno(), 0, 0)
    assert handshakes.sweep(100) == 0
    assert handshakes.sweep(101) == 1
    assert client.recv(1) == b""
    assert len(handshakes) == 0


def test_connections_after_handshake_or_close_are_not_ended(
    ends: tuple[socket.socket, socket.socket, int],
) -> None:
    """Both are out of the sweep's reach."""
    client, ours, port = ends
    handshakes = PendingHandshakes(port, RouterLimits(handshake_timeout_ms=100), refresh=nothing)
    for leave in (handshakes.shook_hands, handshakes.gone):
        handshakes.accepted(ours.fileno(), 0, 0)
        leave(ours.fileno())
        assert handshakes.sweep(10**6) == 0
    ours.sendall(b"x")
    assert client.recv(1) == b"x"


def test_connections_beyond_the_limit_are_ended_at_once(
    ends: tuple[socket.socket, socket.socket, int],
) -> None:
    """Twice the limit of peers may be connected, with those in their handshake; the next one is refused."""
    client, ours, port = ends
    handshakes = PendingHandshakes(port, RouterLimits(max_peers=2), refresh=nothing)
    assert handshakes.accepted(1_000_001, 0, 2)
    assert handshakes.accepted(1_000_002, 0, 2)
    assert not handshakes.accepted(ours.fileno(), 0, 2)
    assert client.recv(1) == b""


def test_reused_descriptor_is_not_a_silent_connection(
    ends: tuple[socket.socket, socket.socket, int],
) -> None:
    """The sweep finds a silent connection that has ended; a new one has its descriptor."""
    client, ours, port = ends
    number = ours.fileno()

    def refresh() -> None:
        handshakes.gone(number)
        handshakes.accepted(number, 500, 0)

    handshakes = PendingHandshakes(port, RouterLimits(handshake_timeout_ms=100), refresh=refresh)
    handshakes.accepted(number, 0, 0)
    handshakes.sweep(500)
    ours.sendall(b"still here")
    assert client.recv(20) == b"still here"
    assert len(handshakes) == 1
